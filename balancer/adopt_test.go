package balancer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// blockedThird has six replicas on three targets, of which one is not able to run its two: four run
// on each of the others' three.
func blockedThird(t *testing.T) *fakeCluster {
	t.Helper()
	w := newFakeCluster(specOf(6, withFallback(proportional(map[string]int32{"a": 1, "b": 1, "c": 1})), targetOf("a", -1, -1),
		targetOf("b", -1, -1), targetOf("c", -1, -1)), 2, 2, 2)
	must(t, w.converge())
	w.able[2] = 0
	must(t, w.wait(time.Second))
	must(t, w.wait(timeout+time.Second))
	if fmt.Sprint(w.sizes) != "[3 3 2]" {
		t.Fatalf("sizes %v", w.sizes)
	}
	return w
}

// Where spec.replicas is taken away, in the middle of a fallback or of moves, the number that it
// had is set again: neither pending copies count, nor both halves of a move.
func TestUnsetReplicasComeBack(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, w *fakeCluster, want int32) {
		t.Helper()
		for range 3 {
			w.in.Spec.Replicas = nil
			must(t, w.wait(timeout+time.Second))
			if got := w.in.Spec.Replicas; got == nil || *got != want {
				t.Fatalf("adopted %v, want %d, sizes %v", ptr.Deref(got, -1), want, w.sizes)
			}
		}
	}
	t.Run("in a fallback", func(t *testing.T) { check(t, blockedThird(t), 6) })
	t.Run("in a fallback without room", func(t *testing.T) {
		w := blockedThird(t)
		w.able[0], w.able[1] = 2, 2
		must(t, w.wait(timeout+time.Second))
		check(t, w, 6)
	})
	t.Run("while the order is turned round", func(t *testing.T) {
		w := newFakeCluster(specOf(6, withFallback(priority("a", "b")), targetOf("a", -1, -1), targetOf("b", -1, -1)), 6, 0)
		must(t, w.converge())
		w.in.Spec.Policy.Priorities.TargetOrder = []string{"b", "a"}
		_, err := w.pass()
		must(t, err)
		if fmt.Sprint(w.sizes) != "[6 6]" {
			t.Fatalf("sizes %v", w.sizes)
		}
		check(t, w, 6)
	})
}

// A Balancer that is created anew has no status: what has not started in time does not count, and
// what is starting is waited for.
func TestRecreatedBalancerAdopts(t *testing.T) {
	t.Parallel()
	w := blockedThird(t)
	w.in.Status, w.in.Spec.Replicas = v1alpha1.BalancerStatus{}, nil
	for i := range w.pods[2] {
		w.pods[2][i].Created = w.in.Now.Add(-time.Minute) // they were created again, too
	}
	d, err := w.pass()
	must(t, err)
	if d.Adopt != nil {
		t.Fatalf("adopted %d while pods are starting", *d.Adopt)
	}
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBalanced)
	if c.Reason != ReasonReplicasNotSet || d.Next.IsZero() {
		t.Errorf("%+v, next %v", c, d.Next)
	}
	w.in.Now = d.Next
	for range 2 { // the first notes since when pods are missing
		d, err = w.pass()
		must(t, err)
		if d.Adopt != nil {
			break
		}
		w.in.Now = d.Next
	}
	if d.Adopt == nil || *d.Adopt != 6 {
		t.Errorf("adopted %v, want 6", ptr.Deref(d.Adopt, -1))
	}
}

// A target that does not exist yet may be about to be created: nothing is adopted without it.
func TestNothingIsAdoptedBeforeAllTargetsExist(t *testing.T) {
	t.Parallel()
	w := newFakeCluster(specOf(0, proportional(map[string]int32{"a": 1, "b": 1}), targetOf("a", -1, -1), targetOf("b", -1, -1)), 3, 4)
	w.in.Spec.Replicas = nil
	w.observe()
	w.in.Targets[1] = missing("b")
	d, err := Decide(w.in)
	must(t, err)
	if d.Adopt != nil {
		t.Errorf("adopted %d", *d.Adopt)
	}
}

func missing(name string) TargetObservation {
	return TargetObservation{Name: name, Err: errors.New("not found"), Missing: true}
}

// The replicas of a target that was deleted run elsewhere; one that cannot be read keeps its own.
func TestDeletedTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		observed TargetObservation
		want     string
		reason   string
		because  string
	}{
		"deleted":    {missing("b"), "[10]", ReasonMissing, ReasonTargetMissing},
		"unreadable": {TargetObservation{Name: "b", Err: errors.New("forbidden")}, "[5]", ReasonUnreadable, ReasonUnreadable},
	} {
		w := newFakeCluster(specOf(10, withFallback(proportional(map[string]int32{"a": 1, "b": 1})), targetOf("a", -1, -1), targetOf("b", 2, -1)),
			5, 5)
		must(t, w.converge())
		var d Decision
		for i := range 3 {
			w.observe()
			w.in.Targets[1] = c.observed
			var err error
			d, err = Decide(w.in)
			must(t, err)
			if i > 0 && (len(d.Writes) > 0 || told(d, ReasonTargetMissing)) {
				t.Errorf("%s: not settled: %v", name, d)
			}
			if i == 0 && told(d, ReasonTargetMissing) != (c.reason == ReasonMissing) {
				t.Errorf("%s: events %v", name, d.Events)
			}
			w.apply(d)
			w.run()
		}
		s := d.Status
		if got := fmt.Sprint(w.sizes[:1]); got != c.want || s.Targets[1].Reason != c.reason {
			t.Errorf("%s: %s of a, want %s: %+v", name, got, c.want, s.Targets)
		}
		readable := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionTargetsReadable)
		if readable.Status != metav1.ConditionFalse || readable.Reason != c.because {
			t.Errorf("%s: %+v", name, readable)
		}
		w.sizes[1] = 1 // it is created again, with the default size
		must(t, w.wait(time.Second))
		if got := fmt.Sprint(w.sizes); got != "[5 5]" {
			t.Errorf("%s: %s when it is back", name, got)
		}
	}
}

// Times that are stored and still to come, as after a clock was set back, hold nothing up.
func TestTimesInTheFutureAreClamped(t *testing.T) {
	t.Parallel()
	future := metav1.NewTime(noon.Add(1000 * time.Hour))
	t.Run("of a target", func(t *testing.T) {
		w := blockedThird(t)
		w.able[2] = 10
		must(t, w.wait(time.Second))
		s := &w.in.Status.Targets[2]
		s.FineSince, s.BlockedSince, s.BelowSizeSince = &future, &future, &future
		must(t, w.wait(time.Second))
		must(t, w.wait(stable))
		if fmt.Sprint(w.sizes) != "[2 2 2]" {
			t.Errorf("sizes %v", w.sizes)
		}
	})
	t.Run("below its size", func(t *testing.T) {
		w := pair()
		must(t, w.converge())
		w.able[0] = 6
		must(t, w.wait(time.Second))
		w.in.Status.Targets[0].BelowSizeSince = &future
		for i := range w.pods[0] {
			w.pods[0][i].Created = future.Time
		}
		must(t, w.wait(time.Second))
		must(t, w.wait(timeout+time.Second))
		if fmt.Sprint(w.sizes) != "[10 4]" {
			t.Errorf("sizes %v", w.sizes)
		}
	})
	t.Run("of moves", func(t *testing.T) {
		w := newFakeCluster(specOf(6, priority("b", "a"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 6, 0)
		w.in.Spec.Policy.MaxMovesPerMinute = new(int32(6))
		w.in.Status.Moves = &v1alpha1.ReplicaMoves{Count: 6, LastTime: future}
		must(t, w.converge())
		must(t, w.wait(time.Minute+time.Second))
		if fmt.Sprint(w.sizes) != "[0 6]" {
			t.Errorf("sizes %v", w.sizes)
		}
	})
	t.Run("of conditions", func(t *testing.T) {
		w := pair()
		must(t, w.converge())
		for i := range w.in.Status.Conditions {
			w.in.Status.Conditions[i].LastTransitionTime = future
		}
		must(t, w.wait(time.Second))
		for _, c := range w.in.Status.Conditions {
			if c.LastTransitionTime.After(w.in.Now) {
				t.Errorf("%s changed at %v", c.Type, c.LastTransitionTime)
			}
		}
	})
}

// Available and Progressing say whether the pods run, and whether waiting helps.
func TestAvailableAndProgressing(t *testing.T) {
	t.Parallel()
	check := func(w *fakeCluster, available metav1.ConditionStatus, progressing metav1.ConditionStatus, reason string) {
		t.Helper()
		a := meta.FindStatusCondition(w.in.Status.Conditions, v1alpha1.ConditionAvailable)
		p := meta.FindStatusCondition(w.in.Status.Conditions, v1alpha1.ConditionProgressing)
		if a.Status != available || p.Status != progressing || p.Reason != reason {
			t.Errorf("%+v\n%+v, want %s, %s %s", a, p, available, progressing, reason)
		}
	}
	w := blockedThird(t)
	check(w, metav1.ConditionTrue, metav1.ConditionFalse, ReasonNotStartedInTime)
	if w.in.Status.Running != 6 {
		t.Errorf("%d run", w.in.Status.Running)
	}
	w.able[0], w.able[1] = 1, 3
	must(t, w.wait(time.Second))
	check(w, metav1.ConditionFalse, metav1.ConditionFalse, ReasonNotStartedInTime)
	w.able = []int32{100, 100, 100}
	must(t, w.wait(time.Second))
	must(t, w.wait(2*stable))
	check(w, metav1.ConditionTrue, metav1.ConditionTrue, ReasonComplete)
	w.in.Spec.Replicas = new(int32(9))
	_, err := w.pass()
	must(t, err)
	check(w, metav1.ConditionFalse, metav1.ConditionTrue, ReasonStarting)
}

// An event about a fallback reports the size that was found, not of the one that is written next.
func TestFallbackEventsTellWhatWasFound(t *testing.T) {
	t.Parallel()
	w := newFakeCluster(specOf(3, withFallback(priority("a", "b")), targetOf("a", -1, -1), targetOf("b", -1, -1)), 0, 3)
	w.late(1, 3)
	d, err := w.pass()
	must(t, err)
	for _, e := range d.Events {
		if e.Reason == ReasonFallbackStarted && e.Message != "target b runs 0 of 3 replicas, some have not started in time" {
			t.Error(e.Message)
		}
	}
	if !told(d, ReasonFallbackStarted) {
		t.Errorf("events %v", d.Events)
	}
	w.run()
	must(t, w.converge())
	w.in.Now = w.in.Now.Add(2 * stable)
	d, err = w.pass()
	must(t, err)
	for _, e := range d.Events {
		if e.Reason == ReasonFallbackEnded && e.Message != "target b has no replicas to run any more" {
			t.Error(e.Message)
		}
	}
}
