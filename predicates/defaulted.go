package predicates

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// DefaultConstraints returns the default spread constraints of the configured profile. The built-in
// ones, which keep no pod from a node, are left out.
func (c *Checker) DefaultConstraints() []v1.TopologySpreadConstraint {
	return slices.Clone(c.rules.defaults)
}

// Defaulted returns a pod with the default spread constraints of the configured profile as its own,
// each with the selector that the scheduler deduces from the services and the controller of the pod.
// A pod that has constraints, or to which no default ones apply, is returned as it is. The built-in
// defaults, which keep no pod from a node, are left out.
func (c *Checker) Defaulted(p *v1.Pod) *v1.Pod {
	if len(p.Spec.TopologySpreadConstraints) > 0 || len(c.rules.defaults) == 0 {
		return p
	}
	selector := c.ownerSelector(p)
	if selector.Empty() {
		return p
	}
	own := *p
	own.Spec.TopologySpreadConstraints = slices.Clone(c.rules.defaults)
	written := writtenSelector(selector)
	for i := range own.Spec.TopologySpreadConstraints {
		one := &own.Spec.TopologySpreadConstraints[i]
		one.LabelSelector, one.MatchLabelKeys = written, nil // the scheduler uses the deduced selector alone
	}
	return &own
}

// writtenSelector writes the selector of services and a controller as in a pod.
func writtenSelector(s labels.Selector) *metav1.LabelSelector {
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.NotIn: metav1.LabelSelectorOpNotIn, selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	out := &metav1.LabelSelector{}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		operator, other := operators[r.Operator()]
		if !other {
			operator = metav1.LabelSelectorOpIn // or that it equals a value
		}
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: r.Values().List()})
	}
	return out
}
