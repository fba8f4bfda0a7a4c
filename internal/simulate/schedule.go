package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// schedule binds pending pods to ready nodes as kube-scheduler does, and returns the bound pods.
// Nodes that accept no pods still count for spread and affinity.
func schedule(s *predicates.Scheduler, c *cluster) ([]*pod, error) {
	pending := c.schedulable()
	if len(pending) == 0 {
		return nil, nil
	}
	var open, closed []predicates.Node
	var ready []*node
	for i, n := range c.seen() {
		switch at := c.nodes[i]; {
		case !at.ready:
			closed = append(closed, n)
		default:
			n.Node = at.asSeenByScheduler()
			open, ready = append(open, n), append(ready, at)
		}
	}
	if len(ready) == 0 {
		return nil, nil
	}
	places, err := s.Bind(open, closed, objectsOf(pending))
	if err != nil {
		return nil, err
	}
	var bound []*pod
	for i, at := range places {
		if at >= 0 {
			c.bind(pending[i], ready[at])
			bound = append(bound, pending[i])
		}
	}
	if len(bound) > 0 {
		c.leaveQueue((*pod).runs)
	}
	return bound, nil
}

// asSeenByScheduler returns the node's object, with the taint that Cluster Autoscaler adds if
// scale-down may remove it.
func (n *node) asSeenByScheduler() *v1.Node {
	if !n.unneeded {
		return n.object
	}
	if n.avoids != n.object {
		marked := *n.object
		marked.Spec.Taints = append(slices.Clip(marked.Spec.Taints), v1.Taint{Key: template.DeletionCandidateTaint, Effect: v1.TaintEffectPreferNoSchedule})
		n.avoid, n.avoids = &marked, n.object
	}
	return n.avoid
}
