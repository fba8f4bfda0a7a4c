package simulate

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/predicates"
)

// cluster is the state of an API server: nodes, and pods, bound or pending.
type cluster struct {
	nodes  []*node // those of no group first, then by group and age
	byName map[string]*node
	pods   []*pod // in order of arrival
	queue  []*pod // those without a node, in the order in which they became pending

	orphans   []*pod   // of managed workloads, on nodes that they have lost
	history   *history // records what happens to pods
	leftAlone leftAlone
	buffers   [][]*pod // of each of Setup.Buffers
	budgets   []*budget

	view    []predicates.Node // of nodes, nil when something changed
	counted []predicates.Node // the same without expendable pods
}

type node struct {
	object  *v1.Node
	cloud   *v1.Node // the last state from the cloud; nil: of no group
	group   string   // empty: of no group
	daemons []*v1.Pod
	alike   []*v1.Pod // of the setup
	pods    []*pod    // bound to it
	ready   bool      // takes pods
	// upSince is when it last became ready, downSince when it stopped being so; zero
	// while it is not down.
	upSince, downSince time.Time
	// leaving nodes are being removed by scale-down; unneeded ones may follow.
	leaving, unneeded bool

	seen    []*v1.Pod // daemons and pods; nil when something changed
	counted []*v1.Pod // those that are not expendable
	avoid   *v1.Node  // the object with the taint of an unneeded node
	avoids  *v1.Node  // the object that avoid was made from
}

type pod struct {
	object   *v1.Pod
	owner    *managed    // nil: it is of a file
	set      *revision   // of its workload; nil: it has none
	assigned *assignment // to a subset; nil: none
	node     *node       // nil: pending
	life     *podLife
	budgets  []*budget // that select it
	unbound  *pod      // what Cluster Autoscaler sees of it while its node is drained; nil: not made yet
	// why and reason are set for a pod that no node is ordered for.
	why    autoscaler.Why
	reason string
}

func (p *pod) runs() bool { return p.node != nil }

// managed reports whether the pod is not created again under the same name when it loses its node.
func (p *pod) managed() bool { return p.owner != nil && !p.owner.plain }

func newCluster(h *history) *cluster { return &cluster{byName: map[string]*node{}, history: h} }

// add adds a pod, which may already be bound.
func (c *cluster) add(p *pod) {
	c.pods = append(c.pods, p)
	if p.node == nil {
		c.queue = append(c.queue, p)
	} else {
		p.node.pods = append(p.node.pods, p)
		c.changed(p.node)
	}
	p.budgets = c.budgetsOf(p.object)
	c.history.arrived(p)
	c.leftAlone.sort(p)
}

// changed drops the cached view of the cluster, and that of the pods of the given nodes.
func (c *cluster) changed(nodes ...*node) {
	c.view, c.counted = nil, nil
	for _, n := range nodes {
		n.seen = nil
	}
}

// waiting returns the pods without a node, in the order in which they became pending. The list is
// never changed.
func (c *cluster) waiting() []*pod { return c.queue }

// seen returns the nodes as the scheduler and the pipeline see them, in the
// order of c.nodes, each with the pods bound to it. What is returned is never
// changed.
func (c *cluster) seen() []predicates.Node {
	if c.view != nil {
		return c.view
	}
	c.view, c.counted = make([]predicates.Node, len(c.nodes)), make([]predicates.Node, len(c.nodes))
	for i, n := range c.nodes {
		if n.seen == nil {
			n.seen = make([]*v1.Pod, 0, len(n.daemons)+len(n.alike)+len(n.pods))
			n.seen = append(append(n.seen, n.daemons...), n.alike...)
			for _, p := range n.pods {
				n.seen = append(n.seen, p.object)
			}
			n.counted = n.seen
			if slices.ContainsFunc(n.seen, c.leftAlone.filter.Expendable) {
				n.counted = slices.DeleteFunc(slices.Clone(n.seen), c.leftAlone.filter.Expendable)
			}
		}
		c.view[i], c.counted[i] = predicates.Node{Node: n.object, Pods: n.seen}, predicates.Node{Node: n.object, Pods: n.counted}
	}
	return c.view
}

// seenByAutoscaler returns the nodes without expendable pods, which Cluster Autoscaler does not count.
func (c *cluster) seenByAutoscaler() []predicates.Node {
	c.seen()
	return c.counted
}

// bind puts a pod on a node. The object is replaced, not changed, because others may still use it.
// The pod is not removed from the queue.
func (c *cluster) bind(p *pod, n *node) {
	object := *p.object
	object.Spec.NodeName, object.Status.StartTime = n.object.Name, &metav1.Time{Time: c.history.clock.Now()}
	p.object, p.node = &object, n
	c.history.bound(p)
	n.pods = append(n.pods, p)
	c.changed(n)
}

// leaveQueue removes from the queue the pods that are bound or gone.
func (c *cluster) leaveQueue(gone func(*pod) bool) {
	c.queue = slices.DeleteFunc(slices.Clone(c.queue), gone) // others may have the list
}

// stranded are the pods on nodes that do not respond.
func (c *cluster) stranded() []*pod {
	var out []*pod
	for _, n := range c.nodes {
		if !n.downSince.IsZero() {
			out = append(out, n.pods...)
		}
	}
	return out
}

// partition divides a list into those that f chooses, and the others.
func partition[T any](all []T, f func(T) bool) (chosen, others []T) {
	for _, one := range all {
		if f(one) {
			chosen = append(chosen, one)
		} else {
			others = append(others, one)
		}
	}
	return chosen, others
}

// evictFrom makes pods of a node pending, because their controllers create them again, and returns
// their number.
func (c *cluster) evictFrom(n *node, goes func(*pod) bool) int {
	evicted, stay := partition(n.pods, goes)
	if len(evicted) == 0 {
		return 0
	}
	n.pods = stay
	c.queue = slices.Clip(c.queue)
	for _, p := range evicted {
		if p.managed() {
			c.orphans = append(c.orphans, p)
			continue
		}
		object := *p.object
		object.Spec.NodeName, object.CreationTimestamp = "", metav1.Time{Time: c.history.clock.Now()}
		object.Status = v1.PodStatus{Phase: object.Status.Phase} // its controller makes another one
		c.history.unbound(p)
		p.object, p.node, p.unbound = &object, nil, nil
		c.queue = append(c.queue, p)
		c.leftAlone.sort(p)
	}
	c.changed(n)
	return len(evicted)
}

func (c *cluster) remove(doomed []*pod) {
	gone := make(map[*pod]bool, len(doomed))
	for _, p := range doomed {
		gone[p] = true
		c.history.left(p)
	}
	isGone := func(p *pod) bool { return gone[p] }
	c.pods = slices.DeleteFunc(c.pods, isGone)
	c.leaveQueue(isGone)
	for _, p := range doomed {
		if p.node != nil && slices.Contains(p.node.pods, p) {
			p.node.pods = slices.DeleteFunc(p.node.pods, isGone)
			c.changed(p.node)
		}
	}
}
