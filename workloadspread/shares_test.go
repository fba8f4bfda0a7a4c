package workloadspread

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// sizes are the pods of the subsets.
func (w *fakeCluster) sizes() []int32 {
	out := make([]int32, len(w.spec.Subsets))
	for i := range out {
		out[i] = w.has(w.revision, i)
	}
	return out
}

// Percentages are as exact as the same weights, whatever the jump, and before the controller sees it.
func TestPercentagesAreExactOnTheWayDown(t *testing.T) {
	weighted := deployment("", "", "")
	weighted.Distribution = v1alpha1.DistributeWeighted
	for i, weight := range []int32{20, 20, 60} {
		weighted.Subsets[i].Weight = &weight
	}
	r := rand.New(rand.NewPCG(25, 7))
	w := newFakeCluster(t, deployment("20%", "20%", "60%"), 20)
	w.quiet()
	for range 60 {
		w.replicas, w.now = r.Int32N(25), w.now.Add(5*time.Second)
		w.scale(0, int(w.replicas), never)
		w.schedule()
		if got, want := w.sizes(), Limits(weighted, w.replicas, nil); !slices.Equal(got, want) {
			t.Fatalf("with %d: %v, want %v", w.replicas, got, want)
		}
		w.look()
		w.reconcile(1 << 30)
	}
	if got := Limits(w.spec, 10, nil); !slices.Equal(got, []int32{2, 2, 6}) {
		t.Errorf("of 10: %v", got)
	}
}

// Pods are created with the costs that the controller would give them: it writes none, and a workload
// shrinks in the right order while there is no controller.
func TestPodsHaveTheirCostsFromTheBeginning(t *testing.T) {
	for name, spec := range map[string]*v1alpha1.WorkloadSpreadSpec{
		"numbers": deployment("20", ""), "percentages": deployment("50%", ""), "even": even("", ""), "weighted": ratio(2, 20, 80),
		"a minimum": withMin(deployment("", ""), 1, 3),
	} {
		w := newFakeCluster(t, spec, 40)
		w.scale(0, 40, never)
		w.schedule()
		w.look()
		if d := w.reconcile(1 << 30); len(d.Costs) > 0 {
			t.Errorf("%s: the controller writes %d costs", name, len(d.Costs))
		}
	}
	w := newFakeCluster(t, deployment("20", ""), 40)
	w.scale(0, 40, never)
	w.schedule()
	w.replicas = 20
	w.scale(0, 20, never)
	if got := w.sizes(); !slices.Equal(got, []int32{20, 0}) {
		t.Errorf("from 40 to 20: %v", got)
	}
}

// Where pods have left between others, only those change their costs whose positions are wrong.
func TestFewCostsAreCorrected(t *testing.T) {
	w := newFakeCluster(t, even("", ""), 40)
	w.quiet()
	for _, i := range []int{3, 8, 21} {
		w.remove(w.pods[i])
	}
	w.scale(0, 40, never)
	w.schedule()
	w.look()
	if d := w.reconcile(1 << 30); len(d.Costs) > 3 {
		t.Errorf("%d costs are written for three new pods", len(d.Costs))
	}
}

// Without a controller the webhook counts by itself: whatever goes and comes, no subset has too many, no pod
// is refused, and shares are exact while the workload grows.
func TestSeatsAreExactWithoutAController(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 25))
		spec := []*v1alpha1.WorkloadSpreadSpec{deployment("4", "3", ""), deployment("20%", "30%", "50%"), even("", "", ""),
			deployment("8", "")}[seed%4]
		spec.WhenFull = v1alpha1.WhenFullRefuse
		w := newFakeCluster(t, spec, 1+r.Int32N(15))
		w.log("seed %d", seed)
		w.scale(0, int(w.replicas), never)
		for range 40 {
			switch r.IntN(4) {
			case 0:
				if w.replicas = 1 + r.Int32N(15); Shared(spec) {
					w.replicas = max(w.replicas, int32(len(w.pods)))
				}
			case 1, 2:
				if len(w.pods) > 0 {
					w.remove(w.pods[r.IntN(len(w.pods))])
				}
			}
			w.now = w.now.Add(time.Duration(4+r.IntN(20)) * time.Second)
			w.schedule()
			w.scale(0, int(w.replicas), never)
			if n := len(w.active(0)); n != int(w.replicas) {
				w.fail("%d pods of %d: some were refused", n, w.replicas)
			}
			for i, limit := range w.limits(w.hash(0)) {
				if n := w.has(0, i); limit != Unlimited && n > limit || Shared(spec) && n != limit {
					w.fail("subset %d has %d of %d", i, n, limit)
				}
			}
		}
	}
}

// A pod that was admitted and refused elsewhere keeps no position: the next one gets it after a moment.
func TestAPodThatNeverCameLeavesItsSeat(t *testing.T) {
	w := newFakeCluster(t, deployment("3", ""), 3)
	w.scale(0, 2, never)
	w.create(0, true)
	for wait, want := range map[time.Duration]int{time.Second: 1, onItsWay: 0} {
		w.now = noon.Add(wait)
		if a := w.admit(NewPod{ID: "next", Revision: w.hash(0)}); a.Subset != want {
			t.Errorf("after %s: %+v", wait, a)
		}
	}
}

// If there is no other position, the next one gets it at once: it is neither refused nor left without a subset.
func TestNoPodIsRefusedForOneThatNeverCame(t *testing.T) {
	for name, spec := range map[string]*v1alpha1.WorkloadSpreadSpec{"even": even("", ""), "percentages": deployment("50%", "50%"),
		"numbers": deployment("2", "2")} {
		w := newFakeCluster(t, spec, 4)
		w.scale(0, 3, never)
		for range 3 {
			w.create(0, true)
		}
		if a := w.admit(NewPod{ID: "next", Revision: w.hash(0)}); a.Subset != 1 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// Times in the future, which a clock that was set back leaves, end no later than they would from now on.
func TestStoredTimesInTheFuture(t *testing.T) {
	spec, ahead := adaptive("5", ""), stamp(noon.Add(time.Hour))
	spec.ScheduleStrategy.Adaptive.MaxReschedulesPerMinute = new(int32(1))
	in := inputOf(spec, 5, waitingIn("a-0", "a", time.Minute), waitingIn("a-1", "a", time.Minute))
	in.Status = counted(count{CreatingPods: map[string]metav1.Time{"x": ahead}}, count{})
	in.Status.Reschedules = &v1alpha1.ReplicaMoves{Count: 1, LastTime: ahead}
	in.Status.SubsetStatuses = []v1alpha1.WorkloadSubsetStatus{{Name: "a", UnschedulableUntil: &ahead}}
	d := Decide(in)
	window := noon.Add(time.Duration(v1alpha1.DefaultUnschedulableSeconds) * time.Second)
	if until := d.Status.SubsetStatuses[0].UnschedulableUntil; until == nil || until.After(window) {
		t.Errorf("marked until %v", until)
	}
	if at := d.Status.VersionedSubsetStatuses[OneRevision][0].CreatingPods["x"]; !at.Time.Equal(noon) {
		t.Errorf("created at %v", at)
	}
	if last := d.Status.Reschedules.LastTime; !last.Time.Equal(noon) {
		t.Errorf("moved on at %v", last)
	}
	if a, _ := Recount(in.State, "spread", OneRevision, nil); !a.VersionedSubsetStatuses[OneRevision][0].CreatingPods["x"].Time.Equal(noon) {
		t.Errorf("recounted %v", a.VersionedSubsetStatuses)
	}
	in.Status, in.Pods, in.Now = d.Status, nil, noon.Add(30*time.Second)
	if row := Decide(in).Status.VersionedSubsetStatuses[OneRevision]; len(row) > 0 && len(row[0].CreatingPods) > 0 {
		t.Errorf("it counts for longer: %v", row)
	}
}

// Pods that are refused after they were admitted, as by a quota, do not make the status grow without end, however many more
// the workload asks for.
func TestPodsThatNeverComeAreDropped(t *testing.T) {
	creating := map[string]metav1.Time{}
	for i := range 2 * mostOnTheirWay {
		creating[fmt.Sprintf("x-%04d", i)] = stamp(noon.Add(-time.Minute + time.Duration(i)*time.Millisecond))
	}
	spec := deployment("1000000", "")
	spec.CreatingTimeoutSeconds = new(int32(3600))
	s := stateOf(spec, counted(count{CreatingPods: creating}, count{}), 1_000_000)
	if a := Admit(s, NewPod{ID: "y", Revision: OneRevision}); !a.Recount {
		t.Fatal("they are not counted again")
	}
	status, absent := Recount(s, "spread", OneRevision, nil)
	left := status.VersionedSubsetStatuses[OneRevision][0].CreatingPods
	if _, latest := left[fmt.Sprintf("x-%04d", 2*mostOnTheirWay-1)]; len(left) != mostOnTheirWay || int(absent) != len(left) || !latest {
		t.Errorf("%d are left, %d absent", len(left), absent)
	}
	s.Status = status
	if a := Admit(s, NewPod{ID: "y", Revision: OneRevision}); a.Recount || a.Subset != 0 {
		t.Errorf("after that %+v", a)
	}
	s.Status, s.Now = counted(count{CreatingPods: creating}, count{}), noon.Add(-time.Minute) // a burst
	if status, _ := Recount(s, "spread", OneRevision, nil); len(status.VersionedSubsetStatuses[OneRevision][0].CreatingPods) != 2*mostOnTheirWay {
		t.Error("pods of a moment ago are dropped")
	}
}

// A copy of the annotation on a pod that is being deleted frees nothing that was not taken.
func TestWhatIsRecounted(t *testing.T) {
	for name, c := range map[string]struct {
		status *v1alpha1.WorkloadSpreadStatus
		change func(*v1.Pod)
		used   int32
	}{
		"a pod that was not counted": {counted(count{}, count{}), func(*v1.Pod) {}, 1},
		"one that is being created":  {counted(count{CreatingPods: entryAt(0, "a-00")}, count{}), func(*v1.Pod) {}, 1},
		"it was created long ago":    {counted(count{CreatingPods: entryAt(time.Minute, "a-00")}, count{}), func(*v1.Pod) {}, 1},
		"another one is created":     {counted(count{CreatingPods: entryAt(time.Second, "x")}, count{}), func(*v1.Pod) {}, 2},
		"another one never came":     {counted(count{CreatingPods: entryAt(time.Minute, "x")}, count{}), func(*v1.Pod) {}, 1},
		"it is being deleted":        {counted(count{Replicas: 1}, count{}), func(p *v1.Pod) { p.DeletionTimestamp = new(stamp(noon)) }, 0},
		"it has ended":               {counted(count{Replicas: 1}, count{}), func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, 0},
		"it belongs to somebody else": {counted(count{Replicas: 1}, count{}),
			func(p *v1.Pod) { p.Annotations[AnnotationSpread] = Assignment{Name: "x", Subset: "a"}.String() }, 0},
		"more were counted": {counted(count{Replicas: 7}, count{}), func(*v1.Pod) {}, 1},
	} {
		pod := podIn("a-00", "a")
		c.change(pod)
		status, _ := Recount(stateOf(deployment("5", ""), c.status, 9), "spread", OneRevision, []*v1.Pod{pod})
		var used int32
		for _, row := range status.VersionedSubsetStatuses[OneRevision] {
			used += usedBy(row)
		}
		if used != c.used || fmt.Sprint(status.SubsetStatuses[0].MissingReplicas) != fmt.Sprint(5-c.used) {
			t.Errorf("%s: %d are counted: %+v", name, used, status.SubsetStatuses[0])
		}
	}
}
