package removal

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budget is a PodDisruptionBudget.
type Budget struct {
	Namespace, Name string
	Selector        labels.Selector
	// Allowed is how many evictions it allows now.
	Allowed int
}

// budgeted is a pod that budgets select, by their positions in the world. A free one moves whatever they
// allow.
type budgeted struct {
	by   []int
	free bool
}

// budgetsOf are the positions of the budgets that select a pod.
func (w *World) budgetsOf(pod *v1.Pod) (by []int) {
	for i := range w.Budgets {
		if b := &w.Budgets[i]; b.Namespace == pod.Namespace && b.Selector.Matches(labels.Set(pod.Labels)) {
			by = append(by, i)
		}
	}
	return by
}

// withinBudget reports whether the budgets let the pods of a node go, with those of all nodes that were
// found not to be needed before, one after the other.
func (p *planner) withinBudget(i int) bool {
	for _, pod := range p.drains[i].budgeted {
		for _, b := range pod.by {
			if !pod.free && p.allowed[b] < 1 {
				budget, o := &p.world.Budgets[b], p.outcome[i]
				o.Outcome, o.Reason = NodeBlocked, fmt.Sprintf("has a pod that PodDisruptionBudget %s/%s protects, which allows no eviction",
					budget.Namespace, budget.Name)
				return false
			}
		}
	}
	return true
}

// spend takes the pods of a node off the budgets. The node is risky if they cannot all go at once.
func (p *planner) spend(i int) {
	for _, pod := range p.drains[i].budgeted {
		for _, b := range pod.by {
			p.allowed[b]--
			p.risky[i] = p.risky[i] || p.allowed[b] < 0
		}
	}
}
