package autoscaler

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// DefaultExpendablePriorityCutoff is the priority below which a pod is expendable, as in Cluster
// Autoscaler.
const DefaultExpendablePriorityCutoff = -10

// PodFilter separates pending pods that nodes are ordered for from those that Cluster Autoscaler
// leaves alone. The zero value has its defaults.
type PodFilter struct {
	// ExpendablePriorityCutoff is the flag --expendable-pods-priority-cutoff; nil is
	// DefaultExpendablePriorityCutoff.
	ExpendablePriorityCutoff *int32
	// BypassedSchedulers is the flag --bypassed-scheduler-names: pods of these schedulers count
	// before the scheduler has said that they fit nowhere.
	BypassedSchedulers []string
	// AllowedSchedulers is the flag --allowed-scheduler-names: where given, no others' pods count.
	AllowedSchedulers []string
}

// Why a pod is left alone.
type Why string

// The reasons. A pod that is expendable may run where there is room, one that is nominated waits
// for room on a node; of the others kube-scheduler binds none.
const (
	OfDaemonSet    Why = "DaemonSet"
	Static         Why = "Static"
	BeingDeleted   Why = "BeingDeleted"
	Gated          Why = "SchedulingGated"
	Nominated      Why = "Nominated"
	Expendable     Why = "Expendable"
	OtherScheduler Why = "OtherScheduler"
)

// LeftAlone says why no node is ordered for a pod that has none, in one word and in a sentence;
// empty where it counts.
func (f *PodFilter) LeftAlone(p *v1.Pod) (why Why, reason string) {
	scheduler := p.Spec.SchedulerName
	if scheduler == "" {
		scheduler = v1.DefaultSchedulerName
	}
	switch {
	case p.DeletionTimestamp != nil:
		return BeingDeleted, "being deleted"
	case template.RunsOnEveryNode(p):
		if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.Kind == "DaemonSet" {
			return OfDaemonSet, "of daemon set " + owner.Name + ", whose pods come with their nodes"
		}
		return Static, "a static pod, which comes with its node"
	case len(f.AllowedSchedulers) > 0 && !slices.Contains(f.AllowedSchedulers, scheduler):
		return OtherScheduler, fmt.Sprintf("of scheduler %s, which allowedSchedulerNames does not name", scheduler)
	case p.Status.NominatedNodeName != "":
		return Nominated, fmt.Sprintf("nominated to node %s, where it takes the place of others", p.Status.NominatedNodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return Gated, "held back by " + gates(p.Spec.SchedulingGates)
	case scheduler != v1.DefaultSchedulerName && !slices.Contains(f.BypassedSchedulers, scheduler) && !unschedulable(p):
		return OtherScheduler, fmt.Sprintf("of scheduler %s, which has not said that it fits nowhere (bypassedSchedulerNames counts it before)",
			scheduler)
	case f.Expendable(p):
		return Expendable, fmt.Sprintf("expendable: its priority of %d is below the cutoff of %d (expendablePodsPriorityCutoff)",
			*p.Spec.Priority, f.cutoff())
	}
	return "", ""
}

func (f *PodFilter) cutoff() int32 {
	return ptr.Deref(f.ExpendablePriorityCutoff, DefaultExpendablePriorityCutoff)
}

// Expendable reports whether a pod may be killed at any time: it causes no scale-up, and where it runs it
// does not count.
func (f *PodFilter) Expendable(p *v1.Pod) bool {
	return p.Spec.Priority != nil && *p.Spec.Priority < f.cutoff()
}

// unschedulable reports whether the scheduler has tried the pod and found no node.
func unschedulable(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
	})
}

func gates(all []v1.PodSchedulingGate) string {
	names := make([]string, len(all))
	for i, gate := range all {
		names[i] = gate.Name
	}
	if len(names) == 1 {
		return "scheduling gate " + names[0]
	}
	return "scheduling gates " + strings.Join(names, ", ")
}
