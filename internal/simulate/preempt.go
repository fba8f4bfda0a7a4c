package simulate

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

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
		nodes := s.cluster.seen()
		open := func(i int) bool { return s.cluster.nodes[i].ready }
		found, err := s.preemptor.Find(nodes, open, p.object, budgets)
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
	s.stirred, s.reshuffle = true, true // the others may run elsewhere
	first := preempting[0].object
	row := s.timeline.add(s.elapsed(), v1alpha1.RowPods, "%s preempted by %s", count(victims, "pod"), moreLikeIt(first.Namespace+"/"+first.Name, len(preempting)))
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
	var gone []*pod
	for _, p := range n.pods {
		if isVictim(p.object) && metav1.GetControllerOfNoCopy(p.object) == nil {
			gone = append(gone, p)
		}
	}
	c.remove(gone)
	c.evictFrom(n, func(p *pod) bool { return isVictim(p.object) })
	n.daemons = slices.DeleteFunc(slices.Clone(n.daemons), isVictim)
	for _, victim := range victims {
		if template.RunsOnEveryNode(victim) {
			p := &pod{object: victim}
			c.aside.sort(p)
			c.aside.outside = append(c.aside.outside, p)
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
