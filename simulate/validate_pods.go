package simulate

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// What the API server takes where nothing else is said.
var (
	taintEffects      = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
	tolerationOps     = []v1.TolerationOperator{v1.TolerationOpEqual, v1.TolerationOpExists}
	whenUnsatisfiable = []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}
)

// supported complains about a value that is none of those allowed.
func supported[T ~string](c *checker, at *field.Path, value T, allowed []T) {
	if !slices.Contains(allowed, value) {
		c.add(field.NotSupported(at, value, allowed))
	}
}

func (c *checker) podShape(p *v1alpha1.PodShape, at *field.Path) {
	c.amounts(p.Requests, at.Child("requests"))
	c.labels(p.Labels, at.Child("labels"))
	c.labels(p.NodeSelector, at.Child("nodeSelector"))
	c.tolerations(p.Tolerations, at.Child("tolerations"))
	for i := range p.Spread {
		given, at := &p.Spread[i], at.Child("spread").Index(i)
		if given.MaxSkew < 0 { // 0 is not given
			c.add(field.Invalid(at.Child("maxSkew"), given.MaxSkew, "must be at least 1"))
		}
		if given.WhenUnsatisfiable != "" {
			supported(c, at.Child("whenUnsatisfiable"), given.WhenUnsatisfiable, whenUnsatisfiable)
		}
	}
	if p.Template == nil {
		return
	}
	if p.Requests != nil || p.NodeSelector != nil || p.Tolerations != nil || p.Spread != nil || p.OnePerNode {
		c.add(field.Forbidden(at.Child("template"), "not together with requests, nodeSelector, tolerations, spread or onePerNode"))
	}
	c.labels(p.Template.Labels, at.Child("template", "metadata", "labels"))
	c.podSpec(&p.Template.Spec, at.Child("template", "spec"))
}

// podSpec checks what is written out in a pod template, as the API server does.
func (c *checker) podSpec(s *v1.PodSpec, at *field.Path) {
	if len(s.Containers) == 0 {
		c.add(field.Required(at.Child("containers"), "a pod has a container"))
	}
	for i := range s.Containers {
		c.amounts(s.Containers[i].Resources.Requests, at.Child("containers").Index(i).Child("resources", "requests"))
	}
	c.labels(s.NodeSelector, at.Child("nodeSelector"))
	c.tolerations(s.Tolerations, at.Child("tolerations"))
	for i := range s.TopologySpreadConstraints {
		given, at := &s.TopologySpreadConstraints[i], at.Child("topologySpreadConstraints").Index(i)
		if given.MaxSkew < 1 {
			c.add(field.Invalid(at.Child("maxSkew"), given.MaxSkew, "must be at least 1"))
		}
		if given.TopologyKey == "" {
			c.add(field.Required(at.Child("topologyKey"), "must be the label whose values are the domains"))
		}
		supported(c, at.Child("whenUnsatisfiable"), given.WhenUnsatisfiable, whenUnsatisfiable)
	}
}

func (c *checker) tolerations(all []v1.Toleration, at *field.Path) {
	for i := range all {
		at := at.Index(i)
		if all[i].Key != "" {
			c.labelKey(at.Child("key"), all[i].Key)
		}
		if all[i].Operator != "" {
			supported(c, at.Child("operator"), all[i].Operator, tolerationOps)
		}
		if all[i].Effect != "" {
			supported(c, at.Child("effect"), all[i].Effect, taintEffects)
		}
	}
}

func (c *checker) taints(all []v1.Taint, at *field.Path) {
	for i := range all {
		at := at.Index(i)
		c.labelKey(at.Child("key"), all[i].Key)
		c.labelValue(at.Child("value"), all[i].Value)
		supported(c, at.Child("effect"), all[i].Effect, taintEffects)
	}
}

func (c *checker) labels(all map[string]string, at *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c.labelKey(at, key)
		c.labelValue(at.Key(key), all[key])
	}
}

func (c *checker) labelKey(at *field.Path, key string) {
	for _, problem := range validation.IsQualifiedName(key) {
		c.add(field.Invalid(at, key, problem))
	}
}

func (c *checker) labelValue(at *field.Path, value string) {
	for _, problem := range validation.IsValidLabelValue(value) {
		c.add(field.Invalid(at, value, problem))
	}
}
