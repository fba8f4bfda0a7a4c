package simulate

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// schedule binds pending pods to ready nodes as kube-scheduler does: those of one priority after those
// of higher ones, and those that find no room preempt others. It returns the bound pods.
func (s *simulation) schedule() (bound []*pod, err error) {
	classes := byPriority(s.cluster.schedulable())
	for _, pending := range classes {
		some, err := bindSome(s.binder, s.cluster, pending)
		if err != nil {
			return nil, err
		}
		preempting, err := s.preempt(pending)
		if err != nil {
			return nil, err
		}
		bound = append(append(bound, some...), preempting...)
	}
	if len(classes) < 2 || len(bound) == 0 {
		return bound, nil
	}
	more, err := bindSome(s.binder, s.cluster, s.cluster.schedulable()) // that may have waited for pods of lower priority
	return append(bound, more...), err
}

// byPriority sorts pods by priority, the highest first.
func byPriority(pods []*pod) (classes [][]*pod) {
	at := map[int32]int{}
	for _, p := range pods {
		priority := corev1.PodPriority(p.object)
		if _, known := at[priority]; !known {
			at[priority] = len(classes)
			classes = append(classes, nil)
		}
		classes[at[priority]] = append(classes[at[priority]], p)
	}
	slices.SortFunc(classes, func(a, b []*pod) int {
		return cmp.Compare(corev1.PodPriority(b[0].object), corev1.PodPriority(a[0].object))
	})
	return classes
}

// bindSome binds pods to ready nodes. Nodes that accept no pods still count for spread and affinity.
func bindSome(s *predicates.Scheduler, c *cluster, pending []*pod) ([]*pod, error) {
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
