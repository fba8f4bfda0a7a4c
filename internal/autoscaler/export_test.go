package autoscaler

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
)

// Snapshot is a snapshot of nodes.
type Snapshot struct{ *snapshot }

// NewSnapshot makes one.
func NewSnapshot(checker *predicates.Checker, nodes []predicates.Node) Snapshot {
	return Snapshot{newSnapshot(checker, nodes)}
}

// Fits says for each template which pods fit a fresh node of it.
func (s Snapshot) Fits(templates []predicates.Node, pods []*v1.Pod) ([][]bool, error) {
	found, err := s.fits(templates, pods)
	if err != nil {
		return nil, err
	}
	out := make([][]bool, len(templates))
	for i := range out {
		for k := range pods {
			out[i] = append(out[i], found.passes(i, k))
		}
	}
	return out, nil
}

// Estimate returns how many nodes the groups of pods need, at most limit, and the pods on them.
func (s Snapshot) Estimate(template predicates.Node, groups [][]*v1.Pod, limit int) (int, []*v1.Pod, error) {
	request := estimator.Request{Template: template}
	for _, group := range groups {
		request.Demands = append(request.Demands, estimator.Demand{Pod: group[0], Count: len(group)})
	}
	estimation, err := s.estimate(request, limit)
	var placed []*v1.Pod
	for i, n := range estimation.Placed {
		placed = append(placed, groups[i][:n]...)
	}
	return estimation.NodeCount, placed, err
}

// Place returns the position of each pod's node, -1 for none.
func (s Snapshot) Place(pods []*v1.Pod) ([]int, error) { return s.place(pods) }

// Needed is how many nodes of the template hold all pods but for those that fit on the nodes given.
// Ordered nodes beyond it were ordered twice. It is exact where all groups have nodes of one size and
// no pod is pinned.
func Needed(checker *predicates.Checker, nodes []*v1.Node, template *v1.Node, pods []*v1.Pod) (int, error) {
	template = template.DeepCopy()
	template.Status.Allocatable = template.Status.Capacity
	filled := make([]predicates.Node, len(nodes))
	for i, node := range nodes {
		filled[i].Node = node
	}
	s := NewSnapshot(checker, filled)
	at, err := s.place(pods)
	if err != nil {
		return 0, fmt.Errorf("needed: %w", err)
	}
	var left [][]*v1.Pod
	for i, pod := range pods {
		if at[i] < 0 {
			left = append(left, []*v1.Pod{pod})
		}
	}
	n, _, err := s.Estimate(predicates.Node{Node: template}, left, len(left))
	if err != nil {
		return 0, fmt.Errorf("needed: %w", err)
	}
	return n, nil
}
