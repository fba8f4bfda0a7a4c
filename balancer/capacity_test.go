package balancer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// pair has 10 replicas on a and none on b, which is next in the order.
func pair() *fakeCluster {
	return newFakeCluster(specOf(10, withFallback(priority("a", "b")), targetOf("a", -1, -1), targetOf("b", -1, -1)), 10, 0)
}

// The story of a fallback: nodes vanish, replicas start elsewhere after the timeout, come back when
// the target has been well for the stabilization time.
func TestFallbackAndReturn(t *testing.T) {
	w := pair()
	w.forgetful = true
	must(t, w.converge())
	expect := func(when time.Duration, sizes string, events ...string) Decision {
		t.Helper()
		w.in.Now = noon.Add(when)
		w.run()
		d, err := w.pass()
		must(t, err)
		w.run()
		if got := fmt.Sprint(w.sizes); got != sizes {
			t.Errorf("at %v: sizes %s, want %s", when, got, sizes)
		}
		for _, e := range events {
			if !told(d, e) {
				t.Errorf("at %v: no event %s", when, e)
			}
		}
		return d
	}
	expect(0, "[10 0]")
	w.able[0] = 6
	w.in.Now = noon.Add(time.Minute)
	w.pods[0] = w.pods[0][:6] // the other four are created again
	d := expect(time.Minute, "[10 0]")
	if want := noon.Add(6*time.Minute + 1); !d.Next.Equal(want) {
		t.Errorf("next %v, want %v", d.Next, want)
	}
	expect(6*time.Minute, "[10 0]")
	d = expect(6*time.Minute+1, "[10 4]", ReasonFallbackStarted, ReasonRescaled)
	checkCondition(t, d, v1alpha1.ConditionFallbackActive, "of a are started")
	w.able[0] = 10
	d = expect(20*time.Minute, "[10 4]")
	if want := noon.Add(25 * time.Minute); !d.Next.Equal(want) {
		t.Errorf("next %v, want %v", d.Next, want)
	}
	w.able[0] = 9 // one more failure starts the time again
	expect(24*time.Minute, "[10 4]")
	w.able[0] = 10
	expect(26*time.Minute, "[10 4]")
	expect(31*time.Minute-1, "[10 4]")
	d = expect(31*time.Minute, "[10 0]", ReasonFallbackEnded, ReasonRescaled)
	checkCondition(t, d, v1alpha1.ConditionFallbackActive, "")
	checkCondition(t, d, v1alpha1.ConditionBalanced, "has its share")
}

// Pods that are deleted and created again before the timeout are late all the same.
func TestRecreationDoesNotResetTheClock(t *testing.T) {
	w := pair()
	w.able[0] = 8
	for minutes := range 6 {
		w.in.Now = noon.Add(time.Duration(minutes) * time.Minute)
		w.pods[0] = w.pods[0][:8]
		w.run()
		must(t, w.converge())
		if w.sizes[1] != 0 {
			t.Fatalf("fallback after %d minutes", minutes)
		}
	}
	must(t, w.wait(time.Second))
	if w.sizes[1] != 2 {
		t.Errorf("sizes %v: no fallback after five minutes", w.sizes)
	}
}

// A target whose pods become fine one after another is not stuck, however long that takes as a
// whole.
func TestProgressResetsTheClock(t *testing.T) {
	w := pair()
	for i := range 10 {
		w.able[0] = int32(i)
		w.in.Now = w.in.Now.Add(2 * time.Minute)
		w.pods[0] = nil // young ones all
		w.run()
		must(t, w.converge())
	}
	if w.sizes[1] != 0 {
		t.Errorf("sizes %v: a fallback during a rolling update", w.sizes)
	}
}

// Pods that nobody creates are late when the target has been short for longer than the timeout.
func TestNeverCreated(t *testing.T) {
	w := pair()
	quota := func() Decision {
		w.pods[0] = w.pods[0][:7]
		d, err := w.pass()
		must(t, err)
		return d
	}
	quota()
	w.in.Now = noon.Add(timeout)
	if d := quota(); len(d.Writes) != 0 {
		t.Errorf("in time: %v", d.Writes)
	}
	w.in.Now = noon.Add(timeout + 1)
	d := quota()
	if s := d.Status.Targets[0]; s.NotStarted != 3 || *s.Capacity != 7 || w.sizes[1] != 3 {
		t.Errorf("sizes %v, %+v", w.sizes, s)
	}
}

// Terminating pods neither run nor fail.
func TestTerminatingPodsCountForNothing(t *testing.T) {
	w := pair()
	for i := range 5 {
		w.pods[0][i].Terminating = true
		w.pods[0] = append(w.pods[0], podhealth.Pod{Created: noon, Phase: v1.PodPending, Terminating: true})
	}
	d, err := w.pass()
	must(t, err)
	if s := d.Status.Targets[0]; s.Running != 5 || s.NotStarted != 0 || len(d.Writes) != 0 {
		t.Errorf("%+v", s)
	}
}

// A target that gets some of its nodes back counts for more after the stabilization time.
func TestCapacityRises(t *testing.T) {
	w := blocked(t, 4)
	w.able[0] = 8
	w.after(t, 1, time.Second, "[10 6]")
	w.after(t, 1, stable, "[10 2]")
}

// An autoscaler that adds a replica every minute does not keep a fallback from ending.
func TestGrowthIsNoInterruption(t *testing.T) {
	w := blocked(t, 4)
	w.able[0] = 1000
	for range 7 {
		must(t, w.wait(time.Minute))
		*w.in.Spec.Replicas++
	}
	if w.sizes[1] != 0 {
		t.Errorf("sizes %v", w.sizes)
	}
}

// A pod that fails after the others are well again starts the stabilization time once more, even if
// it is created again in time.
func TestFailureIsAnInterruption(t *testing.T) {
	w := blocked(t, 4)
	w.able[0] = 10
	must(t, w.wait(time.Second))
	must(t, w.wait(3*time.Minute))
	w.pods[0] = w.pods[0][:9] // one is evicted
	_, err := w.pass()
	must(t, err)
	must(t, w.wait(time.Minute))
	must(t, w.wait(stable-time.Second))
	if w.sizes[1] != 6 {
		t.Errorf("too early: sizes %v", w.sizes)
	}
	must(t, w.wait(time.Second))
	if w.sizes[1] != 0 {
		t.Errorf("too late: sizes %v", w.sizes)
	}
}

// Pods that come and go move a replica away no more than once within the stabilization time, and
// back no more than once; several of them that fail one after another move one each.
func TestFlappingPodsMoveLittle(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		w := pair()
		must(t, w.converge())
		flapping := 1 + r.Int32N(3)
		var away, back int32
		for range 240 { // two hours
			w.able[0] = 10 - r.Int32N(flapping+1)
			before := w.sizes[1]
			must(t, w.wait(30*time.Second))
			away += max(0, w.sizes[1]-before)
			back += max(0, before-w.sizes[1])
		}
		if limit := int32(2*time.Hour/stable) * flapping; away > limit || back > limit {
			t.Fatalf("seed %d: %d pods flap, %d replicas moved away and %d back; at most %d each may", seed, flapping, away, back, limit)
		}
	}
}

// What is remembered goes when there is no fallback any more.
func TestFallbackRemoved(t *testing.T) {
	w := pair()
	w.late(0, 4)
	d, err := w.pass()
	must(t, err)
	if w.sizes[1] != 4 {
		t.Fatalf("%+v", d)
	}
	w.in.Spec.Policy.Fallback = nil
	d, err = w.pass()
	must(t, err)
	if s := d.Status.Targets[0]; s.Capacity != nil || s.BlockedSince != nil || !told(d, ReasonFallbackEnded) {
		t.Errorf("%+v", d)
	}
}

// A blocked target that loses more nodes counts for less at once.
func TestCapacityFalls(t *testing.T) {
	w := blocked(t, 6)
	w.able[0] = 3
	w.after(t, 1, time.Second, "[10 7]")
}

// With rebalance false, what hangs does not count as placed.
func TestWhatHangsIsNotPlaced(t *testing.T) {
	policy := withFallback(proportional(map[string]int32{"a": 1, "b": 1}))
	policy.Rebalance = new(false)
	w := newFakeCluster(specOf(10, policy, targetOf("a", -1, -1), targetOf("b", -1, -1)), 8, 2)
	w.late(0, 4)
	_, err := w.pass()
	must(t, err)
	if fmt.Sprint(w.sizes) != "[5 6]" {
		t.Errorf("sizes %v", w.sizes)
	}
}

// The clock of replicas that are written now, and never created, starts now.
func TestTheClockStartsWithTheWrite(t *testing.T) {
	w := pair()
	*w.in.Spec.Replicas = 12
	d, err := w.pass()
	must(t, err)
	if want := noon.Add(timeout + 1); !d.Next.Equal(want) {
		t.Errorf("next %v, want %v", d.Next, want)
	}
	w.in.Now = d.Next
	_, err = w.pass()
	must(t, err)
	if fmt.Sprint(w.sizes) != "[12 2]" {
		t.Errorf("sizes %v", w.sizes)
	}
}

// A full target stays known as that where replicas stay: what is new runs elsewhere at once, and a copy shows when
// there is room again, for which nothing moves.
func TestFullTargetIsRememberedWhereReplicasStay(t *testing.T) {
	policy := withFallback(proportional(map[string]int32{"a": 1, "b": 1}))
	policy.Rebalance = new(false)
	w := newFakeCluster(specOf(16, policy, targetOf("a", -1, -1), targetOf("b", -1, -1)), 0, 0)
	w.able[0] = 6
	must(t, w.converge())
	for range 10 {
		must(t, w.wait(timeout+time.Second))
	}
	w.in.Spec.Replicas = new(int32(24))
	must(t, w.converge())
	if got := fmt.Sprint(w.sizes); got != "[7 18]" {
		t.Errorf("sizes %s, want a copy on a, and all new ones on b", got)
	}
	w.able[0] = 1 << 30
	must(t, w.wait(time.Second))
	must(t, w.wait(stable+time.Second))
	if got := fmt.Sprint(w.sizes); got != "[6 18]" {
		t.Errorf("sizes %s, want that nothing moved", got)
	}
	w.in.Spec.Replicas = new(int32(30))
	must(t, w.converge())
	if got := fmt.Sprint(w.sizes); got != "[12 18]" {
		t.Errorf("sizes %s, want the new ones on a", got)
	}
}
