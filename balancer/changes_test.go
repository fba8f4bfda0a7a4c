package balancer

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// blocked has 10 replicas on a, which is able to run some of them; the others run on b instead.
func blocked(t *testing.T, able int32) *fakeCluster {
	t.Helper()
	w := pair()
	w.able[0] = able
	w.run()
	must(t, w.converge())
	w.after(t, 1, timeout+time.Second, fmt.Sprintf("[10 %d]", 10-able))
	return w
}

// after lets a time pass as often as said, and checks the sizes then.
func (w *fakeCluster) after(t *testing.T, times int, d time.Duration, want string) {
	t.Helper()
	for range times {
		must(t, w.wait(d))
	}
	if got := fmt.Sprint(w.sizes); got != want {
		t.Fatalf("sizes %s after %d times %v, want %s", got, times, d, want)
	}
}

// A Balancer may be changed in the middle of a fallback.
func TestChangesDuringAFallback(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeCluster)
		want   string
		later  string // when a has had all of its nodes for long; empty for the same
	}{
		"nothing":                             {func(*fakeCluster) {}, "[10 4]", "[10 0]"},
		"no fallback":                         {func(w *fakeCluster) { w.in.Spec.Policy.Fallback = nil }, "[10 4]", "[10 0]"},
		"more":                                {func(w *fakeCluster) { *w.in.Spec.Replicas = 12 }, "[12 6]", "[12 0]"},
		"fewer":                               {func(w *fakeCluster) { *w.in.Spec.Replicas = 8 }, "[8 2]", "[8 0]"},
		"as many as it runs":                  {func(w *fakeCluster) { *w.in.Spec.Replicas = 6 }, "[6 0]", ""},
		"none":                                {func(w *fakeCluster) { *w.in.Spec.Replicas = 0 }, "[0 0]", ""},
		"a higher minimum of what is blocked": {func(w *fakeCluster) { w.in.Spec.Targets[0].MinReplicas = new(int32(12)) }, "[12 6]", "[12 0]"},
		"a higher minimum beside it":          {func(w *fakeCluster) { w.in.Spec.Targets[1].MinReplicas = new(int32(7)) }, "[3 7]", ""},
		"minimums beyond the total": {func(w *fakeCluster) {
			w.in.Spec.Targets[0].MinReplicas, w.in.Spec.Targets[1].MinReplicas = new(int32(8)), new(int32(8))
		}, "[8 10]", "[8 8]"},
		"a lower maximum":    {func(w *fakeCluster) { w.in.Spec.Targets[0].MaxReplicas = new(int32(5)) }, "[5 5]", ""},
		"another order":      {func(w *fakeCluster) { w.in.Spec.Policy = withFallback(priority("b", "a")) }, "[0 10]", ""},
		"another name of it": {func(w *fakeCluster) { w.rename(0, "c") }, "[10 4]", "[10 0]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := blocked(t, 6)
			c.change(w)
			must(t, w.converge())
			w.after(t, 1, timeout+time.Second, c.want)
			w.able[0] = 1000
			w.after(t, 3, stable+time.Second, cmp.Or(c.later, c.want))
		})
	}
}

// rename calls a target otherwise; it refers to the same object.
func (w *fakeCluster) rename(i int, name string) {
	before := w.in.Spec.Targets[i].Name
	w.in.Spec.Targets[i].Name = name
	for j, named := range w.in.Spec.Policy.Priorities.TargetOrder {
		if named == before {
			w.in.Spec.Policy.Priorities.TargetOrder[j] = name
		}
	}
}

// passPinned makes one pass while a target cannot be read or is in conflict.
func (w *fakeCluster) passPinned(t *testing.T, i int, conflict bool) Decision {
	t.Helper()
	w.observe()
	w.in.Conflicts = nil
	if name := w.in.Spec.Targets[i].Name; conflict {
		w.in.Conflicts = map[string]string{name: "shared"}
	} else {
		w.in.Targets[i] = TargetObservation{Name: name, Err: errors.New("no answer")}
	}
	d, err := Decide(w.in)
	must(t, err)
	w.apply(d)
	w.in.Conflicts = nil
	return d
}

// What runs in place of a blocked target goes on to do so when that can no longer be read.
func TestBlockedTargetThatIsPinned(t *testing.T) {
	for _, conflict := range []bool{false, true} {
		w := blocked(t, 6)
		for range 3 {
			d := w.passPinned(t, 0, conflict)
			if s := d.Status.Targets[0]; fmt.Sprint(w.sizes) != "[10 4]" || s.Desired != 10 || s.Pending != 4 {
				t.Errorf("conflict %v: sizes %v, %+v", conflict, w.sizes, s)
			}
			checkCondition(t, d, v1alpha1.ConditionFallbackActive, "of a are started")
			w.in.Now = w.in.Now.Add(stable)
		}
		w.in.Spec.Policy.Fallback = nil
		d := w.passPinned(t, 0, conflict)
		if s := d.Status.Targets[0]; fmt.Sprint(w.sizes) != "[10 4]" || s.Capacity != nil {
			t.Errorf("conflict %v, no fallback: sizes %v, %+v", conflict, w.sizes, s)
		}
		checkCondition(t, d, v1alpha1.ConditionFallbackActive, "")
	}
}

// Pods of a target in conflict may be counted elsewhere: nothing is started in their place.
func TestConflictStartsNoFallback(t *testing.T) {
	w := pair()
	must(t, w.converge())
	w.pods[0] = nil
	for range 3 {
		if d := w.passPinned(t, 0, true); len(d.Writes) > 0 || d.Status.Targets[0].Capacity != nil {
			t.Errorf("%+v", d)
		}
		w.in.Now = w.in.Now.Add(timeout)
	}
}

// Replicas do not leave for a target that cannot be read before they were seen to run there.
func TestMovesWaitForPinnedTargets(t *testing.T) {
	w := pair()
	must(t, w.converge())
	w.in.Spec.Policy = priority("b", "a")
	_, err := w.pass() // b has 10 now, which do not run yet
	must(t, err)
	for range 3 {
		if w.passPinned(t, 1, false); fmt.Sprint(w.sizes) != "[10 10]" {
			t.Errorf("sizes %v", w.sizes)
		}
		w.in.Now = w.in.Now.Add(timeout)
	}
	w.run()
	must(t, w.converge())
	if fmt.Sprint(w.sizes) != "[0 10]" {
		t.Errorf("later sizes %v", w.sizes)
	}
}

// A rolling update adds pods beyond the size, which may wait for as long as the others run, and
// takes some away.
func TestRollingUpdateMovesNothing(t *testing.T) {
	w := pair()
	must(t, w.converge())
	w.pods[0] = append(w.pods[0], podhealth.Pod{Created: noon, Phase: "Pending"}, podhealth.Pod{Created: noon, Phase: "Pending"},
		podhealth.Pod{Created: noon, Phase: "Pending"})
	for range 4 {
		d, err := w.pass()
		must(t, err)
		if s := d.Status.Targets[0]; len(d.Writes) > 0 || s.NotStarted != 0 || s.Capacity != nil {
			t.Errorf("writes %v, %+v", d.Writes, s)
		}
		w.in.Now = w.in.Now.Add(timeout)
	}
	w.pods[0] = w.pods[0][:10]
	for i := range w.pods[0] { // one after another is replaced, within the time it may take
		w.pods[0][i] = podhealth.Pod{Created: w.in.Now, Phase: "Pending"}
		for range 2 {
			d, err := w.pass()
			must(t, err)
			if len(d.Writes) > 0 {
				t.Errorf("writes %v", d.Writes)
			}
			w.in.Now = w.in.Now.Add(timeout / 2)
		}
		w.pods[0][i] = podhealth.Pod{Created: w.pods[0][i].Created, Phase: "Running", WasReady: true, Ready: true, ReadySince: w.in.Now}
	}
}

// The pods of a target that is being deleted are terminating: others stand in for it after the
// timeout, also when it is gone.
func TestTargetThatIsBeingDeleted(t *testing.T) {
	w := pair()
	must(t, w.converge())
	for i := range w.pods[0] {
		w.pods[0][i].Terminating = true
	}
	_, err := w.pass()
	must(t, err)
	if fmt.Sprint(w.sizes) != "[10 0]" {
		t.Errorf("sizes %v", w.sizes)
	}
	w.in.Now = w.in.Now.Add(timeout + time.Second)
	w.pods[0] = nil
	_, err = w.pass()
	must(t, err)
	for range 2 {
		if fmt.Sprint(w.sizes) != "[10 10]" {
			t.Errorf("sizes %v", w.sizes)
		}
		w.in.Now = w.in.Now.Add(time.Hour)
		w.passPinned(t, 0, false)
	}
}

// A target that is to have no replicas any more keeps those that run for as long as nobody else is
// able to run them.
func TestReplicasStayUntilTheyRunElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeCluster)
		stay   string // while the other target runs four
		later  string // when it runs all
	}{
		"another order": {func(w *fakeCluster) { w.in.Spec.Policy = withFallback(priority("b")) }, "[6 10]", "[0 10]"},
		"other rates":   {func(w *fakeCluster) { w.in.Spec.Policy = withFallback(proportional(map[string]int32{"b": 1})) }, "[6 10]", "[0 10]"},
		"a maximum":     {func(w *fakeCluster) { w.in.Spec.Targets[0].MaxReplicas = new(int32(5)) }, "[6 5]", "[5 5]"},
		"fewer": {func(w *fakeCluster) {
			*w.in.Spec.Replicas, w.in.Spec.Policy = 7, withFallback(priority("b"))
		}, "[3 7]", "[0 7]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeCluster(specOf(10, withFallback(priority("a", "b")), targetOf("a", -1, -1), targetOf("b", -1, -1)), 10, 0)
			must(t, w.converge())
			w.able[1] = 4
			c.change(w)
			w.after(t, 3, timeout+time.Second, c.stay) // the others cannot run them
			w.able[1] = 1000
			w.after(t, 3, stable+time.Second, c.later)
		})
	}
}

// A number that rises and falls while the proportions turn takes no running replica away: those that have
// not started leave.
func TestRiseAndFallKeepsWhatRuns(t *testing.T) {
	w := newFakeCluster(specOf(10, proportional(map[string]int32{"a": 8, "b": 2}), targetOf("a", -1, -1), targetOf("b", -1, -1)), 8, 2)
	must(t, w.converge())
	w.in.Spec.Replicas = new(int32(16))
	if _, err := w.pass(); err != nil { // the new ones are starting
		t.Fatal(err)
	}
	w.in.Spec.Replicas, w.in.Spec.Policy.Proportions.TargetProportions = new(int32(10)), map[string]int32{"a": 7, "b": 3}
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.sizes); got != "[8 3]" {
		t.Errorf("sizes %s while eight and two run; want [8 3]", got)
	}
}
