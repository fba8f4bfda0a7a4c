package autoscaler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
)

// NewPlugins returns a Packing by the scheduler's own plugins: exact for pods of all kinds, and
// slower by far.
func NewPlugins(ctx context.Context) (Packing, error) {
	checker, err := predicates.New(ctx, predicates.Options{})
	if err != nil {
		return nil, fmt.Errorf("scheduler plugins: %w", err)
	}
	return plugins{checker}, nil
}

type plugins struct{ checker *predicates.Checker }

// Snapshot implements Packing.
func (p plugins) Snapshot(nodes []predicates.Node) Snapshot {
	return &pluginSnapshot{p.checker.Cluster(nodes)}
}

type pluginSnapshot struct{ cluster *predicates.Cluster }

// Place implements Snapshot. The emptiest node is the one with the fewest pods.
func (s *pluginSnapshot) Place(pods []*v1.Pod, order Order) ([]int, error) {
	at := make([]int, len(pods))
	first := 0
	for i, pod := range pods {
		var err error
		if order == Emptiest {
			at[i], err = s.onEmptiest(pod)
		} else {
			at[i], err = s.from(first, pod)
		}
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if at[i] >= 0 && order == InTurn {
			first = (at[i] + 1) % s.cluster.Len()
		}
	}
	return at, nil
}

// from places a pod on the first node on which it fits, in a circle.
func (s *pluginSnapshot) from(first int, pod *v1.Pod) (int, error) {
	for _, r := range [][2]int{{first, s.cluster.Len()}, {0, first}} {
		placements, err := s.cluster.Place(pod, 1, r[0], r[1])
		if err != nil {
			return -1, err
		}
		if len(placements) > 0 {
			return placements[0].First, nil
		}
	}
	return -1, nil
}

func (s *pluginSnapshot) onEmptiest(pod *v1.Pod) (int, error) {
	order := make([]int, s.cluster.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.cluster.PodCount(a), s.cluster.PodCount(b)) })
	for _, id := range order {
		placements, err := s.cluster.Place(pod, 1, id, id+1)
		if err != nil {
			return -1, err
		}
		if len(placements) > 0 {
			return id, nil
		}
	}
	return -1, nil
}

// Extend implements Snapshot.
func (s *pluginSnapshot) Extend(nodes []predicates.Node, pods []*v1.Pod) (bool, error) {
	first := s.cluster.Add(nodes...)
	for _, pod := range pods {
		placements, err := s.cluster.Place(pod, 1, first, s.cluster.Len())
		if err != nil || len(placements) == 0 {
			return false, err
		}
	}
	return true, nil
}

// Fits implements Snapshot.
func (s *pluginSnapshot) Fits(template predicates.Node, pods []*v1.Pod) ([]bool, error) {
	fit, err := s.cluster.Fits([]predicates.Node{template}, pods)
	if err != nil {
		return nil, err
	}
	fits := make([]bool, len(pods))
	for i := range pods {
		fits[i] = fit.Passes(0, fit.KindOf(i))
	}
	return fits, nil
}

// Estimate implements Snapshot.
func (s *pluginSnapshot) Estimate(template predicates.Node, groups [][]*v1.Pod, limit int) (int, []*v1.Pod, error) {
	phase := estimator.Phase{Template: template, MaxNodes: estimator.NoLimit}
	for i, group := range groups {
		phase.Demands = append(phase.Demands, estimator.Demand{Kind: i, Pod: group[0], Count: len(group)})
	}
	estimation, err := estimator.Estimate(s.cluster, []estimator.Phase{phase}, limit)
	if err != nil {
		return 0, nil, err
	}
	var placed []*v1.Pod
	for i, p := range estimation.Phases[0].Placed {
		placed = append(placed, groups[i][:p.Count]...)
	}
	return estimation.NodeCount, placed, nil
}
