package workloadspread

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podfit"
)

// OneRevision is the revision of pods that have none in their labels.
const OneRevision = "all"

// RevisionOf is the revision of the workload that a pod is of.
func RevisionOf(pod *v1.Pod) string {
	for _, key := range []string{"pod-template-hash", "controller-revision-hash"} {
		if value := pod.Labels[key]; value != "" {
			return value
		}
	}
	return OneRevision
}

// OrdinalOf is the ordinal of a pod of a StatefulSet by its name, or -1.
func OrdinalOf(name string) int32 {
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 31)
	if err != nil || !strings.Contains(name, "-") {
		return -1
	}
	return int32(n)
}

// Active reports whether a pod counts: it has not ended and is not being deleted.
func Active(pod *v1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

// member is a pod of the workload.
type member struct {
	*v1.Pod
	id       string
	revision string
	subset   int // -1: none
	assigned bool
	active   bool
	ready    bool
}

// members are the pods, in the order of their names.
func members(spec *v1alpha1.WorkloadSpreadSpec, name string, pods []*v1.Pod) []*member {
	out := make([]*member, len(pods))
	for i, pod := range pods {
		m := &member{Pod: pod, id: pod.Name, revision: RevisionOf(pod), subset: -1, active: Active(pod),
			ready: condition(pod, v1.PodReady).Status == v1.ConditionTrue}
		a, ok := AssignmentOf(pod)
		if m.assigned = ok && a.Name == name; m.assigned {
			m.subset = indexOf(spec, a.Subset)
			m.id = cmp.Or(a.ID, pod.Name)
		}
		out[i] = m
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func indexOf(spec *v1alpha1.WorkloadSpreadSpec, name string) int {
	return slices.IndexFunc(spec.Subsets, func(s v1alpha1.WorkloadSubset) bool { return s.Name == name })
}

// condition is one of a pod; of status Unknown if there is none.
func condition(pod *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return v1.PodCondition{Status: v1.ConditionUnknown}
	}
	return pod.Status.Conditions[i]
}

// Assign is a pod that was there before, and the subset that it matches.
type Assign struct {
	Pod *v1.Pod
	// Subset is the name of the subset.
	Subset string
	// Labels and Annotations must be set on the pod; the annotation of the assignment is one of them.
	Labels, Annotations map[string]string
}

// classify finds subsets for pods on nodes that have no assignment, older pods first. Ones that were
// admitted without a subset stay without.
func (p *pass) classify() {
	var order []*member
	room := map[string][]int32{}
	occupy := func(m *member, i int) { // room; Unlimited stays
		left := room[m.revision]
		m.subset, left[i] = i, max(left[i]-1, min(left[i], 0))
	}
	for _, m := range p.pods {
		if room[m.revision] == nil {
			room[m.revision] = slices.Clone(p.counts.limits(m.revision))
		}
		if m.subset >= 0 {
			occupy(m, m.subset)
		}
		if !m.assigned && m.Spec.NodeName != "" && p.Nodes[m.Spec.NodeName] != nil {
			order = append(order, m)
		}
	}
	slices.SortStableFunc(order, func(a, b *member) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, m := range order {
		best, most := -1, -1
		for i := range p.Spec.Subsets {
			if score := p.score(m.Pod, &p.Spec.Subsets[i], p.Nodes[m.Spec.NodeName], room[m.revision][i] != 0); score > most {
				best, most = i, score
			}
		}
		if best >= 0 {
			occupy(m, best)
			p.decision.Assign = append(p.decision.Assign, p.assign(m, &p.Spec.Subsets[best]))
		}
	}
}

// Mismatch says why a pod with the rules of a subset does not match a node; empty if it does. Its room
// does not count.
func Mismatch(pod *v1.Pod, s *v1alpha1.WorkloadSubset, node *v1.Node) string {
	with, err := Inject(pod, &v1alpha1.WorkloadSubset{RequiredNodeSelector: s.RequiredNodeSelector, Tolerations: s.Tolerations},
		Assignment{}, nil)
	if err != nil {
		return err.Error()
	}
	rules := podfit.RulesOf(with)
	if !rules.Select(node) {
		return "its requiredNodeSelector does not match node " + node.Name
	}
	if taint, untolerated := rules.Untolerated(node); untolerated {
		return "taint " + taint.ToString() + " of node " + node.Name + " is not tolerated"
	}
	return ""
}

// score is how well a pod on a node matches a subset, or -1: 100 for each unit of a preferred term's
// weight, 10 if the patch would change nothing, 1 for room.
func (p *pass) score(pod *v1.Pod, s *v1alpha1.WorkloadSubset, node *v1.Node, room bool) int {
	if Mismatch(pod, s, node) != "" {
		return -1
	}
	score := 0
	if terms, err := nodeaffinity.NewPreferredSchedulingTerms(s.PreferredNodeSelector); err == nil {
		score += 100 * int(terms.Score(node))
	}
	if with := p.patched(pod, s); with != nil && equality.Semantic.DeepEqual(pod, with) {
		score += 10
	}
	if room {
		score++
	}
	return score
}

func (p *pass) assign(m *member, s *v1alpha1.WorkloadSubset) Assign {
	out := Assign{Pod: m.Pod, Subset: s.Name, Annotations: map[string]string{}}
	if with := p.patched(m.Pod, s); with != nil {
		out.Labels, out.Annotations = added(m.Labels, with.Labels), added(m.Annotations, with.Annotations)
	}
	out.Annotations[AnnotationSpread] = Assignment{Name: p.Name, Subset: s.Name}.String()
	return out
}

// patched is a pod with the patch of a subset; nil if that is refused.
func (p *pass) patched(pod *v1.Pod, s *v1alpha1.WorkloadSubset) *v1.Pod {
	if s.Patch == nil {
		return pod
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil
	}
	with, err := merge(fields, s.Patch.Raw, p.Workload.Selector, false)
	if err != nil {
		return nil
	}
	return with
}

// added is what a map has that another one has not.
func added(before, after map[string]string) map[string]string {
	out := maps.Clone(after)
	maps.DeleteFunc(out, func(key, value string) bool { return has(before, key) && before[key] == value })
	if out == nil {
		out = map[string]string{}
	}
	return out
}

// UnschedulableSince is since when the scheduler finds no node for a pod. It is false if the scheduler
// has not said so, or has found one.
func UnschedulableSince(pod *v1.Pod) (time.Time, bool) {
	c := condition(pod, v1.PodScheduled)
	if pod.Spec.NodeName != "" || pod.Status.Phase != v1.PodPending && pod.Status.Phase != "" || c.Status == v1.ConditionUnknown {
		return time.Time{}, false
	}
	return cmp.Or(c.LastTransitionTime, pod.CreationTimestamp).Time, c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
}

// keepFirst orders the pods that their controller deletes first to the end: those without a node,
// pending, not ready, and younger ones.
func keepFirst(a, b *member) int {
	order := func(m *member) [3]int {
		phase := slices.Index([]v1.PodPhase{v1.PodRunning, v1.PodUnknown}, m.Status.Phase)
		return [3]int{no(m.Spec.NodeName != ""), int(uint8(phase)), no(m.ready)} // all other phases come last
	}
	x, y := order(a), order(b)
	return cmp.Or(slices.Compare(x[:], y[:]), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

func no(is bool) int {
	if is {
		return 0
	}
	return 1
}
