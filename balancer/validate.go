package balancer

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// appsKinds are the kinds of a reference that needs no apiVersion.
var appsKinds = []string{"Deployment", "StatefulSet", "ReplicaSet"}

// Validate returns the errors in the spec of a Balancer, whose key is namespace/name. The schema
// refuses the same; the spec is checked again because the schema in the cluster may be older than
// the controller.
func Validate(key string, spec *v1alpha1.BalancerSpec) field.ErrorList {
	c := checker{key: key, names: make(sets.Set[string], len(spec.Targets))}
	at := field.NewPath("spec")
	c.NotNegative(at.Child("replicas"), spec.Replicas)
	c.targets(at.Child("targets"), spec.Targets)
	c.Selector(at.Child("selector"), spec.Selector.Meta())
	c.policy(at.Child("policy"), &spec.Policy)
	return c.Errors
}

type checker struct {
	admission.Checker
	key   string
	names sets.Set[string]
}

func (c *checker) targets(at *field.Path, targets []v1alpha1.BalancerTarget) {
	if len(targets) == 0 {
		c.Add(field.Required(at, "a Balancer needs a target"))
	}
	for i, t := range targets {
		at := at.Index(i)
		switch {
		case t.Name == "":
			c.Add(field.Required(at.Child("name"), "a target needs a name"))
		case c.names.Has(t.Name):
			c.Add(field.Duplicate(at.Child("name"), t.Name))
		}
		c.names.Insert(t.Name)
		c.NotNegative(at.Child("minReplicas"), t.MinReplicas)
		c.NotNegative(at.Child("maxReplicas"), t.MaxReplicas)
		c.Bounds(at, t.MinReplicas, t.MaxReplicas)
		refers := at.Child("scaleTargetRef")
		c.reference(refers, t.ScaleTargetRef)
		if slices.ContainsFunc(targets[:i], func(o v1alpha1.BalancerTarget) bool { return o.ScaleTargetRef.Same(t.ScaleTargetRef) }) {
			c.Add(field.Invalid(refers, t.ScaleTargetRef.Name, "must not refer to one object twice"))
		}
	}
}

func (c *checker) reference(at *field.Path, ref v1alpha1.ScaleTargetReference) {
	if ref.Kind == "" {
		c.Add(field.Required(at.Child("kind"), "a reference needs a kind"))
	}
	if ref.Name == "" {
		c.Add(field.Required(at.Child("name"), "a reference needs a name"))
	}
	if ref.APIVersion == "" && !slices.Contains(appsKinds, ref.Kind) {
		c.Add(field.Required(at.Child("apiVersion"), "is required unless kind is "+strings.Join(appsKinds, ", ")))
	}
	_, name, _ := strings.Cut(c.key, "/")
	if ref.Same(v1alpha1.ScaleTargetReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindBalancer, Name: name}) {
		c.Add(field.Invalid(at, ref.Name, "a Balancer cannot be a target of itself"))
	}
}

func (c *checker) policy(at *field.Path, p *v1alpha1.BalancerPolicy) {
	priority, proportional := p.PolicyName == v1alpha1.PriorityPolicyName, p.PolicyName == v1alpha1.ProportionalPolicyName
	if !priority && !proportional {
		c.Add(field.NotSupported(at.Child("policyName"), p.PolicyName, []v1alpha1.BalancerPolicyName{v1alpha1.PriorityPolicyName,
			v1alpha1.ProportionalPolicyName}))
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
		c.Time(at.Child("startupTimeout"), p.Fallback.StartupTimeout)
		if p.Fallback.StabilizationTime.Duration != 0 {
			c.Time(at.Child("stabilizationTime"), p.Fallback.StabilizationTime)
		}
	}
	c.AtLeastOne(at.Child("maxMovesPerMinute"), p.MaxMovesPerMinute)
	admission.Option(&c.Checker, at.Child("relief"), p.Relief, v1alpha1.ReliefAny, v1alpha1.ReliefHealthyOnly, v1alpha1.ReliefLaterOnly)
	if p.Relief == v1alpha1.ReliefLaterOnly && !priority {
		c.Add(field.Invalid(at.Child("relief"), p.Relief, "is for policyName priority only"))
	}
	admission.Option(&c.Checker, at.Child("rounding"), p.Rounding, v1alpha1.RoundLargestRemainder, v1alpha1.RoundWebster, v1alpha1.RoundDHondt)
	admission.Option(&c.Checker, at.Child("tieBreak"), p.TieBreak, v1alpha1.TieByName, v1alpha1.TieByHash)
	admission.Option(&c.Checker, at.Child("minMode"), p.MinMode, v1alpha1.MinFloor, v1alpha1.MinAdditive)
}

// block checks that a block is set if and only if the policy is its own.
func (c *checker) block(at *field.Path, set, own bool, name v1alpha1.BalancerPolicyName) {
	switch {
	case own && !set:
		c.Add(field.Required(at, "is required when policyName is "+string(name)))
	case set && !own:
		c.Add(field.Forbidden(at, "is for policyName "+string(name)+" only"))
	}
}

func (c *checker) order(at *field.Path, names []string) {
	if len(names) == 0 {
		c.Add(field.Required(at, "must name a target"))
	}
	seen := make(sets.Set[string], len(names))
	for i, name := range names {
		if !c.names.Has(name) {
			c.Add(unknownTarget(at.Index(i), name))
		}
		if seen.Has(name) {
			c.Add(field.Duplicate(at.Index(i), name))
		}
		seen.Insert(name)
	}
}

func (c *checker) proportions(at *field.Path, rates map[string]int32) {
	if len(rates) == 0 {
		c.Add(field.Required(at, "must name a target"))
	}
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		if !c.names.Has(name) {
			c.Add(unknownTarget(at.Key(name), name))
		}
		c.NotNegative(at.Key(name), new(rates[name]))
	}
}

func unknownTarget(at *field.Path, name string) *field.Error {
	return field.Invalid(at, name, "must name targets of this Balancer only")
}
