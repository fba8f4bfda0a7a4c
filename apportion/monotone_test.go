package apportion

import (
	"fmt"
	"slices"
	"testing"
)

func TestMonotoneInTotal(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if proportional(r) && !divisorMethod(r) {
			return nil
		}
		return mayNotLose("a greater total", r, changed(r, func(r *Request) { r.Replicas += int64(1 + d(5)) }))
	})
}

// Whatever the rounding, going on from what runs takes nothing away on the way up and adds nothing
// on the way down.
func TestMonotoneInTotalFromThePreviousResult(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if !reliefAny(r) {
			return nil
		}
		r.Rebalance = new(false)
		next := settled(r, must(r))
		now := next
		next.Replicas = int64(d(60))
		if next.Replicas >= r.Replicas {
			return mayNotLose("a greater total", now, next)
		}
		return mayNotLose("going back", next, now)
	})
}

func TestRaisingCapacityNeverLowersThatTarget(t *testing.T) {
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		if !reliefAny(r) || len(r.Targets) == 0 {
			return nil
		}
		at := d(len(r.Targets))
		r.Targets[at].Capacity = new(int64(d(20)))
		raised := changed(r, func(r *Request) { r.Targets[at].Capacity = new(*r.Targets[at].Capacity + int64(1+d(9))) })
		before, after := running(must(r)), running(must(raised))
		for i, target := range r.Targets {
			gain := after[target.Name] - before[target.Name]
			if i == at && gain < 0 {
				return compareRequests("raising its capacity took from "+target.Name, r, raised)
			}
		}
		return nil
	})
}

func TestRaisingCapacityNeverRaisesAnotherTarget(t *testing.T) {
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		if !reliefAny(r) || len(r.Targets) == 0 || proportional(r) && !divisorMethod(r) {
			return nil
		}
		at := d(len(r.Targets))
		r.Targets[at].Capacity = new(int64(d(20)))
		raised := changed(r, func(r *Request) { r.Targets[at].Capacity = new(*r.Targets[at].Capacity + int64(1+d(9))) })
		before, after := running(must(r)), running(must(raised))
		for i, target := range r.Targets {
			if i != at && after[target.Name] > before[target.Name] {
				return compareRequests("raising another's capacity gave to "+target.Name, r, raised)
			}
		}
		return nil
	})
}

func without(r Request, at int) Request {
	return changed(r, func(r *Request) { r.Targets = slices.Delete(r.Targets, at, at+1) })
}

func TestRemovingTargetNeverLowersAnother(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if !reliefAny(r) || !divisorMethod(r) || len(r.Targets) == 0 || !minimumsFit(r) {
			return nil
		}
		return mayNotLose("removing a target", r, without(r, d(len(r.Targets))))
	})
}

func TestRemovingTargetNeverLowersAnotherFromThePreviousResult(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if !reliefAny(r) || len(r.Targets) == 0 || !minimumsFit(r) {
			return nil
		}
		r = settled(r, must(r))
		return mayNotLose("removing a target", r, without(r, d(len(r.Targets))))
	})
}

func TestRaisingWeightNeverLowersItsTarget(t *testing.T) {
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		if !reliefAny(r) || len(r.Targets) == 0 {
			return nil
		}
		at := d(len(r.Targets))
		low, high := int64(d(12)), d.weight()
		r.Targets[at].Weight = new(low)
		raised := changed(r, func(r *Request) { r.Targets[at].Weight = new(max(low, high)) })
		name := r.Targets[at].Name
		if running(must(raised))[name] < running(must(r))[name] {
			return compareRequests("raising its weight took from "+name, r, raised)
		}
		return nil
	})
}

// placedAndRuns is what of the current replicas can stay, by name: keepQ.
func placedAndRuns(r Request) map[string]int64 {
	p := newProblem(r)
	granted := p.grantMinimums()
	keep := map[string]int64{}
	for i, t := range p.targets {
		keep[r.Targets[t.index].Name] = min(max(t.current, granted[i]), t.max, t.capacity)
	}
	return keep
}

func TestMinimalMovement(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		r := d.request(40)
		if r.Relief == LaterOnly {
			return nil
		}
		r.Rebalance = new(false)
		got := must(r)
		keep := placedAndRuns(r)
		var moved, net int64
		for name, runs := range running(got) {
			moved += max(runs-keep[name], keep[name]-runs)
			net += runs - keep[name]
		}
		if moved != max(net, -net) {
			return fmt.Errorf("%s: %+v moves %d for %d, kept %v", describe(r), got, moved, net, keep)
		}
		return nil
	})
}

// Where the total wins over the minimums, they are granted where replicas are even if those cannot
// run, which may differ from where they run afterwards.
func TestMinimalMovementTheResultRepeats(t *testing.T) {
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		if !reliefAny(r) || r.Shortage == TotalWins && !minimumsFit(r) {
			return nil
		}
		r.Rebalance = new(false)
		again := settled(r, must(r))
		before, after := running(must(r)), running(must(again))
		for name := range before {
			if before[name] != after[name] {
				return compareRequests("the result moves", r, again)
			}
		}
		return nil
	})
}

func TestPriorityAnyLeavesNoEarlierTargetShort(t *testing.T) {
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		if proportional(r) || !reliefAny(r) || stays(r) {
			return nil
		}
		got := must(r)
		runs := func(i int) int64 { return got.Targets[i].Replicas - got.Targets[i].Pending }
		for later, target := range r.Targets {
			if runs(later) <= min(target.Min, capacityOf(target)) {
				continue
			}
			for i, earlier := range r.Targets[:later] {
				if weightOf(earlier) > 0 && runs(i) < min(maxOf(earlier), capacityOf(earlier)) {
					return fmt.Errorf("%s: %+v, %s is short", describe(r), got, earlier.Name)
				}
			}
		}
		return nil
	})
}

func TestNoHealthyTargetLosesBecauseAnotherIsBlocked(t *testing.T) {
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.request(40)
		healthy := changed(r, func(r *Request) {
			for i := range r.Targets {
				r.Targets[i].Capacity = nil
			}
		})
		desired := running(must(healthy))
		layouts := oracleSolve(r)
		for i, target := range layouts.targets {
			if desired[target.Name] != layouts.desired[i] {
				return fmt.Errorf("%s: with capacities lifted %v, desired %v", describe(r), desired, layouts.desired)
			}
		}
		runs := running(must(r))
		for _, target := range r.Targets {
			if target.Capacity == nil && runs[target.Name] < desired[target.Name] {
				return compareRequests(target.Name+" loses because another is blocked", healthy, r)
			}
		}
		return nil
	})
}
