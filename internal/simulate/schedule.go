package simulate

import (
	"cmp"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// schedule binds pending pods to ready nodes as kube-scheduler does: those of one priority after those
// of higher ones, and those that find no room preempt others. It returns the bound pods.
func (s *simulation) schedule() (bound []*pod, err error) {
	classes := byPriority(s.cluster.schedulable())
	for _, pending := range classes {
		some, err := bindSome(s.controllers.binder, s.cluster, pending)
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
	more, err := bindSome(s.controllers.binder, s.cluster, s.cluster.schedulable()) // that may have waited for pods of lower priority
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
		marked.Spec.Taints = append(slices.Clip(marked.Spec.Taints),
			v1.Taint{Key: template.DeletionCandidateTaint, Effect: v1.TaintEffectPreferNoSchedule})
		n.avoid, n.avoids = &marked, n.object
	}
	return n.avoid
}

// preempt has pods of one priority that found no room take that of others, and returns those that did.
// The others end at once.
func (s *simulation) preempt(pending []*pod) (preempting []*pod, err error) {
	if len(pending) == 0 || corev1.PodPriority(pending[0].object) <= s.cluster.lowestPriority() {
		return nil, nil
	}
	victims, inVain, budgets := 0, map[string]bool{}, s.cluster.statuses()
	for _, p := range pending {
		kind := ownerOf(p.object)
		if len(p.object.Spec.Volumes) > 0 {
			kind = p.object.Namespace + "/" + p.object.Name
		}
		if p.runs() || inVain[kind] {
			continue
		}
		if s.setup.alike.number > 0 {
			return nil, errPreempts
		}
		nodes := s.cluster.seen()
		open := func(i int) bool { return s.cluster.nodes[i].ready }
		found, err := s.controllers.preemptor.Find(nodes, open, p.object, budgets)
		if err != nil {
			return nil, err
		}
		if inVain[kind] = found == nil; found == nil {
			continue
		}
		clear(inVain)
		n := s.cluster.nodes[found.Node]
		s.cluster.clear(n, found.Victims)
		s.cluster.bind(p, n)
		budgets = s.cluster.statuses()
		victims += len(found.Victims)
		preempting = append(preempting, p)
	}
	if len(preempting) == 0 {
		return nil, nil
	}
	s.cluster.leaveQueue((*pod).runs)
	s.agenda.roundDue, s.agenda.bindDue = true, true // the others may run elsewhere
	first := preempting[0].object
	row := s.timeline.add(s.elapsed(), v1alpha1.RowPods, "%s preempted by %s", spelling.Count(victims, "pod"),
		moreLikeIt(first.Namespace+"/"+first.Name, len(preempting)))
	row.Reason, row.Pods, row.Example = v1alpha1.PodsPreempted, victims, first.Namespace+"/"+first.Name
	return preempting, nil
}

// lowestPriority is that of the pods on nodes.
func (c *cluster) lowestPriority() int32 {
	lowest := int32(math.MaxInt32)
	for _, n := range c.seen() {
		for _, p := range n.Pods {
			lowest = min(lowest, corev1.PodPriority(p))
		}
	}
	return lowest
}

// clear takes pods off a node. Those without a controller are gone, those of daemon sets wait for another node.
func (c *cluster) clear(n *node, victims []*v1.Pod) {
	isVictim := func(p *v1.Pod) bool { return slices.Contains(victims, p) }
	gone, _ := partition(n.pods, func(p *pod) bool { return isVictim(p.object) && metav1.GetControllerOfNoCopy(p.object) == nil })
	c.remove(gone)
	c.evictFrom(n, func(p *pod) bool { return isVictim(p.object) })
	n.daemons = slices.DeleteFunc(slices.Clone(n.daemons), isVictim)
	for _, victim := range victims {
		if template.RunsOnEveryNode(victim) {
			p := &pod{object: victim}
			c.leftAlone.sort(p)
			c.leftAlone.outside = append(c.leftAlone.outside, p)
		}
	}
	c.changed(n)
}

// statuses are the budgets as their controller leaves them.
func (c *cluster) statuses() []*policyv1.PodDisruptionBudget {
	c.countBudgets()
	out := make([]*policyv1.PodDisruptionBudget, len(c.budgets))
	for i, b := range c.budgets {
		object := *b.PodDisruptionBudget
		object.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(b.allowed())}
		out[i] = &object
	}
	return out
}
