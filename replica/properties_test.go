package replica

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
)

// ago draws a time in the two hours before noon, in whole seconds.
func ago(t *rapid.T, name string) time.Time {
	return noon.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, name)) * time.Second)
}

// assessed draws a pod, of any state that a pod can be in.
func assessed(t *rapid.T) podhealth.Pod {
	p := podhealth.Pod{
		Created:     ago(t, "created"),
		Phase:       rapid.SampledFrom([]v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodRunning, v1.PodFailed}).Draw(t, "phase"),
		Terminating: rapid.IntRange(0, 5).Draw(t, "terminating") == 0,
	}
	if p.Phase != v1.PodRunning {
		return p
	}
	p.WasReady = rapid.Bool().Draw(t, "was ready")
	if p.Ready = p.WasReady && rapid.Bool().Draw(t, "ready"); p.Ready {
		p.ReadySince = ago(t, "ready since")
	}
	if p.CrashLooping = rapid.IntRange(0, 2).Draw(t, "crash looping") == 0; p.CrashLooping {
		p.CrashLoopingSince = ago(t, "crash looping since")
		if rapid.Bool().Draw(t, "restarted") {
			p.SteadyAt = ago(t, "started").Add(10 * time.Minute)
		}
	}
	return p
}

// anyHealth draws a health that may have been stored.
func anyHealth(t *rapid.T) Health {
	number := rapid.Int32Range(0, 12)
	stored := func(name string) *metav1.Time {
		if rapid.Bool().Draw(t, name+" is set") {
			return podhealth.Stamp(ago(t, name))
		}
		return nil
	}
	h := Health{Size: number.Draw(t, "size"), Running: number.Draw(t, "running"), BelowSizeSince: stored("below size since")}
	if rapid.Bool().Draw(t, "blocked") {
		h.Capacity, h.BlockedSince, h.FineSince = new(number.Draw(t, "capacity")), podhealth.Stamp(ago(t, "blocked since")), stored("fine since")
	}
	if h.Running < h.Size {
		h.NotStarted = rapid.Int32Range(0, h.Size-h.Running).Draw(t, "not started")
	}
	return h
}

// observed draws an observation.
func observed(t *rapid.T) (before Health, size int32, all []podhealth.Pod) {
	return anyHealth(t), rapid.Int32Range(0, 12).Draw(t, "asked for"), rapid.SliceOfN(rapid.Custom(assessed), 0, 12).Draw(t, "pods")
}

// The counts stay within the pods and the size, whatever the order of the pods, and nothing handed
// in is changed.
func TestCountsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, size, all := observed(t)
		h := observe(before, size, all, timeout, &podhealth.Timer{Now: noon})
		if h.Running < 0 || int(h.Running) > len(all) || h.NotStarted < 0 || h.NotStarted > max(0, size-h.Running) {
			t.Fatalf("%+v of %d pods", h, len(all))
		}
		if (h.BelowSizeSince == nil) != (h.Running >= size) || h.BelowSizeSince != nil && h.BelowSizeSince.After(noon) {
			t.Fatalf("%+v", h)
		}
		shuffled := rapid.Permutation(all).Draw(t, "shuffled")
		if again := observe(before, size, shuffled, timeout, &podhealth.Timer{Now: noon}); !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v, in another order %+v", h, again)
		}
	})
}

// No replica counts as not started before the timeout has passed for it.
func TestEveryReplicaHasItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, size, all := observed(t)
		oldest := noon
		for _, p := range all {
			for _, since := range []time.Time{p.Created, p.CrashLoopingSince} {
				if !since.IsZero() && since.Before(oldest) {
					oldest = since
				}
			}
		}
		if s := before.BelowSizeSince; s != nil && s.Time.Before(oldest) {
			oldest = s.Time
		}
		if h := observe(before, size, all, noon.Sub(oldest)+1, &podhealth.Timer{Now: noon}); h.NotStarted != 0 {
			t.Fatalf("%+v", h)
		}
	})
}

// If nothing happens, neither the counts nor the capacity change before the timer says so.
func TestNothingChangesBeforeNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, size, all := observed(t)
		look := func(before Health, now time.Time) (Health, podhealth.Timer) {
			timer := podhealth.Timer{Now: now}
			target := Target{Before: before, Now: observe(before, size, all, timeout, &timer)}
			Learn([]*Target{&target}, stable, &timer)
			return target.Now, timer
		}
		first, _ := look(before, noon)
		h, timer := look(first, noon)
		latest := noon.Add(24 * time.Hour)
		if !timer.Next.IsZero() {
			latest = timer.Next.Add(-1)
		}
		later := noon.Add(time.Duration(rapid.Int64Range(0, int64(latest.Sub(noon))).Draw(t, "later")))
		if again, _ := look(h, later); !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v, after %v %+v; next was %v", h, later.Sub(noon), again, timer.Next)
		}
	})
}

// A capacity appears and falls only with replicas that have not started, and then at once. It rises
// or goes only after the stabilization time. It is never higher than what runs when it is learned.
func TestCapacityIsLearnedAtOnceAndForgottenLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := make([]*Target, rapid.IntRange(1, 4).Draw(t, "targets"))
		for i := range targets {
			before, size, all := observed(t)
			targets[i] = &Target{Before: before, Now: observe(before, size, all, timeout, &podhealth.Timer{Now: noon}),
				Pinned: rapid.IntRange(0, 4).Draw(t, "pinned") == 0}
		}
		Learn(targets, stable, &podhealth.Timer{Now: noon})
		for _, target := range targets {
			was, is, h := target.Before.Capacity, target.Now.Capacity, target.Now
			if (is == nil) != (h.BlockedSince == nil) || is == nil && h.FineSince != nil {
				t.Fatalf("%+v", h)
			}
			late := target.Before.FineSince != nil && !noon.Before(target.Before.FineSince.Add(stable))
			switch {
			case target.Pinned:
				if !reflect.DeepEqual(was, is) {
					t.Fatalf("pinned, from %v to %v", was, is)
				}
			case was == nil && (is != nil) != (h.NotStarted > 0), was == nil && is != nil && *is != h.Running:
				t.Fatalf("learned %v: %+v", is, h)
			case was != nil && (is == nil || *is > *was) && !late:
				t.Fatalf("%d is forgotten early: %+v", *was, target)
			case was != nil && is != nil && *is < *was && h.NotStarted == 0:
				t.Fatalf("%d falls to %d without need: %+v", *was, *is, target)
			case is != nil && h.NotStarted > 0 && *is > h.Running:
				t.Fatalf("%d is more than runs: %+v", *is, target)
			}
		}
	})
}

// What is pending never makes a target larger than its maximum, and without a known capacity
// nothing is added.
func TestPendingIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Int64Range(0, 20)
		h := anyHealth(t)
		request := apportion.Request{Replicas: number.Draw(t, "replicas"),
			Targets: []apportion.Target{{Name: "a"}, {Name: "b", Weight: new(number.Draw(t, "weight"))}}}
		for i := range request.Targets {
			request.Targets[i].Max = new(number.Draw(t, "max"))
		}
		(&Target{Now: h}).Limit(&request.Targets[0])
		result, err := apportion.Distribute(request)
		if err != nil {
			t.Fatal(err)
		}
		a, r := request.Targets[0], result.Targets[0]
		target := Target{Now: h}
		target.Assign(a, r, r, result.Unplaced, 1)
		pending := int64(target.Pending)
		if int64(target.Desired) != r.Replicas-r.Pending+pending {
			t.Fatalf("%+v", target)
		}
		if pending < r.Pending || r.Replicas-r.Pending+pending > *a.Max {
			t.Fatalf("%d pending of %+v, at most %d", pending, r, *a.Max)
		}
		if h.Capacity == nil && pending != r.Pending {
			t.Fatalf("%d pending of %+v, with no capacity", pending, r)
		}
		if r.Reason == apportion.ReasonCapacity && r.Replicas < *a.Max && pending == 0 {
			t.Fatalf("no probe: %+v", r)
		}
	})
}
