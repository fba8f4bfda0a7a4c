package autoscaler

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
)

// snapshot is a what-if copy of a cluster, as Cluster Autoscaler makes one in every loop: pods are put
// on nodes by the scheduler's own plugins.
type snapshot struct {
	checker   *predicates.Checker
	cluster   *predicates.Cluster
	estimator *estimator.Estimator // nil once the cluster has changed
}

func newSnapshot(checker *predicates.Checker, nodes []predicates.Node) *snapshot {
	return &snapshot{checker: checker, cluster: checker.Cluster(nodes)}
}

// place puts the pods on nodes, one after the other, and returns the index of each pod's node, -1 for
// none. A pod tries nodes from the one after the last pod's, as Cluster Autoscaler does. Pods that are
// equal to the scheduler and follow each other are placed at once.
func (s *snapshot) place(pods []*v1.Pod) ([]int, error) {
	s.estimator = nil
	at := make([]int, len(pods))
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
		if first, err = s.run(pods[begin:end], at[begin:end], first); err != nil {
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
func (s *snapshot) run(pods []*v1.Pod, at []int, first int) (int, error) {
	step := len(pods)
	if len(pods) <= maxOneByOne {
		step = 1
	}
	for begin := 0; begin < len(pods); begin += step {
		next, placed, err := s.fill(pods[begin:begin+step], at[begin:begin+step], first)
		if err != nil || placed == 0 {
			return first, err // the others are equal
		}
		first = next
	}
	return first, nil
}

// fill places equal pods on the first nodes that take them, from one on, in a circle.
func (s *snapshot) fill(pods []*v1.Pod, at []int, first int) (last, placed int, err error) {
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

// try puts pods on nodes by their positions, those of the fresh nodes after all others, each beside
// those before it. It returns the first that does not fit, -1 if all do. The snapshot does not change.
func (s *snapshot) try(fresh []predicates.Node, pods []*v1.Pod, at []int) (int, error) {
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

// extend adds nodes and puts the pods on them. It reports whether all of the pods fit.
func (s *snapshot) extend(nodes []predicates.Node, pods []*v1.Pod) (bool, error) {
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

// fit says which pods fit a fresh node of which template, by their positions.
type fit struct{ *predicates.Fit }

func (f fit) passes(template, pod int) bool { return f.Passes(template, f.KindOf(pod)) }

// class is the same for templates that take equally many of the pods.
func (f fit) class(template int) string { return strconv.Itoa(f.ClassOf(template)) }

func (f fit) reasons(template, pod int) []predicates.Reason {
	return f.Reasons(template, f.KindOf(pod))
}

// fits says which of the pods fit a fresh node of each template. The snapshot does not change.
func (s *snapshot) fits(templates []predicates.Node, pods []*v1.Pod) (fit, error) {
	found, err := s.cluster.Fits(templates, pods)
	return fit{found}, err
}

// estimate packs pods on at most limit new nodes, the largest pods first. The snapshot does not change.
func (s *snapshot) estimate(request estimator.Request, limit int) (estimator.Estimation, error) {
	if s.estimator == nil {
		s.estimator = estimator.New(s.cluster)
	}
	return s.estimator.Estimate(request, limit)
}
