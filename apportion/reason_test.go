package apportion

import (
	"fmt"
	"testing"
)

// Held by its capacity means that a larger one lets the target run more. With LargestRemainder its
// exact share exceeds the capacity, but rounding may stop there; so no more than a replica is wrong
// then. Where replicas stay and exactly the total is placed and runs, a larger capacity turns
// growing into shrinking, and the reason makes no promise. What keeps all that it took over, as far
// as it runs, would have taken over more.
func TestReasonCapacityMeansALargerOneHelps(t *testing.T) {
	seen := map[bool]int{}
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		got := must(r)
		var placed int64
		for _, n := range placedAndRuns(r) {
			placed += n
		}
		if stays(r) && placed == r.Replicas+got.Excess {
			return nil
		}
		for i, target := range r.Targets {
			if target.Capacity == nil {
				continue
			}
			lifted := changed(r, func(r *Request) {
				r.Targets[i].Capacity = new(MaxReplicas)
				if taken := target.Taken; taken != nil && *taken >= *target.Capacity {
					r.Targets[i].Taken = new(MaxReplicas) // it would have taken over more
				}
			})
			more := running(must(lifted))[target.Name] > running(got)[target.Name]
			held := got.Targets[i].Reason == ReasonCapacity
			seen[held]++
			rounding := held && proportional(r) && !divisorMethod(r) && got.Targets[i].Pending == 0
			if held != more && !rounding {
				return compareRequests(fmt.Sprintf("%s held %v, a larger capacity helps %v", target.Name, held, more), r, lifted)
			}
		}
		return nil
	})
	if seen[true] < 1000 || seen[false] < 1000 {
		t.Errorf("too few cases of one kind: %v", seen)
	}
}

// The other reasons are what their names say.
func TestReasonsAreTrue(t *testing.T) {
	seen := map[Reason]int{}
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		free := changed(r, func(r *Request) { r.Rebalance = nil })
		got, moved := must(r), running(must(free))
		for i, target := range r.Targets {
			a := got.Targets[i]
			runs := a.Replicas - a.Pending
			seen[a.Reason]++
			var ok bool
			switch a.Reason {
			case ReasonCapacity:
				ok = target.Capacity != nil && runs == *target.Capacity
			case ReasonMax:
				ok = runs == maxOf(target)
			case ReasonMin:
				ok = target.Min > 0 && runs <= target.Min
			case ReasonSticky:
				ok = stays(r) && runs == target.Current && runs != moved[target.Name]
			case ReasonOrder:
				ok = r.Policy == Priority
			case ReasonWeight:
				ok = r.Policy != Priority
			}
			if !ok {
				return fmt.Errorf("%s: %s is not %s: %+v", describe(r), a.Name, a.Reason, got)
			}
		}
		return nil
	})
	if len(seen) != 6 {
		t.Errorf("not every reason was met: %v", seen)
	}
}
