package workloadspread

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// adaptive lets pods move on after 30 seconds.
func adaptive(most ...string) *v1alpha1.WorkloadSpreadSpec {
	spec := deployment(most...)
	spec.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{Type: v1alpha1.ScheduleAdaptive,
		Adaptive: &v1alpha1.AdaptiveSchedule{RescheduleCriticalSeconds: new(int32(30))}}
	return spec
}

// waitingIn is a pod that the scheduler has found no node for.
func waitingIn(name, subset string, since time.Duration) *v1.Pod {
	pod := podIn(name, subset)
	pod.Spec.NodeName = ""
	pod.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: stamp(noon.Add(-since))},
	}}
	return pod
}

func deleted(d Decision) (names []string) {
	for _, x := range d.Delete {
		names = append(names, x.Pod.Name)
	}
	return names
}

func TestTwoPodsThatCannotBeScheduledMoveOn(t *testing.T) {
	in := inputOf(adaptive("", ""), 3, waitingIn("a-0", "a", 31*time.Second), waitingIn("a-1", "a", 30*time.Second), podIn("b-0", "b"))
	d := Decide(in)
	a, b := d.Status.SubsetStatuses[0], d.Status.SubsetStatuses[1]
	if a.Conditions[0].Status != "False" || b.Conditions[0].Status != "True" || len(d.Delete) != 2 {
		t.Errorf("%+v %+v %v", a, b, deleted(d))
	}
	if !a.UnschedulableUntil.Equal(new(stamp(noon.Add(300 * time.Second)))) {
		t.Errorf("marked until %v", a.UnschedulableUntil)
	}
	if got := Admit(State{Spec: in.Spec, Status: d.Status, Workload: in.Workload, Now: noon.Add(299 * time.Second)},
		NewPod{ID: "new", Revision: "next"}); got.Subset != 1 {
		t.Errorf("the mark survives revisions: %+v", got)
	}
	if got := Admit(State{Spec: in.Spec, Status: d.Status, Workload: in.Workload, Now: noon.Add(300 * time.Second)},
		NewPod{ID: "new", Revision: "next"}); got.Subset != 0 {
		t.Errorf("the mark has ended: %+v", got)
	}
}

func TestThePodMovesOnAtTheExactSecond(t *testing.T) {
	in := inputOf(adaptive("", ""), 1, waitingIn("a-0", "a", 29*time.Second))
	d := Decide(in)
	if len(d.Delete) > 0 || !d.Next.Equal(noon.Add(time.Second)) {
		t.Errorf("%v, again at %v", deleted(d), d.Next)
	}
	in.Now = d.Next
	if d = Decide(in); len(d.Delete) != 1 {
		t.Errorf("%v one second later", deleted(d))
	}
}

func TestWhatDoesNotMoveOn(t *testing.T) {
	scheduled := waitingIn("a-0", "a", time.Hour)
	scheduled.Spec.NodeName = "n"
	gated := waitingIn("a-0", "a", time.Hour)
	gated.Status.Conditions[0].Reason = v1.PodReasonSchedulingGated
	fixed, never := adaptive("", ""), adaptive("", "")
	fixed.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{}
	never.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = new(int32(0))
	for name, in := range map[string]Input{
		"a pod with a node":     inputOf(adaptive("", ""), 1, scheduled),
		"a pod that is gated":   inputOf(adaptive("", ""), 1, gated),
		"a pod just created":    inputOf(adaptive("", ""), 1, &v1.Pod{ObjectMeta: scheduled.ObjectMeta}),
		"the last subset":       inputOf(adaptive("", ""), 1, waitingIn("b-0", "b", time.Hour)),
		"an only subset":        inputOf(adaptive(""), 1, waitingIn("a-0", "a", time.Hour)),
		"a pod of no subset":    inputOf(adaptive("", ""), 1, waitingIn("a-0", "", time.Hour)),
		"strategy Fixed":        inputOf(fixed, 1, waitingIn("a-0", "a", time.Hour)),
		"a critical time of 0s": inputOf(never, 1, waitingIn("a-0", "a", time.Hour)),
	} {
		if d := Decide(in); len(d.Delete) > 0 || d.Status.SubsetStatuses[0].UnschedulableUntil != nil {
			t.Errorf("%s: %v", name, deleted(d))
		}
	}
}

// No pod is deleted while the autoscaler acts for it: until it gives up, or for too long.
func TestThePodIsKeptWhileTheAutoscalerActs(t *testing.T) {
	const critical = 30
	for _, c := range []struct {
		name    string
		scaleUp *ScaleUp
		wait    bool
		moves   int // seconds after the pod was unschedulable
	}{
		{"no autoscaler", nil, true, critical},
		{"a node is on its way", &ScaleUp{Acting: true, Since: noon.Add(10 * time.Second)}, true, 10 + 900},
		{"it gave up early", &ScaleUp{Since: noon.Add(5 * time.Second)}, true, critical},
		{"it gave up after a minute", &ScaleUp{Since: noon.Add(time.Minute)}, true, 60},
		{"the object does not wait", &ScaleUp{Acting: true, Since: noon}, false, critical},
	} {
		spec := adaptive("", "")
		spec.ScheduleStrategy.Adaptive.WaitForAutoscaler = &c.wait
		in := inputOf(spec, 1, waitingIn("a-0", "a", 0))
		if c.scaleUp != nil {
			in.Autoscaler = map[types.UID]ScaleUp{"a-0": *c.scaleUp}
		}
		in.Now = noon.Add(time.Duration(c.moves)*time.Second - time.Second)
		before := Decide(in)
		in.Now = in.Now.Add(time.Second)
		after := Decide(in)
		if len(before.Delete) > 0 || before.Status.SubsetStatuses[0].UnschedulableUntil != nil || !before.Next.Equal(in.Now) ||
			len(after.Delete) != 1 {
			t.Errorf("%s: deleted %v, again at %v, then %v", c.name, deleted(before), before.Next.Sub(noon), deleted(after))
		}
	}
}

func TestTheMarkIsRenewedByRepeatedFailure(t *testing.T) {
	spec := adaptive("", "")
	spec.ScheduleStrategy.Adaptive.UnschedulableSeconds = new(int32(100))
	in := inputOf(spec, 2, waitingIn("a-0", "a", 30*time.Second))
	first := Decide(in)
	in.Status, in.Now = first.Status, noon.Add(50*time.Second)
	in.Pods = []*v1.Pod{waitingIn("a-1", "a", -20*time.Second)}
	second := Decide(in)
	if a := second.Status.SubsetStatuses[0]; !a.UnschedulableUntil.Equal(new(stamp(noon.Add(150 * time.Second)))) {
		t.Errorf("marked until %v", a.UnschedulableUntil)
	}
	in.Status, in.Pods, in.Now = second.Status, nil, noon.Add(150*time.Second)
	if a := Decide(in).Status.SubsetStatuses[0]; a.UnschedulableUntil != nil || a.Conditions[0].Status != "True" {
		t.Errorf("the window has ended: %+v", a)
	}
}

func TestNotAllMoveOnAtOnce(t *testing.T) {
	spec := adaptive("", "")
	spec.ScheduleStrategy.Adaptive.MaxReschedulesPerMinute = new(int32(2))
	in := inputOf(spec, 5)
	for _, name := range []string{"a-0", "a-1", "a-2", "a-3", "a-4"} {
		in.Pods = append(in.Pods, waitingIn(name, "a", time.Minute))
	}
	var gone []int
	for range 4 {
		d := Decide(in)
		gone = append(gone, len(d.Delete))
		in.Pods, in.Status = in.Pods[len(d.Delete):], d.Status
		if len(in.Pods) > 0 && !d.Next.Equal(noon.Add(time.Duration(len(gone)+1)/2*time.Minute)) {
			t.Errorf("%d are left, again at %v", len(in.Pods), d.Next.Sub(noon))
		}
		if len(gone)%2 == 0 {
			in.Now = d.Next
		}
	}
	if gone[0] != 2 || gone[1] != 0 || gone[2] != 2 || gone[3] != 0 {
		t.Errorf("%v", gone)
	}
}

// A subset without room for the pod is passed over, unless the autoscaler can bring a node.
func TestSimulatedRoom(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.WorkloadSpreadSpec)
		room   []Room
		want   int
	}{
		{"a node has room", func(*v1alpha1.WorkloadSpreadSpec) {}, []Room{RoomOnNode, RoomOnNode}, 0},
		{"only in the second", func(*v1alpha1.WorkloadSpreadSpec) {}, []Room{RoomNone, RoomOnNode}, 1},
		{"nowhere", func(*v1alpha1.WorkloadSpreadSpec) {}, []Room{RoomNone, RoomNone}, 0},
		{"not simulated in time", func(*v1alpha1.WorkloadSpreadSpec) {}, []Room{RoomUnknown, RoomOnNode}, 0},
		{"the autoscaler can bring it", func(*v1alpha1.WorkloadSpreadSpec) {}, []Room{RoomByAutoscaler, RoomOnNode}, 0},
		{"nobody waits for the autoscaler", func(s *v1alpha1.WorkloadSpreadSpec) { s.ScheduleStrategy.Adaptive.WaitForAutoscaler = new(false) },
			[]Room{RoomByAutoscaler, RoomOnNode}, 1},
		{"disabled", func(s *v1alpha1.WorkloadSpreadSpec) { s.ScheduleStrategy.Adaptive.DisableSimulationSchedule = true },
			[]Room{RoomNone, RoomOnNode}, 0},
		{"Fixed", func(s *v1alpha1.WorkloadSpreadSpec) { s.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{} },
			[]Room{RoomNone, RoomOnNode}, 0},
	} {
		spec := adaptive("", "")
		c.change(spec)
		if got := Admit(stateOf(spec, &v1alpha1.WorkloadSpreadStatus{}, 5),
			NewPod{ID: "new", Revision: OneRevision, Room: c.room}); got.Subset != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A pod that was admitted is not expected any more once it is seen, or too late.
func TestANotedPodIsForgotten(t *testing.T) {
	spec, noted := adaptive("5", ""), counted(count{Replicas: 1, CreatingPods: entryAt(20*time.Second, "new")}, count{})
	for name, c := range map[string]struct {
		pods    []*v1.Pod
		after   time.Duration
		noted   int
		expired bool
	}{
		"not seen": {nil, 0, 1, false},
		"seen":     {[]*v1.Pod{podIn("new", "a")}, 0, 0, false},
		"too late": {nil, 10 * time.Second, 0, true},
	} {
		in := inputOf(spec, 5, c.pods...)
		in.Status, in.Workload.Revision, in.Now = noted, OneRevision, noon.Add(c.after)
		d := Decide(in)
		expired := slices.ContainsFunc(d.Events, func(e podhealth.Event) bool { return e.Reason == ReasonCreationTimedOut })
		if row := d.Status.VersionedSubsetStatuses[OneRevision][0]; len(row.CreatingPods) != c.noted || expired != c.expired {
			t.Errorf("%s: %+v, %+v", name, row, d.Events)
		}
	}
}
