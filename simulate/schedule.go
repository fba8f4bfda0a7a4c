package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// schedule binds pending pods to ready nodes, first fit in the order of the
// nodes, as far as the scheduler's predicates let it. It returns the pods it
// bound. It has no scores and preempts nobody.
//
// Kinds of pods go in the order of scaleup.Queue, so that pods find the places
// that were planned for them.
func schedule(checker *predicates.Checker, c *cluster) ([]*pod, error) {
	pending := c.schedulable()
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
// and how many take pods. Of these the ones come last that scale-down means to
// remove: a real autoscaler marks them for the scheduler to avoid. The nodes that
// take no pods still count for spread and affinity.
func readyFirst(c *cluster) (order []*node, views []predicates.Node, ready int) {
	seen := c.seen()
	for _, wanted := range []func(*node) bool{
		func(n *node) bool { return n.ready && !n.unneeded },
		func(n *node) bool { return n.ready && n.unneeded },
		func(n *node) bool { return !n.ready },
	} {
		ready = len(order)
		for i, n := range c.nodes {
			if wanted(n) {
				order, views = append(order, n), append(views, seen[i])
			}
		}
	}
	return order, views, ready
}

// queued is a kind of equal pods in the scheduling queue.
type queued struct {
	pod  *v1.Pod
	left []int // pending pods, by position
}

// queue sorts the pending pods into kinds, in the order they are scheduled.
func queue(checker *predicates.Checker, nodes []*node, pods []*v1.Pod) ([]queued, error) {
	shapes, weights := shapesOf(nodes)
	fit, err := checker.Fits(nil, shapes, pods)
	if err != nil {
		return nil, err
	}
	kinds := fit.Kinds()
	var queue []queued
	for _, k := range scaleup.Queue(fit, shapes, weights) {
		queue = append(queue, queued{pod: kinds[k].Pod, left: kinds[k].Pods})
	}
	return queue, nil
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
