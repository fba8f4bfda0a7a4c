package deletioncost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// annotationSpread is on the pods of a WorkloadSpread, which has costs of its own.
const annotationSpread = "evenkeel.dev/workload-spread"

// Input is a ReplicaSet and what its constraints count. Nothing in it is changed.
type Input struct {
	// Request is Spread or Zone.
	Request Request
	// Pods are those of the ReplicaSet.
	Pods []*v1.Pod
	// Others are pods of the namespace that belong to other workloads: a constraint may select them.
	// Pods of other revisions of the same workload are left out, because they come or go: each
	// revision is level by itself.
	Others []*v1.Pod
	// Nodes are all nodes.
	Nodes []*v1.Node
}

// Reason says in one word what a Decision rests on.
type Reason string

// The reasons.
const (
	// Right means that the order of deletion needs no change.
	Right Reason = "Right"
	// Wrong means that the writes correct the order.
	Wrong Reason = "Wrong"
	// Unconstrained means that no constraint of the pods counts them.
	Unconstrained Reason = "Unconstrained"
	// WorkloadSpread means that the pods are left to the WorkloadSpread to which they belong.
	WorkloadSpread Reason = "WorkloadSpread"
)

// Decision is what a ReplicaSet needs.
type Decision struct {
	// Writes are in the order in which the pods would be deleted.
	Writes []Write
	Reason Reason
	// Key is the topologyKey of the constraint that comes first.
	Key string
	// Skew is the highest skew over Key that scaling down could lead to as it is, and Least that
	// after the writes. Both are 0 if there is no constraint.
	Skew, Least int
	// Foreign is how many pods keep a cost that somebody else wrote.
	Foreign int
}

// Message says the decision in a sentence.
func (d *Decision) Message() string {
	switch d.Reason {
	case Right:
		return fmt.Sprintf("scaling down keeps the skew over %s at %d or less", d.Key, d.Skew)
	case Wrong:
		return fmt.Sprintf("scaling down could have led to a skew of %d over %s: %s keep it at %d or less",
			d.Skew, d.Key, spelling.Count(len(d.Writes), "deletion cost"), d.Least)
	case WorkloadSpread:
		return "the pods belong to a WorkloadSpread, which writes their deletion costs"
	case Unconstrained:
	}
	return "no topology spread constraint counts the pods"
}

// Decide returns the costs that the pods need. Only pods that run and are ready count: the others
// are deleted before them, whatever their costs. The error describes a selector that cannot be
// parsed.
func Decide(in *Input) (Decision, error) {
	if slices.ContainsFunc(in.Pods, func(p *v1.Pod) bool { return p.Annotations[annotationSpread] != "" }) {
		return Decision{Reason: WorkloadSpread}, nil
	}
	pods := ready(in.Pods)
	if len(pods) == 0 {
		return Decision{Reason: Unconstrained}, nil
	}
	s, err := newSet(in, pods)
	if err != nil {
		return Decision{}, err
	}
	if len(s.constraints) == 0 {
		return Decision{Reason: Unconstrained, Writes: Release(pods), Foreign: s.foreign}, nil
	}
	s.plan()
	d := Decision{Reason: Right, Key: s.constraints[0].Key, Foreign: s.foreign}
	now, then := s.skews(func(m *member) int { return m.cost }), s.skews(func(m *member) int { return m.want })
	d.Skew, d.Least = slices.Max(now[0]), slices.Max(then[0])
	if s.asGood(now, then) {
		d.Least = d.Skew
		return d, nil
	}
	for _, m := range s.members {
		if m.want != m.cost {
			d.Writes = append(d.Writes, Write{Pod: m.pod, Cost: m.want})
		}
	}
	if len(d.Writes) > 0 {
		d.Reason = Wrong
	}
	slices.SortFunc(d.Writes, func(a, b Write) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), strings.Compare(a.Pod.Name, b.Pod.Name))
	})
	return d, nil
}

// ready returns the pods that are deleted last, older ones first.
func ready(pods []*v1.Pod) []*v1.Pod {
	is := func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue }
	var out []*v1.Pod
	for _, p := range pods {
		if p.Spec.NodeName != "" && p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil &&
			slices.ContainsFunc(p.Status.Conditions, is) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}
