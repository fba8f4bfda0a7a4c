package subsets

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Kind is the kind of an Explanation as a document.
const Kind = "WorkloadSpreadExplanation"

// Explanation says in which subset each pod of a WorkloadSpread is, and why.
type Explanation = document.Explanation[Status]

// Status is the content of an Explanation.
type Status struct {
	// Answer is the answer in one sentence.
	Answer string `json:"verdict"`
	// Notes are what the answer rests on or leaves out.
	Notes []string `json:"notes,omitempty"`
	// At is when the input is from: the latest time in it.
	At       metav1.Time `json:"at"`
	Replicas int32       `json:"replicas"`
	// Subsets are in the order of the spec.
	Subsets []Subset `json:"subsets"`
	// Pods are the active pods of the workload, by name.
	Pods []Pod `json:"pods"`
	// Next are what the controller would write now, and what it waits for.
	Next []Step `json:"next"`
	// Conditions are those that the WorkloadSpread would have.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The states of a subset for a new pod.
const (
	// StateOpen: it has room.
	StateOpen = "Open"
	// StateFull: it has as many pods as it may have.
	StateFull = "Full"
	// StateMarked: pods could not be scheduled there, and new ones pass over it.
	StateMarked = "Marked"
)

// Subset is a subset now.
type Subset struct {
	Name string `json:"name"`
	// MaxReplicas is how many pods it may have; absent if there is no bound.
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	Replicas    int32  `json:"replicas"`
	// State is Open, Full or Marked, and Why a sentence about it.
	State string `json:"state"`
	Why   string `json:"why"`
	// UnschedulableUntil is until when new pods pass over it.
	UnschedulableUntil *metav1.Time `json:"unschedulableUntil,omitempty"`
}

// Where the subset of a pod is from.
const (
	// FromAnnotation: the webhook or the controller has written it.
	FromAnnotation = "Annotation"
	// FromNode: the pod has no annotation, and its node matches.
	FromNode = "Node"
	// FromNothing: the pod is in no subset.
	FromNothing = "None"
)

// Pod is a pod, and why it is where it is.
type Pod struct {
	Name     string `json:"name"`
	Revision string `json:"revision,omitempty"`
	// Subset is empty if it is in none.
	Subset string `json:"subset,omitempty"`
	// From is Annotation, Node or None.
	From string `json:"from"`
	// Node that it runs on; absent while it waits for one.
	Node string `json:"node,omitempty"`
	Why  string `json:"why"`
	// Earlier are the subsets that are before it in the spec, and why a pod does not go there now.
	Earlier []Passed `json:"earlier,omitempty"`
	// Cost is the deletion cost that it has or, if that differs, will get; absent if the controller of
	// the workload reads none. CostWhy is how it comes about.
	Cost    *int32 `json:"cost,omitempty"`
	CostWhy string `json:"costWhy,omitempty"`
}

// Passed is a subset that a pod is not in.
type Passed struct {
	Subset string `json:"subset"`
	Why    string `json:"why"`
}

// The actions of a Step.
const (
	ActionAssign = "Assign"
	ActionCost   = "WriteCost"
	ActionDelete = "Delete"
	ActionWait   = "Wait"
	ActionReport = "Report"
)

// Step is something that the controller would do now, or that it waits for.
type Step struct {
	// Action is Assign, WriteCost, Delete, Wait or Report.
	Action string `json:"action"`
	// Pod is absent if it is about the WorkloadSpread.
	Pod string `json:"pod,omitempty"`
	Why string `json:"why"`
	// At is when it happens; absent if that is now.
	At *metav1.Time `json:"at,omitempty"`
}

// Explain explains the WorkloadSpreads of a dump or, with names, those of them. A name that none has is a
// *document.UnknownName.
func (d *Dump) Explain(names ...string) ([]*Explanation, error) {
	return document.Explain(Kind, Naming, d.Spreads, names, d.explain)
}

// explainer explains one WorkloadSpread.
type explainer struct {
	*v1alpha1.WorkloadSpread
	in       workloadspread.Input
	decision workloadspread.Decision
	limits   []int32
	status   Status
}

func (d *Dump) explain(s *v1alpha1.WorkloadSpread) (Status, error) {
	in, notes, err := d.inputOf(s)
	if err != nil {
		return Status{}, err
	}
	e := &explainer{WorkloadSpread: s, in: in, decision: workloadspread.Decide(in)}
	e.status = Status{Notes: notes, At: metav1.NewTime(in.Now), Replicas: in.Workload.Replicas, Subsets: []Subset{}, Pods: []Pod{},
		Next: []Step{}, Conditions: e.decision.Status.Conditions}
	if in.Workload.Found {
		e.subsets()
		e.pods()
		e.steps()
	}
	e.status.Answer = e.answer()
	return e.status, nil
}

func (e *explainer) answer() string {
	target := e.Spec.TargetRef.Kind + " " + e.Spec.TargetRef.Name
	if !e.in.Workload.Found {
		return fmt.Sprintf("%s/%s spreads nothing: there is no %s", e.Namespace, e.Name, target)
	}
	var parts []string
	for _, s := range e.status.Subsets {
		part := fmt.Sprintf("%s %d", s.Name, s.Replicas)
		if s.MaxReplicas != nil {
			part += fmt.Sprintf(" of %d", *s.MaxReplicas)
		}
		parts = append(parts, part)
	}
	text := fmt.Sprintf("%s/%s spreads %s with %s: %s", e.Namespace, e.Name, target, spelling.Count(e.status.Replicas, "replica"),
		strings.Join(parts, ", "))
	if n := e.decision.Status.Unassigned; n > 0 {
		text += fmt.Sprintf("; %s in no subset", spelling.Count(n, "pod"))
	}
	return text
}

// subsets says which subsets a new pod may go to.
func (e *explainer) subsets() {
	for i, s := range e.decision.Status.SubsetStatuses {
		out := Subset{Name: s.Name, Replicas: s.Replicas, UnschedulableUntil: s.UnschedulableUntil}
		e.limits = append(e.limits, s.MaxReplicas)
		if s.MaxReplicas != workloadspread.Unlimited {
			out.MaxReplicas = &s.MaxReplicas
		}
		switch {
		case s.UnschedulableUntil != nil:
			out.State, out.Why = StateMarked, "pods could not be scheduled there: new ones pass over it until "+clock(s.UnschedulableUntil.Time)
		case s.MaxReplicas == workloadspread.Unlimited:
			out.State, out.Why = StateOpen, "it may have any number of pods"
		case s.MissingReplicas == 0:
			out.State, out.Why = StateFull, "it has "+spelling.Count(s.Replicas, "pod")+" of "+strconv.Itoa(int(s.MaxReplicas))
			if n := e.pending(i); n != "" {
				out.Why += n
			}
		default:
			out.State, out.Why = StateOpen, fmt.Sprintf("it may have %d more", s.MissingReplicas)
		}
		e.status.Subsets = append(e.status.Subsets, out)
	}
}

// pending says how many of the pods of a subset were admitted and are not there yet.
func (e *explainer) pending(i int) string {
	var n int32
	for _, row := range e.decision.Status.VersionedSubsetStatuses {
		if i < len(row) {
			n += int32(len(row[i].CreatingPods))
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %s admitted lately", spelling.Count(n, "pod"))
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// pods says of each pod why it is where it is.
func (e *explainer) pods() {
	assigned, costs := map[*v1.Pod]string{}, map[*v1.Pod]int32{}
	for _, a := range e.decision.Assign {
		assigned[a.Pod] = a.Subset
	}
	for _, c := range e.decision.Costs {
		costs[c.Pod] = c.Cost
	}
	for _, pod := range e.in.Pods {
		if !workloadspread.Active(pod) {
			continue
		}
		out := Pod{Name: pod.Name, Node: pod.Spec.NodeName, Revision: workloadspread.RevisionOf(pod)}
		if out.Revision == workloadspread.OneRevision {
			out.Revision = ""
		}
		e.place(&out, pod, assigned[pod])
		at := e.index(out.Subset)
		before := max(at, 0)
		if out.From == FromNothing {
			before = len(e.Spec.Subsets)
		}
		for i := range before {
			out.Earlier = append(out.Earlier, Passed{e.Spec.Subsets[i].Name, e.passed(i, pod, &out)})
		}
		cost, known := costs[pod]
		if !known {
			n, err := strconv.ParseInt(pod.Annotations[workloadspread.AnnotationCost], 10, 32)
			cost, known = int32(n), err == nil
		}
		if known && e.readsCosts() {
			out.Cost, out.CostWhy = &cost, e.costWhy(cost, at, pod)
		}
		e.status.Pods = append(e.status.Pods, out)
	}
}

func (e *explainer) index(subset string) int {
	return slices.IndexFunc(e.Spec.Subsets, func(s v1alpha1.WorkloadSubset) bool { return s.Name == subset })
}

// place says in which subset a pod is, and how that is known.
func (e *explainer) place(out *Pod, pod *v1.Pod, assigned string) {
	a, ok := workloadspread.AssignmentOf(pod)
	switch {
	case assigned != "":
		out.Subset, out.From = assigned, FromNode
		out.Why = "it has no assignment of " + e.Name + "; its node " + pod.Spec.NodeName + " matches the subset best"
	case ok && a.Name == e.Name && a.Subset == "":
		out.From, out.Why = FromNothing, "no subset had room for it when it was created, as its annotation says"
	case ok && a.Name == e.Name && e.index(a.Subset) < 0:
		out.From, out.Why = FromNothing, "its annotation names subset "+a.Subset+", which the spec does not have any more"
	case ok && a.Name == e.Name:
		out.Subset, out.From, out.Why = a.Subset, FromAnnotation, "its annotation says so"
		if e.Spec.TargetRef.Kind == "StatefulSet" {
			out.Why += fmt.Sprintf("; its ordinal is %d", workloadspread.OrdinalOf(pod.Name))
		}
	case pod.Spec.NodeName == "":
		out.From, out.Why = FromNothing, "it has no assignment, and no node yet that a subset could match: it was created before "+e.Name+
			", or while its webhook did not answer"
	case e.in.Nodes[pod.Spec.NodeName] == nil:
		out.From, out.Why = FromNothing, "it has no assignment, and its node "+pod.Spec.NodeName+" is not among the objects"
	default:
		out.From, out.Why = FromNothing, "it has no assignment, and its node "+pod.Spec.NodeName+" matches no subset"
	}
}

// passed says why a pod is not in an earlier subset, as far as that can be known now.
func (e *explainer) passed(i int, pod *v1.Pod, out *Pod) string {
	s := &e.status.Subsets[i]
	if node := e.in.Nodes[pod.Spec.NodeName]; node != nil && out.From != FromAnnotation {
		if why := workloadspread.Mismatch(pod, &e.Spec.Subsets[i], node); why != "" {
			return why
		}
	}
	switch {
	case s.State != StateOpen:
		return s.Why
	case workloadspread.Shared(&e.Spec) && s.MaxReplicas != nil:
		return "it has its share but for " + spelling.Count(*s.MaxReplicas-s.Replicas, "pod") + "; the shares decide, not the order"
	}
	return "it is open now (" + s.Why + "); it was full or passed over when the pod was created, or nothing ran there that had room"
}

func (e *explainer) readsCosts() bool {
	return e.Spec.TargetRef.Kind == "Deployment" || e.Spec.TargetRef.Kind == "ReplicaSet"
}

// costWhy says how a cost comes about.
func (e *explainer) costWhy(cost int32, subset int, pod *v1.Pod) string {
	shared, old, n := workloadspread.Shared(&e.Spec), "", int32(len(e.Spec.Subsets)-subset)
	current := e.in.Workload.Revision
	if reversed := shared && cost < 500_000 || !shared && cost != 100*n && cost != -100*int32(subset+1); reversed && current != "" &&
		workloadspread.RevisionOf(pod) != current {
		old = ", in the reverse order of an old revision"
	}
	switch {
	case subset < 0:
		return "in no subset: deleted first"
	case cost < 0:
		return "beyond the limit of " + strconv.Itoa(int(e.limits[subset])) + " of the subset" + old
	case shared && cost < 500_000:
		return "seat " + strconv.Itoa(int(cost)-1) + old
	case shared:
		return "seat " + strconv.Itoa(1_000_000-int(cost)) + " of the shares"
	}
	return fmt.Sprintf("within the limit of subset %d of %d", subset+1, len(e.Spec.Subsets)) + old
}

// steps says what the controller would do, and what it waits for.
func (e *explainer) steps() {
	add := func(action string, pod *v1.Pod, why string) {
		e.status.Next = append(e.status.Next, Step{Action: action, Pod: pod.Name, Why: why})
	}
	for _, a := range e.decision.Assign {
		add(ActionAssign, a.Pod, "to subset "+a.Subset)
	}
	for _, c := range e.decision.Costs {
		before := cmp.Or(c.Pod.Annotations[workloadspread.AnnotationCost], "none")
		add(ActionCost, c.Pod, fmt.Sprintf("from %s to %d", before, c.Cost))
	}
	moves := map[*v1.Pod]bool{}
	for _, m := range e.decision.Delete {
		moves[m.Pod] = true
		add(ActionDelete, m.Pod, "it "+m.Why)
	}
	for _, pod := range e.in.Pods {
		e.waits(pod, moves[pod])
	}
	for _, event := range e.decision.Events {
		if event.Type == v1.EventTypeWarning {
			e.status.Next = append(e.status.Next, Step{Action: ActionReport, Pod: event.About, Why: event.Message})
		}
	}
}

// waits says until when a pod is kept that cannot be scheduled.
func (e *explainer) waits(pod *v1.Pod, moves bool) {
	a, ok := workloadspread.AssignmentOf(pod)
	if moves || !ok || a.Name != e.Name || !workloadspread.Active(pod) {
		return
	}
	scaleUp, known := e.in.Autoscaler[pod.UID]
	critical, until, may := workloadspread.MovesOn(&e.Spec, pod, e.index(a.Subset), scaleUp, known)
	if !may {
		return
	}
	why := "the scheduler finds no node; it moves on then"
	switch {
	case until.After(critical) && scaleUp.Acting:
		why = "a node for it has been on its way since " + clock(scaleUp.Since) + "; it moves on if that is not ready then"
	case until.After(critical):
		why = "the autoscaler has given up; it moves on then"
	case !e.in.Now.Before(until):
		why = "it is to move on, after others: there are at most so many a minute"
	}
	at := metav1.NewTime(until)
	e.status.Next = append(e.status.Next, Step{Action: ActionWait, Pod: pod.Name, Why: why, At: &at})
}
