package workloadspread

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Input is what was observed. Nothing in it is changed.
type Input struct {
	// Name and Generation of the WorkloadSpread.
	Name       string
	Generation int64
	State
	// Pods are those of the workload that the filter selects.
	Pods []*v1.Pod
	// Nodes are those of pods, by name.
	Nodes map[string]*v1.Node
	// Autoscaler is what it does about pods, by their UID. It has no entries without an autoscaler.
	Autoscaler map[types.UID]ScaleUp
	// Patches say by subset why pods are refused with its patch; empty if they are not, and missing if that is
	// not known.
	Patches map[string]string
	// Refused is why the WorkloadSpread must do nothing although its spec is valid; empty if it may.
	Refused string
	// Ahead are the names of other WorkloadSpreads that have those pods of the workload that they select.
	Ahead []string
}

// ScaleUp is what the autoscaler does about a pod.
type ScaleUp struct {
	// Acting is true while a node is on its way, and false if the autoscaler has given up.
	Acting bool
	// Since is when that began.
	Since time.Time
}

// Decision is what to do, in this order: store the status, then the rest.
type Decision struct {
	// Status must be stored if Changed.
	Status  *v1alpha1.WorkloadSpreadStatus
	Changed bool
	// Assign are pods that get an assignment.
	Assign []Assign
	// Costs are deletion costs to write: those that differ.
	Costs []Cost
	// Delete are pods to delete, if they still have the same UID.
	Delete []Deletion
	// Deferred are the pods that would move on if no node for them were on its way.
	Deferred int
	// Events are what there is to say besides.
	Events podhealth.Events
	// Next is when to decide again if nothing happens before; zero if there is no need.
	Next time.Time
}

// Deletion is a pod to delete.
type Deletion struct {
	Pod *v1.Pod
	// Why is what a sentence says of the pod.
	Why string
}

// Decide looks at all pods.
func Decide(in Input) Decision {
	p := &pass{Input: in, before: in.Status, timer: podhealth.Timer{Now: in.Now}}
	p.status = *in.Status.DeepCopy()
	p.status.ObservedGeneration = in.Generation
	problem := in.Refused
	if errs := Validate(in.Spec, nil); len(errs) > 0 {
		problem = errs.ToAggregate().Error()
	}
	if problem != "" {
		p.condition(v1alpha1.ConditionSpecValid, false, ReasonInvalidSpec, problem)
		return p.result(&p.status)
	}
	p.condition(v1alpha1.ConditionSpecValid, true, ReasonValid, "the spec is valid")
	if in.Workload.Problem != "" {
		c := p.newCondition(v1alpha1.ConditionTargetFound, false, ReasonUnreadable, describe(in.Spec)+" cannot be read: "+in.Workload.Problem)
		c.Status = metav1.ConditionUnknown
		meta.SetStatusCondition(&p.status.Conditions, c)
		return p.result(&p.status)
	}
	if !in.Workload.Found {
		p.condition(v1alpha1.ConditionTargetFound, false, ReasonNotFound, "there is no "+describe(in.Spec))
		return p.result(&p.status)
	}
	p.condition(v1alpha1.ConditionTargetFound, true, ReasonFound, describe(in.Spec)+" exists"+without(in.Ahead))
	p.Status = &p.status
	p.counts = p.State.counts()
	p.all = members(in.Spec, in.Name, in.Pods)
	p.pods = slices.DeleteFunc(slices.Clone(p.all), func(m *member) bool { return !m.active })
	timedOut := p.timedOut()
	p.mark(timedOut)
	p.classify()
	p.account()
	p.moveOn(timedOut)
	p.costs()
	p.patches()
	p.report()
	return p.result(p.counts.stored())
}

// without says which WorkloadSpreads have pods of the same workload.
func without(ahead []string) string {
	if len(ahead) == 0 {
		return ""
	}
	names := slices.Compact(slices.Sorted(slices.Values(ahead)))
	return "; pods that are also selected by WorkloadSpread " + strings.Join(names, ", ") + " belong to the one whose name comes first"
}

// pass is a decision in the making.
type pass struct {
	Input
	before   *v1alpha1.WorkloadSpreadStatus
	status   v1alpha1.WorkloadSpreadStatus
	counts   *counts
	all      []*member
	pods     []*member // the active ones
	decision Decision
	timer    podhealth.Timer
}

func (p *pass) result(status *v1alpha1.WorkloadSpreadStatus) Decision {
	p.decision.Status, p.decision.Next = status, p.timer.Next
	p.decision.Changed = !equality.Semantic.DeepEqual(p.before, status)
	return p.decision
}

func (p *pass) condition(kind string, is bool, reason, message string) {
	meta.SetStatusCondition(&p.status.Conditions, p.newCondition(kind, is, reason, message))
}

func (p *pass) newCondition(kind string, is bool, reason, message string) metav1.Condition {
	c := podhealth.Condition(kind, is, reason, message)
	c.ObservedGeneration, c.LastTransitionTime = p.Generation, stamp(p.Now)
	return c
}
