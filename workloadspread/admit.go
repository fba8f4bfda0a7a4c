package workloadspread

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// State is what a decision is about. The status is that which was stored last.
type State struct {
	Spec     *v1alpha1.WorkloadSpreadSpec
	Status   *v1alpha1.WorkloadSpreadStatus
	Workload Workload
	Now      time.Time
	// Counted is true if the status is of Recount, and Absent how many of the pods that it counts were not there.
	Counted bool
	Absent  int32
}

// Room is what a simulation of the scheduler says about a pod with the rules of a subset.
type Room int

// The results of a simulation.
const (
	RoomUnknown      Room = iota // nothing was simulated, or not in time
	RoomOnNode                   // a node has room, now or as soon as it is ready
	RoomByAutoscaler             // no node has room, but the autoscaler can still bring one
	RoomNone                     // no node has room, and none can be brought
)

// NewPod is a pod that is being created.
type NewPod struct {
	// ID is the name, or for a generated name an identifier of its own.
	ID string
	// Revision of the workload that the pod is of, from RevisionOf.
	Revision string
	// Ordinal of a pod of a StatefulSet.
	Ordinal int32
	// Room has an entry for each subset; nil if nothing was simulated.
	Room []Room
}

// Admission is the subset of a pod.
type Admission struct {
	// Subset is the index of the subset, or -1: the pod is created without the rules of one, unless
	// it is refused.
	Subset  int
	Refused bool
	// Message says why there is no subset.
	Message string
	// Cost is the deletion cost that the pod should be created with; 0 if its controller reads none.
	Cost int32
	// Status must be stored before the pod is created, if Changed.
	Status  *v1alpha1.WorkloadSpreadStatus
	Changed bool
	// Recount is true if pods that are gone may have taken the places: the answer is final after a
	// Recount.
	Recount bool
}

// Admit chooses the subset of a new pod. A pod that was admitted before, and of which nothing has
// been seen since, gets the same subset again.
//
// A subset is open if it is not marked as unschedulable, has not as many pods of the revision as
// Limits says and, counting all revisions, if the subsets that are above their limits are so by less
// than the surge of the workload. The first open subset is taken; under distributions Even and
// Weighted it is the one that keeps the shares exact while they grow. One without room for the pod is
// passed over if a later one has some, unless the object waits for the autoscaler and that can
// bring it. Pods of a StatefulSet are not counted: their ordinal decides.
//
// The pod is noted in the status until it is seen if its subset has a limit or a share.
//
// If no subset is open, the pod is refused or created without rules, as WhenFull says; it never goes
// to a subset that is full.
func Admit(s State, pod NewPod) Admission {
	if kindOf(s.Spec) == statefulSetKind {
		return s.admission(SubsetOfOrdinal(s.Spec, pod.Ordinal-s.Workload.Start, s.held(func(int) int32 { return 0 })))
	}
	c := s.counts()
	for i := range s.Spec.Subsets {
		if _, again := c.row(pod.Revision)[i].CreatingPods[pod.ID]; again {
			return Admission{Subset: i, Status: s.Status, Cost: c.firstCost(i, c.used(pod.Revision, i)-1)}
		}
	}
	i, full := c.choose(pod)
	a := s.admission(i)
	a.Recount = !s.Counted && (full && !c.additional(pod.Revision) || c.creating() >= 2*mostOnTheirWay)
	a.Cost = c.firstCost(i, c.used(pod.Revision, max(i, 0)))
	if i >= 0 && (Shared(s.Spec) || c.limits(pod.Revision)[i] != Unlimited) {
		count := &c.row(pod.Revision)[i]
		count.CreatingPods = maps.Clone(count.CreatingPods) // it is that of the status
		if count.CreatingPods == nil {
			count.CreatingPods = map[string]metav1.Time{}
		}
		count.CreatingPods[pod.ID] = stamp(s.Now)
		a.Status, a.Changed = c.stored(), true
	}
	return a
}

// admission is that to a subset, or what happens if there is none.
func (s State) admission(i int) Admission {
	a := Admission{Subset: i, Status: s.Status}
	if i < 0 {
		a.Message, a.Refused = "no subset has room for the pod", s.Spec.WhenFull == v1alpha1.WhenFullRefuse
	}
	return a
}

// complete reports whether as many pods are counted as the workload may have: those that it asks for of
// one revision, and its surge more of all. It is never known of other kinds.
func (c *counts) complete(revision string) bool {
	if !c.Workload.Found || !isKnown(c.Spec) {
		return false
	}
	return c.sum(revision)+c.Status.Unassigned >= c.Workload.Replicas || c.all() >= c.Workload.Replicas+c.Workload.Surge
}

// surge is how many pods more than it asks for the workload may have with the one that is admitted. A Deployment
// creates pods as soon as it has told others to end: those that are still there come on top of its maxSurge.
func (c *counts) surge() int32 {
	if !c.Counted {
		return c.Workload.Surge
	}
	return max(c.Workload.Surge, c.all()-c.Absent+1-c.Workload.Replicas)
}

// additional reports whether a new pod replaces none of those that are counted, because the workload
// asks for more. It is not known during a rollout, nor if a subset is not counted.
func (c *counts) additional(revision string) bool {
	return isKnown(c.Spec) && !c.others(revision) && !c.complete(revision) &&
		(Shared(c.Spec) || !slices.Contains(c.limits(revision), Unlimited))
}

// choose is the subset of a new pod, or -1. It reports whether others would have come first if they were
// not full.
func (c *counts) choose(pod NewPod) (i int, full bool) {
	held, total := c.heldOf(pod.Revision), c.sum(pod.Revision)
	if Shared(c.Spec) && total < c.Workload.Replicas {
		if i, full := c.first(pod, layout(c.Spec, total+1, held), true); i >= 0 {
			return i, full
		}
	}
	return c.first(pod, Limits(c.Spec, c.Workload.Replicas, held), false)
}

// first is the first open subset that has room for the pod, or else the first open one if it need not
// have room.
func (c *counts) first(pod NewPod, limits []int32, room bool) (best int, full bool) {
	best = -1
	over, surge := c.overshoot(), c.surge()
	for i, limit := range limits {
		if c.marked(i) {
			continue
		}
		if limit != Unlimited && (c.used(pod.Revision, i) >= limit || c.others(pod.Revision) && c.total(i) >= limit && over >= surge) {
			full = true
			continue
		}
		if c.mayRun(pod, i) {
			return i, full || Shared(c.Spec)
		}
		if best < 0 && !room {
			best = i
		}
	}
	return best, full || best < 0 || Shared(c.Spec)
}

func (c *counts) mayRun(pod NewPod, i int) bool {
	a := c.Spec.ScheduleStrategy.Adaptive
	if i >= len(pod.Room) || c.Spec.ScheduleStrategy.Type != v1alpha1.ScheduleAdaptive || a != nil && a.DisableSimulationSchedule {
		return true
	}
	return pod.Room[i] != RoomNone && (pod.Room[i] != RoomByAutoscaler || waits(c.Spec))
}

// waits reports whether pods wait for a node that the autoscaler can bring.
func waits(spec *v1alpha1.WorkloadSpreadSpec) bool {
	a := spec.ScheduleStrategy.Adaptive
	return a == nil || a.WaitForAutoscaler == nil || *a.WaitForAutoscaler
}

// stamp is a time as the API server stores it.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
