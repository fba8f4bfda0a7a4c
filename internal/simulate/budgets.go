package simulate

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
)

// budget is a PodDisruptionBudget in a run, and its status, as the controller of budgets counts it.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector                   labels.Selector
	pods, replicas             int // that it selects, and those of them that belong to a controller
	healthy, desired, expected int
}

func newBudgets(objects []*policyv1.PodDisruptionBudget) []*budget {
	out := make([]*budget, len(objects))
	for i, o := range objects {
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
		if err != nil {
			selector = labels.Nothing() // a value that no label has
		}
		out[i] = &budget{PodDisruptionBudget: o, selector: selector}
	}
	return out
}

// budgetsOf are the budgets that select a pod.
func (c *cluster) budgetsOf(p *v1.Pod) (all []*budget) {
	for _, b := range c.budgets {
		if b.Namespace == p.Namespace && b.selector.Matches(labels.Set(p.Labels)) {
			all = append(all, b)
		}
	}
	return all
}

// countBudgets brings the status of all budgets up to date.
func (c *cluster) countBudgets() {
	if len(c.budgets) == 0 {
		return
	}
	for _, b := range c.budgets {
		b.pods, b.replicas, b.healthy = 0, 0, 0
	}
	for _, p := range c.pods {
		for _, b := range p.budgets {
			b.pods++
			if p.object.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(p.object) != nil {
				b.replicas++
			}
			if p.healthy() {
				b.healthy++
			}
		}
	}
	for _, b := range c.budgets {
		b.expected, b.desired = b.replicas, 0
		if most := b.Spec.MaxUnavailable; most != nil {
			b.desired = max(0, b.expected-scaled(most, b.expected))
		} else if least := b.Spec.MinAvailable; least != nil {
			if least.Type == intstr.Int {
				b.expected = b.pods
			}
			b.desired = scaled(least, b.expected)
		}
	}
}

func scaled(value *intstr.IntOrString, of int) int {
	n, _ := intstr.GetScaledValueFromIntOrPercent(value, of, true) // checked when it was read
	return n
}

// allowed is how many healthy pods may be evicted now.
func (b *budget) allowed() int {
	if b.expected <= 0 {
		return 0
	}
	return max(0, b.healthy-b.desired)
}

// healthy reports whether a pod is ready: it runs, and a file does not say that it is not.
func (p *pod) healthy() bool {
	return p.node != nil && p.node.downSince.IsZero() && p.object.DeletionTimestamp == nil &&
		!slices.ContainsFunc(p.object.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodReady &&
				c.Status != v1.ConditionTrue
		})
}

// notEvictable says why an API server does not let a pod be evicted now; empty if it does.
func (p *pod) notEvictable() string {
	name := p.object.Namespace + "/" + p.object.Name
	switch {
	case len(p.budgets) == 0 || p.object.DeletionTimestamp != nil:
		return ""
	case len(p.budgets) > 1:
		return fmt.Sprintf("pod %s has several PodDisruptionBudgets, which evictions do not support", name)
	}
	b := p.budgets[0]
	always := b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
	switch {
	case !p.healthy() && (always || b.healthy >= b.desired && b.desired > 0):
		return ""
	case b.allowed() < 1:
		return fmt.Sprintf("PodDisruptionBudget %s does not let pod %s go", b.Name, name)
	}
	return ""
}

// evict evicts the pods of a node as far as budgets allow, and says why one is left. Expendable ones end
// with the node.
func (c *cluster) evict(n *node) (evicted int, refusal string) {
	c.countBudgets()
	evicted = c.evictFrom(n, func(p *pod) bool {
		if c.leftAlone.filter.Expendable(p.object) {
			return false
		}
		if why := p.notEvictable(); why != "" {
			refusal = cmp.Or(refusal, why)
			return false
		}
		if p.healthy() {
			for _, b := range p.budgets {
				b.healthy--
			}
		}
		return true
	})
	return evicted, refusal
}

// moving are the pods that nodes on their way out still have. For Cluster Autoscaler they are pending,
// so they look like that.
func (c *cluster) moving() []*pod {
	var out []*pod
	for _, n := range c.nodes {
		if !n.leaving {
			continue
		}
		for _, p := range n.pods {
			if p.object.DeletionTimestamp != nil || c.leftAlone.filter.Expendable(p.object) {
				continue
			}
			if p.unbound == nil {
				object := *p.object
				object.Spec.NodeName = ""
				p.unbound = &pod{object: &object, owner: p.owner}
			}
			out = append(out, p.unbound)
		}
	}
	return out
}

// Budgets implements autoscaler.World.
func (m *model) Budgets() []removal.Budget {
	c := m.s.cluster
	c.countBudgets()
	out := make([]removal.Budget, len(c.budgets))
	for i, b := range c.budgets {
		out[i] = removal.Budget{Namespace: b.Namespace, Name: b.Name, Selector: b.selector, Allowed: b.allowed()}
	}
	return out
}

// Evict implements autoscaler.World.
func (m *model) Evict(name string) string {
	n := m.s.cluster.byName[name]
	if n == nil {
		return ""
	}
	evicted, refusal := m.s.cluster.evict(n)
	m.s.moved[name] += evicted
	m.s.agenda.bindDue = m.s.agenda.bindDue || evicted > 0
	return refusal
}

// replicas is how many pods the controller of a pod has.
func (m *model) replicas(p *v1.Pod) int {
	if m.countedAt != m.s.rounds {
		m.countedAt, m.counted = m.s.rounds, map[string]int{}
		for _, other := range m.s.cluster.pods {
			m.counted[ownerOf(other.object)]++
		}
	}
	return m.counted[ownerOf(p)]
}
