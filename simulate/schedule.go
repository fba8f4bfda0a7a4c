package simulate

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/evenkeel/evenkeel/predicates"
)

// schedule binds pending pods to ready nodes, first fit in the order of the
// nodes, as far as the scheduler's predicates let it. It returns the pods it
// bound. It has no scores and preempts nobody.
//
// Kinds of pods go in the order of their priority. Of equal priority those that
// other pods may keep away from a node (spread, affinity) go first, then those
// that fewer nodes could take, so that both find their places before others
// fill them; then the larger ones.
func schedule(checker *predicates.Checker, c *cluster) ([]*pod, error) {
	pending := c.waiting()
	if len(pending) == 0 || !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.ready }) {
		return nil, nil
	}
	order, nodes, ready := readyFirst(c)
	objects := make([]*v1.Pod, len(pending))
	for i, p := range pending {
		objects[i] = p.object
	}
	kinds, err := queue(checker, order[:ready], objects)
	if err != nil {
		return nil, err
	}
	world := checker.Cluster(nodes)
	var bound []*pod
	for {
		before := len(bound)
		for i := range kinds {
			k := &kinds[i]
			if len(k.left) == 0 {
				continue
			}
			placements, err := world.Place(k.pod, len(k.left), 0, ready)
			if err != nil {
				return nil, err
			}
			for _, p := range placements {
				for id := p.First; id < p.First+p.Nodes; id++ {
					for range p.PerNode {
						bound = append(bound, pending[k.left[0]])
						c.bind(pending[k.left[0]], order[id])
						k.left = k.left[1:]
					}
				}
			}
		}
		// What was bound may be what another kind's affinity waits for.
		if len(bound) == before {
			return bound, nil
		}
	}
}

// readyFirst returns the nodes with those that take pods in front, their views,
// and how many take pods. The others still count for spread and affinity.
func readyFirst(c *cluster) (order []*node, views []predicates.Node, ready int) {
	seen := c.seen()
	for _, takes := range []bool{true, false} {
		for i, n := range c.nodes {
			if n.ready == takes {
				order, views = append(order, n), append(views, seen[i])
			}
		}
		if takes {
			ready = len(order)
		}
	}
	return order, views, ready
}

// queued is a kind of equal pods in the scheduling queue.
type queued struct {
	pod      *v1.Pod
	left     []int // pending pods, by position
	priority int32
	bound    bool // by where other pods are
	nodes    int  // how many nodes could take one, were they empty
	size     int64
}

// queue sorts the pending pods into kinds, in the order they are scheduled.
func queue(checker *predicates.Checker, nodes []*node, pods []*v1.Pod) ([]queued, error) {
	shapes, weights := shapesOf(nodes)
	fit, err := checker.Fits(nil, shapes, pods)
	if err != nil {
		return nil, err
	}
	largest := largestOf(nodes)
	var kinds []queued
	for k, kind := range fit.Kinds() {
		q := queued{pod: kind.Pod, left: kind.Pods, bound: boundByOthers(kind.Pod), size: largest.share(kind.Pod)}
		if kind.Pod.Spec.Priority != nil {
			q.priority = *kind.Pod.Spec.Priority
		}
		for shape, weight := range weights {
			if fit.Passes(shape, k) {
				q.nodes += weight
			}
		}
		kinds = append(kinds, q)
	}
	slices.SortStableFunc(kinds, func(a, b queued) int {
		return cmp.Or(
			cmp.Compare(b.priority, a.priority),
			first(a.bound, b.bound),
			cmp.Compare(a.nodes, b.nodes),
			cmp.Compare(b.size, a.size),
		)
	})
	return kinds, nil
}

// boundByOthers tells pods whose place depends on where other pods are.
func boundByOthers(p *v1.Pod) bool {
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			return true
		}
	}
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// capacity is what the largest nodes have, in milli-cores and KiB.
type capacity struct{ cpu, memory int64 }

func largestOf(nodes []*node) capacity {
	largest := capacity{1, 1}
	for _, n := range nodes {
		largest.cpu = max(largest.cpu, n.object.Status.Allocatable.Cpu().MilliValue())
		largest.memory = max(largest.memory, n.object.Status.Allocatable.Memory().Value()/1024)
	}
	return largest
}

// share is the part of such a node that a pod requests, its cpu and memory
// added up, in millionths.
func (c capacity) share(p *v1.Pod) int64 {
	const million, most = 1_000_000, 1_000_000_000_000
	requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	cpu, memory := min(requests.Cpu().MilliValue(), most), min(requests.Memory().Value()/1024, most)
	return cpu*million/c.cpu + memory*million/c.memory
}

// shapesOf returns one node for every group, empty but for its daemon sets, and
// every node of no group, with how many nodes each stands for.
func shapesOf(nodes []*node) (shapes []predicates.Node, weights []int) {
	ofGroup := map[string]int{}
	for _, n := range nodes {
		if i, known := ofGroup[n.group]; known && n.group != "" {
			weights[i]++
			continue
		}
		ofGroup[n.group] = len(shapes)
		shapes = append(shapes, predicates.Node{Node: n.object, Pods: n.daemons})
		weights = append(weights, 1)
	}
	return shapes, weights
}
