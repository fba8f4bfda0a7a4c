package balancer

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// appsGroup is the API group of a reference without apiVersion.
const appsGroup = "apps"

// appsKinds are the kinds of a reference that needs no apiVersion.
var appsKinds = []string{"Deployment", "StatefulSet", "ReplicaSet"}

// Validate returns the errors in the spec of a Balancer, whose key is namespace/name. The schema
// refuses the same; the spec is checked again because the schema in the cluster may be older than
// the controller.
func Validate(key string, spec *v1alpha1.BalancerSpec) field.ErrorList {
	c := checker{key: key, names: make(sets.Set[string], len(spec.Targets))}
	at := field.NewPath("spec")
	c.notNegative(at, "replicas", spec.Replicas)
	c.targets(at.Child("targets"), spec.Targets)
	c.selector(at.Child("selector"), &spec.Selector)
	c.policy(at.Child("policy"), &spec.Policy)
	return c.errs
}

// checker collects the errors.
type checker struct {
	key   string
	names sets.Set[string]
	errs  field.ErrorList
}

func (c *checker) add(err *field.Error) { c.errs = append(c.errs, err) }

func (c *checker) notNegative(at *field.Path, name string, n *int32) {
	if n != nil && *n < 0 {
		c.add(negative(at.Child(name), *n))
	}
}

func negative(at *field.Path, n int32) *field.Error {
	return field.Invalid(at, n, "must not be negative")
}

func (c *checker) targets(at *field.Path, targets []v1alpha1.BalancerTarget) {
	if len(targets) == 0 {
		c.add(field.Required(at, "a Balancer needs a target"))
	}
	objects := make(sets.Set[object], len(targets))
	for i, t := range targets {
		at := at.Index(i)
		switch {
		case t.Name == "":
			c.add(field.Required(at.Child("name"), "a target needs a name"))
		case c.names.Has(t.Name):
			c.add(field.Duplicate(at.Child("name"), t.Name))
		}
		c.names.Insert(t.Name)
		c.notNegative(at, "minReplicas", t.MinReplicas)
		c.notNegative(at, "maxReplicas", t.MaxReplicas)
		if t.MinReplicas != nil && t.MaxReplicas != nil && *t.MinReplicas > *t.MaxReplicas {
			c.add(field.Invalid(at.Child("minReplicas"), *t.MinReplicas, "must not be greater than maxReplicas"))
		}
		refers := at.Child("scaleTargetRef")
		object := c.reference(refers, t.ScaleTargetRef)
		if objects.Has(object) {
			c.add(field.Invalid(refers, t.ScaleTargetRef.Name, "must not refer to one object twice"))
		}
		objects.Insert(object)
	}
}

// object identifies the object of a reference within its namespace.
type object struct{ group, kind, name string }

// reference checks the reference of a target, and returns its object.
func (c *checker) reference(at *field.Path, ref v1alpha1.ScaleTargetReference) object {
	if ref.Kind == "" {
		c.add(field.Required(at.Child("kind"), "a reference needs a kind"))
	}
	if ref.Name == "" {
		c.add(field.Required(at.Child("name"), "a reference needs a name"))
	}
	group, _, found := strings.Cut(ref.APIVersion, "/")
	switch {
	case ref.APIVersion == "" && !slices.Contains(appsKinds, ref.Kind):
		c.add(field.Required(at.Child("apiVersion"), "is required unless kind is "+strings.Join(appsKinds, ", ")))
	case ref.APIVersion == "":
		group = appsGroup
	case !found:
		group = ""
	}
	_, name, _ := strings.Cut(c.key, "/")
	if group == v1alpha1.Group && ref.Kind == "Balancer" && ref.Name == name {
		c.add(field.Invalid(at, ref.Name, "a Balancer cannot be a target of itself"))
	}
	return object{group, ref.Kind, ref.Name}
}

func (c *checker) selector(at *field.Path, s *v1alpha1.LabelSelector) {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		c.add(field.Required(at, "must not be empty"))
	}
	c.errs = append(c.errs, validation.ValidateLabelSelector(s.Meta(), validation.LabelSelectorValidationOptions{}, at)...)
}

func (c *checker) policy(at *field.Path, p *v1alpha1.BalancerPolicy) {
	priority, proportional := p.PolicyName == v1alpha1.PriorityPolicyName, p.PolicyName == v1alpha1.ProportionalPolicyName
	if !priority && !proportional {
		c.add(field.NotSupported(at.Child("policyName"), p.PolicyName, []v1alpha1.BalancerPolicyName{v1alpha1.PriorityPolicyName, v1alpha1.ProportionalPolicyName}))
	}
	c.block(at.Child("priorities"), p.Priorities != nil, priority, v1alpha1.PriorityPolicyName)
	c.block(at.Child("proportions"), p.Proportions != nil, proportional, v1alpha1.ProportionalPolicyName)
	if p.Priorities != nil {
		c.order(at.Child("priorities", "targetOrder"), p.Priorities.TargetOrder)
	}
	if p.Proportions != nil {
		c.proportions(at.Child("proportions", "targetProportions"), p.Proportions.TargetProportions)
	}
	if p.Fallback != nil {
		at := at.Child("fallback")
		c.time(at.Child("startupTimeout"), p.Fallback.StartupTimeout)
		if p.Fallback.StabilizationTime.Duration != 0 {
			c.time(at.Child("stabilizationTime"), p.Fallback.StabilizationTime)
		}
	}
	if p.MaxMovesPerMinute != nil && *p.MaxMovesPerMinute < 1 {
		c.add(field.Invalid(at.Child("maxMovesPerMinute"), *p.MaxMovesPerMinute, "must be 1 or more"))
	}
	option(c, at.Child("relief"), p.Relief, v1alpha1.ReliefAny, v1alpha1.ReliefHealthyOnly, v1alpha1.ReliefLaterOnly)
	if p.Relief == v1alpha1.ReliefLaterOnly && !priority {
		c.add(field.Invalid(at.Child("relief"), p.Relief, "is for policyName priority only"))
	}
	option(c, at.Child("rounding"), p.Rounding, v1alpha1.RoundLargestRemainder, v1alpha1.RoundWebster, v1alpha1.RoundDHondt)
	option(c, at.Child("tieBreak"), p.TieBreak, v1alpha1.TieByName, v1alpha1.TieByHash)
	option(c, at.Child("minMode"), p.MinMode, v1alpha1.MinFloor, v1alpha1.MinAdditive)
}

// block checks that a block is set if and only if the policy is its own.
func (c *checker) block(at *field.Path, set, own bool, name v1alpha1.BalancerPolicyName) {
	switch {
	case own && !set:
		c.add(field.Required(at, "is required when policyName is "+string(name)))
	case set && !own:
		c.add(field.Forbidden(at, "is for policyName "+string(name)+" only"))
	}
}

func (c *checker) order(at *field.Path, names []string) {
	if len(names) == 0 {
		c.add(field.Required(at, "must name a target"))
	}
	seen := make(sets.Set[string], len(names))
	for i, name := range names {
		if !c.names.Has(name) {
			c.add(unknownTarget(at.Index(i), name))
		}
		if seen.Has(name) {
			c.add(field.Duplicate(at.Index(i), name))
		}
		seen.Insert(name)
	}
}

func (c *checker) proportions(at *field.Path, rates map[string]int32) {
	if len(rates) == 0 {
		c.add(field.Required(at, "must name a target"))
	}
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		if !c.names.Has(name) {
			c.add(unknownTarget(at.Key(name), name))
		}
		if rate := rates[name]; rate < 0 {
			c.add(negative(at.Key(name), rate))
		}
	}
}

func unknownTarget(at *field.Path, name string) *field.Error {
	return field.Invalid(at, name, "must name targets of this Balancer only")
}

func (c *checker) time(at *field.Path, d metav1.Duration) {
	if d.Duration < time.Second {
		c.add(field.Invalid(at, d.Duration.String(), "must be 1s or more"))
	}
}

// option checks an option; the empty value is its default.
func option[T ~string](c *checker, at *field.Path, value T, known ...T) {
	if value != "" && !slices.Contains(known, value) {
		c.add(field.NotSupported(at, value, known))
	}
}
