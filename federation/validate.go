package federation

import (
	"bytes"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// Validate returns the errors in the spec of a FederatedReplicaSet. The schema refuses the same; the
// spec is checked again because the schema in the cluster may be older than the controller.
func Validate(spec *v1alpha1.FederatedReplicaSetSpec) field.ErrorList {
	var c checker
	at := field.NewPath("spec")
	c.NotNegative(at.Child("replicas"), spec.Replicas)
	c.selector(at, spec)
	if !bytes.HasPrefix(bytes.TrimSpace(spec.Template.Spec.Raw), []byte("{")) {
		c.Add(field.Required(at.Child("template", "spec"), "a pod needs a spec"))
	}
	admission.Option(&c.Checker, at.Child("localKind"), spec.LocalKind, v1alpha1.LocalReplicaSet, v1alpha1.LocalDeployment)
	admission.Option(&c.Checker, at.Child("rounding"), spec.Rounding, v1alpha1.RoundLargestRemainder, v1alpha1.RoundWebster,
		v1alpha1.RoundDHondt)
	admission.Option(&c.Checker, at.Child("cascade"), spec.Cascade, v1alpha1.CascadeOrphan, v1alpha1.CascadeDelete)
	admission.Option(&c.Checker, at.Child("rollout"), spec.Rollout, v1alpha1.RolloutAllAtOnce, v1alpha1.RolloutOneByOne)
	if spec.Rollout == v1alpha1.RolloutOneByOne && spec.LocalKind != v1alpha1.LocalDeployment {
		c.Add(field.Invalid(at.Child("rollout"), spec.Rollout, "is for localKind Deployment only: a ReplicaSet rolls nothing out"))
	}
	c.AtLeastOne(at.Child("maxMovesPerMinute"), spec.MaxMovesPerMinute)
	c.fallback(at.Child("fallback"), spec)
	if spec.Preferences != nil {
		c.preferences(at.Child("preferences", "clusters"), spec.Preferences)
	}
	return c.Errors
}

type checker struct{ admission.Checker }

func (c *checker) selector(at *field.Path, spec *v1alpha1.FederatedReplicaSetSpec) {
	if !c.Selector(at.Child("selector"), spec.Selector.Meta()) {
		return
	}
	set := labels.Set{}
	for key, value := range spec.Template.Metadata.Labels {
		set[key] = string(value)
	}
	if selector, err := spec.Selector.AsSelector(); err == nil && !selector.Matches(set) {
		c.Add(field.Invalid(at.Child("template", "metadata", "labels"), set.String(), "must be labels that spec.selector matches"))
	}
}

func (c *checker) fallback(at *field.Path, spec *v1alpha1.FederatedReplicaSetSpec) {
	f := spec.Fallback
	time := func(name string, d metav1.Duration) {
		if d.Duration != 0 {
			c.Time(at.Child(name), d)
		}
	}
	time("normalTime", f.NormalTime)
	time("startupTimeout", f.StartupTimeout)
	time("stabilizationTime", f.StabilizationTime)
	if normal, act := Timeouts(spec); normal > act {
		c.Add(field.Invalid(at.Child("normalTime"), normal.String(), "must not be longer than startupTimeout"))
	}
	c.AtLeastOne(at.Child("probe"), f.Probe)
}

func (c *checker) preferences(at *field.Path, p *v1alpha1.FederatedPreferences) {
	for _, name := range slices.Sorted(maps.Keys(p.Clusters)) {
		e, at := p.Clusters[name], at.Key(name)
		c.bounds(at, e.ClusterPreference)
		if e.Tier < 0 {
			c.Add(field.Invalid(at.Child("tier"), e.Tier, "must not be negative"))
		}
		switch {
		case e.Selector == nil && e.Clusters != nil:
			c.Add(field.Forbidden(at.Child("clusters"), "are for entries with a selector only"))
		case e.Selector != nil && name == others:
			c.Add(field.Forbidden(at.Child("selector"), `the entry "*" is for all other clusters and cannot have a selector`))
		case e.Selector != nil && len(e.Selector.MatchLabels)+len(e.Selector.MatchExpressions) == 0:
			c.Add(field.Required(at.Child("selector"), "must not be empty"))
		}
		for _, inner := range slices.Sorted(maps.Keys(e.Clusters)) {
			c.bounds(at.Child("clusters").Key(inner), e.Clusters[inner])
		}
	}
}

func (c *checker) bounds(at *field.Path, e v1alpha1.ClusterPreference) {
	c.NotNegative(at.Child("minReplicas"), e.MinReplicas)
	c.NotNegative(at.Child("maxReplicas"), e.MaxReplicas)
	c.NotNegative(at.Child("weight"), e.Weight)
	c.Bounds(at, e.MinReplicas, e.MaxReplicas)
}
