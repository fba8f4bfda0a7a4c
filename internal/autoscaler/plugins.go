package autoscaler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
)

// NewPlugins returns a Packing by the scheduler's own plugins: exact for pods of all kinds, and
// slower than Arithmetic.
func NewPlugins(ctx context.Context) (Packing, error) {
	checker, err := predicates.New(ctx, predicates.Options{})
	if err != nil {
		return nil, fmt.Errorf("scheduler plugins: %w", err)
	}
	return PluginsOf(checker), nil
}

// PluginsOf returns a Packing by a Checker.
func PluginsOf(checker *predicates.Checker) Packing { return plugins{checker} }

type plugins struct{ checker *predicates.Checker }

// Snapshot implements Packing.
func (p plugins) Snapshot(nodes []predicates.Node) Snapshot {
	cluster := p.checker.Cluster(nodes)
	return &pluginSnapshot{checker: p.checker, cluster: cluster}
}

// LikeNode implements Packing.
func (p plugins) LikeNode(template, node *v1.Node) { p.checker.LikeNode(template, node) }

type pluginSnapshot struct {
	checker   *predicates.Checker
	cluster   *predicates.Cluster
	estimator *estimator.Estimator // nil once the cluster has changed
}

// Place implements Snapshot. Pods that are equal to the scheduler and follow each other are placed at
// once, except on the emptiest nodes, which are those with the fewest pods.
func (s *pluginSnapshot) Place(pods []*v1.Pod, order Order) ([]int, error) {
	s.estimator = nil
	at := make([]int, len(pods))
	if order == Emptiest {
		for i, pod := range pods {
			var err error
			if at[i], err = s.onEmptiest(pod); err != nil {
				return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
			}
		}
		return at, nil
	}
	fit, err := s.checker.Fits(nil, nil, pods)
	if err != nil {
		return nil, err
	}
	first := 0
	for i := range at {
		at[i] = -1
	}
	for begin := 0; begin < len(pods); {
		end := begin + 1
		for end < len(pods) && fit.KindOf(end) == fit.KindOf(begin) {
			end++
		}
		if order == FirstFit {
			first = 0
		}
		if first, err = s.run(pods[begin:end], at[begin:end], first, order); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pods[begin].Name, err)
		}
		begin = end
	}
	return at, nil
}

// maxOneByOne is how many equal pods are placed one by one. Of more, nodes are filled one after the
// other, which costs far less; they leave no node free either way.
const maxOneByOne = 100

// run places equal pods from one node on, in a circle, and returns the node after the last one used.
func (s *pluginSnapshot) run(pods []*v1.Pod, at []int, first int, order Order) (int, error) {
	step := len(pods)
	if len(pods) <= maxOneByOne {
		step = 1
	}
	for begin := 0; begin < len(pods); begin += step {
		next, placed, err := s.fill(pods[begin:begin+step], at[begin:begin+step], first)
		if err != nil || placed == 0 {
			return first, err // the others are equal
		}
		if order == InTurn {
			first = next
		}
	}
	return first, nil
}

// fill places equal pods on the first nodes that take them, from one on, in a circle.
func (s *pluginSnapshot) fill(pods []*v1.Pod, at []int, first int) (last, placed int, err error) {
	next, done := first, 0
	for _, r := range [][2]int{{first, s.cluster.Len()}, {0, first}} {
		if done == len(pods) || r[0] == r[1] {
			continue
		}
		placements, err := s.cluster.Place(pods[done], len(pods)-done, r[0], r[1])
		if err != nil {
			return 0, 0, err
		}
		for _, p := range placements {
			for node := p.First; node < p.First+p.Nodes; node++ {
				for range p.PerNode {
					at[done] = node
					done++
				}
				next = (node + 1) % s.cluster.Len()
			}
		}
	}
	return next, done, nil
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

// Try implements Snapshot.
func (s *pluginSnapshot) Try(fresh []predicates.Node, pods []*v1.Pod, at []int) (int, error) {
	trial := s.cluster.Fork()
	trial.Add(fresh...)
	fit, err := s.checker.Fits(nil, nil, pods)
	if err != nil {
		return 0, err
	}
	for begin := 0; begin < len(pods); {
		end := begin + 1
		for end < len(pods) && at[end] == at[begin] && fit.KindOf(end) == fit.KindOf(begin) {
			end++
		}
		placements, err := trial.Place(pods[begin], end-begin, at[begin], at[begin]+1)
		if err != nil {
			return 0, err
		}
		if len(placements) == 0 || placements[0].PerNode < end-begin {
			return end - 1, nil
		}
		begin = end
	}
	return -1, nil
}

// Extend implements Snapshot.
func (s *pluginSnapshot) Extend(nodes []predicates.Node, pods []*v1.Pod) (bool, error) {
	s.estimator = nil
	first := s.cluster.Add(nodes...)
	fit, err := s.checker.Fits(nil, nil, pods)
	if err != nil {
		return false, err
	}
	for _, kind := range fit.Kinds() {
		placements, err := s.cluster.Place(kind.Pod, len(kind.Pods), first, s.cluster.Len())
		placed := 0
		for _, p := range placements {
			placed += p.Nodes * p.PerNode
		}
		if err != nil || placed < len(kind.Pods) {
			return false, err
		}
	}
	return true, nil
}

// pluginFit is a Fit by the plugins.
type pluginFit struct{ *predicates.Fit }

func (f pluginFit) Passes(template, pod int) bool { return f.Fit.Passes(template, f.KindOf(pod)) }
func (f pluginFit) Class(template int) string     { return strconv.Itoa(f.ClassOf(template)) }
func (f pluginFit) Reasons(template, pod int) []predicates.Reason {
	return f.Fit.Reasons(template, f.KindOf(pod))
}

// Fits implements Snapshot.
func (s *pluginSnapshot) Fits(templates []predicates.Node, pods []*v1.Pod) (Fit, error) {
	fit, err := s.cluster.Fits(templates, pods)
	if err != nil {
		return nil, err
	}
	return pluginFit{fit}, nil
}

// Estimate implements Snapshot.
func (s *pluginSnapshot) Estimate(template predicates.Node, class string, groups [][]*v1.Pod, limit int) (int, []*v1.Pod, error) {
	phase := estimator.Phase{Template: template, Shape: class, MaxNodes: estimator.NoLimit}
	for i, group := range groups {
		phase.Demands = append(phase.Demands, estimator.Demand{Kind: i, Pod: group[0], Count: len(group)})
	}
	if s.estimator == nil {
		s.estimator = estimator.New(s.cluster)
	}
	estimation, err := s.estimator.Estimate([]estimator.Phase{phase}, limit)
	if err != nil {
		return 0, nil, err
	}
	var placed []*v1.Pod
	for i, p := range estimation.Phases[0].Placed {
		placed = append(placed, groups[i][:p.Count]...)
	}
	return estimation.NodeCount, placed, nil
}
