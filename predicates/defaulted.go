package predicates

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// The requirements of services and controllers as in a pod; the scheduler uses the deduced selector alone.
	written, err := metav1.ParseToLabelSelector(selector.String())
	if err != nil {
		return p // never: it was just printed
	}
	own := *p
	own.Spec.TopologySpreadConstraints = slices.Clone(c.rules.defaults)
	for i := range own.Spec.TopologySpreadConstraints {
		one := &own.Spec.TopologySpreadConstraints[i]
		one.LabelSelector, one.MatchLabelKeys = written, nil
	}
	return &own
}
