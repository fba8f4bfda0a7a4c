package federation

import (
	"bytes"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Validate returns the errors in the spec of a FederatedReplicaSet. The schema refuses the same; the
// spec is checked again because the schema in the cluster may be older than the controller.
func Validate(spec *v1alpha1.FederatedReplicaSetSpec) field.ErrorList {
	var c checker
	at := field.NewPath("spec")
	c.notNegative(at.Child("replicas"), spec.Replicas)
	c.selector(at, spec)
	if !bytes.HasPrefix(bytes.TrimSpace(spec.Template.Spec.Raw), []byte("{")) {
		c.add(field.Required(at.Child("template", "spec"), "a pod needs a spec"))
	}
	option(&c, at.Child("localKind"), spec.LocalKind, v1alpha1.LocalReplicaSet, v1alpha1.LocalDeployment)
	option(&c, at.Child("rounding"), spec.Rounding, v1alpha1.RoundLargestRemainder, v1alpha1.RoundWebster, v1alpha1.RoundDHondt)
	option(&c, at.Child("cascade"), spec.Cascade, v1alpha1.CascadeOrphan, v1alpha1.CascadeDelete)
	option(&c, at.Child("rollout"), spec.Rollout, v1alpha1.RolloutAllAtOnce, v1alpha1.RolloutOneByOne)
	if spec.Rollout == v1alpha1.RolloutOneByOne && spec.LocalKind != v1alpha1.LocalDeployment {
		c.add(field.Invalid(at.Child("rollout"), spec.Rollout, "is for localKind Deployment only: a ReplicaSet rolls nothing out"))
	}
	c.atLeastOne(at.Child("maxMovesPerMinute"), spec.MaxMovesPerMinute)
	c.fallback(at.Child("fallback"), spec)
	if spec.Preferences != nil {
		c.preferences(at.Child("preferences", "clusters"), spec.Preferences)
	}
	return c.errs
}

// checker collects the errors.
type checker struct{ errs field.ErrorList }

func (c *checker) add(err *field.Error) { c.errs = append(c.errs, err) }

func (c *checker) notNegative(at *field.Path, n *int32) {
	if n != nil && *n < 0 {
		c.add(field.Invalid(at, *n, "must not be negative"))
	}
}

func (c *checker) atLeastOne(at *field.Path, n *int32) {
	if n != nil && *n < 1 {
		c.add(field.Invalid(at, *n, "must be 1 or more"))
	}
}

func (c *checker) selector(at *field.Path, spec *v1alpha1.FederatedReplicaSetSpec) {
	s, path := &spec.Selector, at.Child("selector")
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		c.add(field.Required(path, "must not be empty"))
		return
	}
	if errs := validation.ValidateLabelSelector(s.Meta(), validation.LabelSelectorValidationOptions{}, path); len(errs) > 0 {
		c.errs = append(c.errs, errs...)
		return
	}
	set := labels.Set{}
	for key, value := range spec.Template.Metadata.Labels {
		set[key] = string(value)
	}
	if selector, err := s.AsSelector(); err == nil && !selector.Matches(set) {
		c.add(field.Invalid(at.Child("template", "metadata", "labels"), set.String(), "must be labels that spec.selector matches"))
	}
}

func (c *checker) fallback(at *field.Path, spec *v1alpha1.FederatedReplicaSetSpec) {
	f := spec.Fallback
	c.time(at.Child("normalTime"), f.NormalTime)
	c.time(at.Child("startupTimeout"), f.StartupTimeout)
	c.time(at.Child("stabilizationTime"), f.StabilizationTime)
	if normal, act := Timeouts(spec); normal > act {
		c.add(field.Invalid(at.Child("normalTime"), normal.String(), "must not be longer than startupTimeout"))
	}
	c.atLeastOne(at.Child("probe"), f.Probe)
}

func (c *checker) time(at *field.Path, d metav1.Duration) {
	if d.Duration != 0 && d.Duration < time.Second {
		c.add(field.Invalid(at, d.Duration.String(), "must be 1s or more"))
	}
}

func (c *checker) preferences(at *field.Path, p *v1alpha1.FederatedPreferences) {
	for _, name := range slices.Sorted(maps.Keys(p.Clusters)) {
		e, at := p.Clusters[name], at.Key(name)
		c.bounds(at, e.ClusterPreference)
		if e.Tier < 0 {
			c.add(field.Invalid(at.Child("tier"), e.Tier, "must not be negative"))
		}
		switch {
		case e.Selector == nil && e.Clusters != nil:
			c.add(field.Forbidden(at.Child("clusters"), "are for entries with a selector only"))
		case e.Selector != nil && name == others:
			c.add(field.Forbidden(at.Child("selector"), `the entry "*" is for all other clusters and cannot have a selector`))
		case e.Selector != nil && len(e.Selector.MatchLabels)+len(e.Selector.MatchExpressions) == 0:
			c.add(field.Required(at.Child("selector"), "must not be empty"))
		}
		for _, inner := range slices.Sorted(maps.Keys(e.Clusters)) {
			c.bounds(at.Child("clusters").Key(inner), e.Clusters[inner])
		}
	}
}

func (c *checker) bounds(at *field.Path, e v1alpha1.ClusterPreference) {
	c.notNegative(at.Child("minReplicas"), e.MinReplicas)
	c.notNegative(at.Child("maxReplicas"), e.MaxReplicas)
	c.notNegative(at.Child("weight"), e.Weight)
	if e.MinReplicas != nil && e.MaxReplicas != nil && *e.MinReplicas > *e.MaxReplicas {
		c.add(field.Invalid(at.Child("minReplicas"), *e.MinReplicas, "must not be greater than maxReplicas"))
	}
}

// option checks an option; the empty value is its default.
func option[T ~string](c *checker, at *field.Path, value T, known ...T) {
	if value != "" && !slices.Contains(known, value) {
		c.add(field.NotSupported(at, value, known))
	}
}
