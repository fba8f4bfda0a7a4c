package topologyspread

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/podfit"
)

// Constraint is a spread constraint of an incoming pod, as the scheduler reads it.
type Constraint struct {
	// Key is the node label whose values are the domains.
	Key string
	// MaxSkew is by how many matching pods a domain may exceed the least one, at least 1.
	MaxSkew int
	// MinDomains is how many domains there must be for the least count to be more than 0; 1 by
	// default.
	MinDomains int
	// Self is 1 if the incoming pod matches the selector of its own constraint, else 0.
	Self int
	// Step is what one more pod like the incoming one adds to the count of its domain. It is 0
	// beside Self 1 if the selector is empty: such a selector matches every pod but counts none.
	Step int

	index                      int // in the pod's list
	namespace                  string
	selector                   labels.Selector
	honorAffinity, honorTaints bool
}

// Hard reads the constraints of a pod that must hold (DoNotSchedule), in their order. The error
// describes a selector that cannot be parsed.
func Hard(pod *v1.Pod) ([]Constraint, error) { return read(pod, v1.DoNotSchedule) }

// Soft reads the constraints of a pod that are preferences (ScheduleAnyway), as Hard does.
func Soft(pod *v1.Pod) ([]Constraint, error) { return read(pod, v1.ScheduleAnyway) }

func read(pod *v1.Pod, action v1.UnsatisfiableConstraintAction) ([]Constraint, error) {
	var all []Constraint
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != action {
			continue
		}
		one, err := Read(pod, c)
		if err != nil {
			return nil, fmt.Errorf("topologySpreadConstraints[%d].labelSelector: %w", i, err)
		}
		one.index = i
		all = append(all, one)
	}
	return all, nil
}

// Read reads a spread constraint of a pod. The error describes a selector that cannot be parsed.
func Read(pod *v1.Pod, c *v1.TopologySpreadConstraint) (Constraint, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return Constraint{}, err
	}
	// The pod's own values of these keys narrow the selector, unless it selects nothing.
	if requirements, selectable := selector.Requirements(); selectable {
		narrower := labels.Set{}
		for _, key := range c.MatchLabelKeys {
			if value, has := pod.Labels[key]; has {
				narrower[key] = value
			}
		}
		if len(narrower) > 0 {
			selector = labels.SelectorFromSet(narrower).Add(requirements...)
		}
	}
	return ReadDefault(pod, c, selector), nil
}

// ReadDefault reads a default constraint of a scheduler profile for a pod that has none of its own.
// The selector is deduced from the services and the controller of the pod.
func ReadDefault(pod *v1.Pod, c *v1.TopologySpreadConstraint, selector labels.Selector) Constraint {
	one := Constraint{
		Key: c.TopologyKey, MaxSkew: int(c.MaxSkew), MinDomains: MinDomains(c),
		namespace: pod.Namespace, selector: selector,
		honorAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor,
		honorTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
	}
	if selector.Matches(labels.Set(pod.Labels)) {
		one.Self = 1
	}
	if one.Counts(pod) {
		one.Step = 1
	}
	return one
}

// MinDomains returns the minDomains of a constraint, 1 if it has none.
func MinDomains(c *v1.TopologySpreadConstraint) int {
	if c.MinDomains == nil {
		return 1
	}
	return int(*c.MinDomains)
}

// Counts reports whether the constraint counts a pod on a node. Finished pods (Succeeded, Failed)
// are on no node: they are left out by the caller.
func (c *Constraint) Counts(p *v1.Pod) bool {
	return !c.selector.Empty() && p.DeletionTimestamp == nil && p.Namespace == c.namespace && c.selector.Matches(labels.Set(p.Labels))
}

// Includes reports whether nodes like this one take part in a constraint of a pod with these rules, as its
// inclusion policies say. Besides, a node takes part only if it has the keys of all constraints.
func (c *Constraint) Includes(pod podfit.Rules, n *v1.Node) bool {
	if c.honorTaints {
		if _, untolerated := pod.Untolerated(n); untolerated {
			return false
		}
	}
	return !c.honorAffinity || pod.Select(n)
}
