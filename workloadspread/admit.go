package workloadspread

import (
	"fmt"
	"maps"
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
}

// Room is what a simulation of the scheduler says about a pod with the rules of a subset.
type Room int

// The results of a simulation.
const (
	// RoomUnknown: nothing was simulated, or not in time.
	RoomUnknown Room = iota
	// RoomOnNode: a node has room, now or as soon as it is ready.
	RoomOnNode
	// RoomByAutoscaler: no node has room, but the autoscaler can still bring one.
	RoomByAutoscaler
	// RoomNone: no node has room, and none can be brought.
	RoomNone
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
	// Reason is one word, Message a sentence.
	Reason, Message string
	// Status must be stored before the pod is created, if Changed.
	Status  *v1alpha1.WorkloadSpreadStatus
	Changed bool
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
// The pod is noted in the status until it is seen if its subset has a limit. It also is if a simulation
// has a say, so that those who simulate elsewhere hold room for it.
//
// If no subset is open, the pod is refused or created without rules, as WhenFull says; it never goes
// to a subset that is full. It is always refused if its revision already has as many pods as the
// workload asks for, or all revisions together as many as that and the surge: some of those counted do
// not exist any more, and its controller tries again. (That is not known of kinds that Kubernetes does
// not have.)
func Admit(s State, pod NewPod) Admission {
	if kindOf(s.Spec) == statefulSetKind {
		return s.answer(Seat(s.Spec, pod.Ordinal-s.Workload.Start, s.closed()), "its ordinal is "+number(pod.Ordinal))
	}
	c := s.counts()
	for i := range s.Spec.Subsets {
		if _, again := c.of(pod.Revision, i).CreatingPods[pod.ID]; again {
			return s.admitted(i, ReasonAgain, "the pod was admitted to it before")
		}
	}
	i := c.choose(pod)
	if n, all := c.complete(pod.Revision); i < 0 && all {
		a := s.answer(-1, "")
		a.Refused, a.Reason = true, ReasonUncertain
		a.Message = fmt.Sprintf("the workload has all its pods, %d; some of them do not exist any more", n)
		return a
	}
	a := s.answer(i, "it is the first that is open")
	if i >= 0 && (c.simulated(pod) || c.limits(pod.Revision)[i] != Unlimited) {
		count := &c.row(pod.Revision)[i]
		count.CreatingPods = with(count.CreatingPods, pod.ID, stamp(s.Now))
		a.Status, a.Changed = c.stored(), true
	}
	return a
}

// complete reports whether as many pods are counted as the workload may have: those that it asks for of
// one revision, and its surge more of all. It is never known of other kinds.
func (c *counts) complete(revision string) (n int32, all bool) {
	if !c.Workload.Found || kindOf(c.Spec) == otherKind {
		return 0, false
	}
	if n = c.sum(revision); n >= c.Workload.Replicas {
		return n, true
	}
	if !c.others(revision) {
		return n, false
	}
	n = 0
	for other := range c.rows {
		n += c.sum(other)
	}
	return n, n >= c.Workload.Replicas+c.Workload.Surge
}

// answer is the admission to a subset, or what happens if there is none.
func (s State) answer(i int, why string) Admission {
	if i >= 0 {
		return s.admitted(i, ReasonAdmitted, why)
	}
	a := Admission{Subset: -1, Status: s.Status, Reason: ReasonNoRoom, Message: "no subset has room for the pod"}
	a.Refused = s.Spec.WhenFull == v1alpha1.WhenFullRefuse
	return a
}

func (s State) admitted(i int, reason, why string) Admission {
	return Admission{Subset: i, Status: s.Status, Reason: reason, Message: "subset " + s.Spec.Subsets[i].Name + ": " + why}
}

// choose is the subset of a new pod, or -1.
func (c *counts) choose(pod NewPod) int {
	total := c.sum(pod.Revision)
	steps := []int32{c.Workload.Replicas}
	if !ordered(c.Spec) && total < c.Workload.Replicas {
		steps = []int32{total + 1, c.Workload.Replicas}
	}
	for _, replicas := range steps {
		if i := c.first(pod, c.limitsAt(pod.Revision, replicas)); i >= 0 {
			return i
		}
	}
	return -1
}

// first is the first open subset that has room for the pod, or else the first open one.
func (c *counts) first(pod NewPod, limits []int32) int {
	best := -1
	over := c.overshoot()
	for i, limit := range limits {
		if c.marked(i) || limit != Unlimited && (c.used(pod.Revision, i) >= limit || c.others(pod.Revision) && c.total(i) >= limit && over >= c.Workload.Surge) {
			continue
		}
		if c.mayRun(pod, i) {
			return i
		}
		if best < 0 {
			best = i
		}
	}
	return best
}

// simulated reports whether a simulation has a say in the subset of a pod.
func (c *counts) simulated(pod NewPod) bool {
	a := c.Spec.ScheduleStrategy.Adaptive
	return pod.Room != nil && c.Spec.ScheduleStrategy.Type == v1alpha1.ScheduleAdaptive && (a == nil || !a.DisableSimulationSchedule)
}

func (c *counts) mayRun(pod NewPod, i int) bool {
	if !c.simulated(pod) || i >= len(pod.Room) {
		return true
	}
	return pod.Room[i] != RoomNone && (pod.Room[i] != RoomByAutoscaler || waits(c.Spec))
}

// waits reports whether pods wait for a node that the autoscaler can bring.
func waits(spec *v1alpha1.WorkloadSpreadSpec) bool {
	a := spec.ScheduleStrategy.Adaptive
	return a == nil || a.WaitForAutoscaler == nil || *a.WaitForAutoscaler
}

// OldPod is a pod that is being deleted or evicted.
type OldPod struct {
	// Name of the pod, and its ID in creatingPods.
	Name, ID string
	// Revision and Subset of the pod.
	Revision, Subset string
	// Active is false for a pod that has ended, or is being deleted already.
	Active bool
}

// Release counts a pod as gone whose deletion or eviction is admitted. A pod is counted once, however
// often it is asked for. It reports whether the status must be stored.
func Release(s State, pod OldPod) (*v1alpha1.WorkloadSpreadStatus, bool) {
	c := s.counts()
	i := c.index(pod.Subset)
	if !pod.Active || kindOf(s.Spec) == statefulSetKind || i < 0 {
		return s.Status, false
	}
	counted := c.limits(pod.Revision)[i] != Unlimited
	_, creating := c.of(pod.Revision, i).CreatingPods[pod.ID]
	if _, again := c.of(pod.Revision, i).DeletingPods[pod.Name]; counted && again || !counted && !creating {
		return s.Status, false
	}
	count := &c.row(pod.Revision)[i]
	if creating {
		count.CreatingPods = maps.Clone(count.CreatingPods)
		delete(count.CreatingPods, pod.ID) // it exists, or it could not be deleted
	}
	if !counted {
		return c.stored(), true
	}
	if creating {
		count.Replicas++
	}
	count.DeletingPods = with(count.DeletingPods, pod.Name, stamp(s.Now))
	return c.stored(), true
}

// with is a copy of a map with one more entry.
func with(entries map[string]metav1.Time, key string, at metav1.Time) map[string]metav1.Time {
	out := make(map[string]metav1.Time, len(entries)+1)
	maps.Copy(out, entries)
	out[key] = at
	return out
}

// stamp is a time as the API server stores it.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
