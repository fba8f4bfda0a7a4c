package admission

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Pod checks a pod of a cluster: its name and its specification.
func Pod(at *field.Path, p *v1.Pod) field.ErrorList {
	return append(objectName(at.Child("metadata", "name"), p.Name), PodSpec(at.Child("spec"), &p.Spec)...)
}

// PodSpec checks that a specification has containers, and what Scheduling checks.
func PodSpec(at *field.Path, s *v1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), "a pod has at least one container"))
	}
	return append(errs, Scheduling(at, s)...)
}

// Scheduling checks the part of a specification that the scheduler uses.
func Scheduling(at *field.Path, s *v1.PodSpec) field.ErrorList {
	return slices.Concat(
		Requests(at, s),
		Labels(at.Child("nodeSelector"), s.NodeSelector),
		Tolerations(at.Child("tolerations"), s.Tolerations),
		Spread(at.Child("topologySpreadConstraints"), s.TopologySpreadConstraints),
		affinity(at.Child("affinity"), s.Affinity),
	)
}

// Requests checks all resources of a specification.
func Requests(at *field.Path, s *v1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	of := func(at *field.Path, r *v1.ResourceRequirements) {
		errs = append(errs, Amounts(at.Child("requests"), r.Requests, OfPod)...)
		errs = append(errs, Amounts(at.Child("limits"), r.Limits, OfPod)...)
	}
	for i := range s.InitContainers {
		of(at.Child("initContainers").Index(i).Child("resources"), &s.InitContainers[i].Resources)
	}
	for i := range s.Containers {
		of(at.Child("containers").Index(i).Child("resources"), &s.Containers[i].Resources)
	}
	if s.Resources != nil {
		of(at.Child("resources"), s.Resources)
	}
	errs = append(errs, Amounts(at.Child("overhead"), s.Overhead, OfPod)...)
	for i := range s.Volumes {
		if e := s.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			errs = append(errs, Claim(at.Child("volumes").Index(i).Child("ephemeral", "volumeClaimTemplate", "spec"),
				&e.VolumeClaimTemplate.Spec)...)
		}
	}
	return errs
}

// Claim checks the resources of a claim of a volume.
func Claim(at *field.Path, s *v1.PersistentVolumeClaimSpec) field.ErrorList {
	at = at.Child("resources")
	return append(Amounts(at.Child("requests"), s.Resources.Requests, OfVolume), Amounts(at.Child("limits"), s.Resources.Limits, OfVolume)...)
}

// Tolerations checks keys, operators and effects. An operator left out means Equal.
func Tolerations(at *field.Path, tolerations []v1.Toleration) field.ErrorList {
	var c Checker
	for i := range tolerations {
		t, at := &tolerations[i], at.Index(i)
		if t.Key != "" {
			c.Add(LabelKey(at.Child("key"), t.Key))
		}
		switch t.Operator {
		case "", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt:
			c.Add(tolerationOf(at, t)...)
		default:
			c.Add(field.NotSupported(at.Child("operator"), t.Operator, []v1.TolerationOperator{v1.TolerationOpEqual, v1.TolerationOpExists}))
		}
		if t.Effect != "" {
			c.Add(supported(at.Child("effect"), t.Effect, taintEffects...)...)
		}
	}
	return c.Errors
}

// tolerationOf checks that operator, key and value go together.
func tolerationOf(at *field.Path, t *v1.Toleration) field.ErrorList {
	switch {
	case t.Key == "" && t.Operator != v1.TolerationOpExists:
		return field.ErrorList{field.Required(at.Child("key"), "a toleration without a key tolerates all taints and needs the operator Exists")}
	case t.Operator == v1.TolerationOpExists && t.Value != "":
		return field.ErrorList{field.Invalid(at.Child("value"), Shorten(t.Value), "must be left out with the operator Exists")}
	case t.Operator == "" || t.Operator == v1.TolerationOpEqual:
		if err := LabelValue(at.Child("value"), t.Value); err != nil {
			return field.ErrorList{err}
		}
	}
	return nil
}

// Spread checks topology spread constraints as stored in a pod, with all required fields.
func Spread(at *field.Path, constraints []v1.TopologySpreadConstraint) field.ErrorList {
	var found Checker
	for i := range constraints {
		c, list, at := &constraints[i], at, at.Index(i)
		if c.MaxSkew < 1 {
			found.Add(field.Invalid(at.Child("maxSkew"), c.MaxSkew, "must be at least 1"))
		}
		found.Add(LabelKey(at.Child("topologyKey"), c.TopologyKey))
		found.Add(supported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, v1.DoNotSchedule, v1.ScheduleAnyway)...)
		found.Add(spreadDetails(at, c)...)
		first := slices.IndexFunc(constraints[:i], func(other v1.TopologySpreadConstraint) bool {
			return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
		})
		if first >= 0 && c.TopologyKey != "" && c.WhenUnsatisfiable != "" {
			found.Add(&field.Error{
				Type: field.ErrorTypeDuplicate, Field: at.String(), BadValue: fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable),
				Detail: fmt.Sprintf("has the topologyKey and whenUnsatisfiable of %s", list.Index(first)),
			})
		}
	}
	return found.Errors
}

func spreadDetails(at *field.Path, c *v1.TopologySpreadConstraint) field.ErrorList {
	var found Checker
	switch {
	case c.MinDomains == nil:
	case *c.MinDomains < 1:
		found.Add(field.Invalid(at.Child("minDomains"), *c.MinDomains, "must be at least 1"))
	case c.WhenUnsatisfiable == v1.ScheduleAnyway:
		found.Add(field.Invalid(at.Child("minDomains"), *c.MinDomains, "may be set only with whenUnsatisfiable DoNotSchedule"))
	}
	for _, policy := range []struct {
		name  string
		value *v1.NodeInclusionPolicy
	}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
		if policy.value != nil {
			found.Add(supported(at.Child(policy.name), *policy.value, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)...)
		}
	}
	if len(c.MatchLabelKeys) > 0 && c.LabelSelector == nil {
		found.Add(field.Forbidden(at.Child("matchLabelKeys"), "must not be specified when labelSelector is not set"))
	}
	for i, key := range c.MatchLabelKeys {
		found.Add(LabelKey(at.Child("matchLabelKeys").Index(i), key))
	}
	found.Add(selector(at.Child("labelSelector"), c.LabelSelector)...)
	return found.Errors
}

// selector is checked by the library of the API server. Values are not checked, because old objects
// may have any.
func selector(at *field.Path, s *metav1.LabelSelector) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}, at)
}

func affinity(at *field.Path, a *v1.Affinity) field.ErrorList {
	var errs field.ErrorList
	if a == nil {
		return nil
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	terms := func(at *field.Path, needed []v1.PodAffinityTerm, wanted []v1.WeightedPodAffinityTerm) {
		for i := range needed {
			errs = append(errs, podTerm(at.Child(required).Index(i), &needed[i])...)
		}
		for i := range wanted {
			errs = append(errs, podTerm(at.Child(preferred).Index(i).Child("podAffinityTerm"), &wanted[i].PodAffinityTerm)...)
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(at.Child("podAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(at.Child("podAntiAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if n := a.NodeAffinity; n != nil {
		at := at.Child("nodeAffinity")
		if needed := n.RequiredDuringSchedulingIgnoredDuringExecution; needed != nil {
			if len(needed.NodeSelectorTerms) == 0 {
				errs = append(errs, field.Required(at.Child(required, "nodeSelectorTerms"), "must have at least one term"))
			}
			for i := range needed.NodeSelectorTerms {
				errs = append(errs, NodeTerm(at.Child(required, "nodeSelectorTerms").Index(i), &needed.NodeSelectorTerms[i])...)
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			errs = append(errs, NodeTerm(at.Child(preferred).Index(i).Child("preference"),
				&n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)...)
		}
	}
	return errs
}

func podTerm(at *field.Path, t *v1.PodAffinityTerm) field.ErrorList {
	var c Checker
	c.Add(selector(at.Child("labelSelector"), t.LabelSelector)...)
	c.Add(selector(at.Child("namespaceSelector"), t.NamespaceSelector)...)
	c.Add(LabelKey(at.Child("topologyKey"), t.TopologyKey))
	for _, keys := range []struct {
		name  string
		value []string
	}{{"matchLabelKeys", t.MatchLabelKeys}, {"mismatchLabelKeys", t.MismatchLabelKeys}} {
		if len(keys.value) > 0 && t.LabelSelector == nil {
			c.Add(field.Forbidden(at.Child(keys.name), "must not be specified when labelSelector is not set"))
		}
	}
	return c.Errors
}

var nodeOperators = []v1.NodeSelectorOperator{
	v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt,
	v1.NodeSelectorOpLt,
}

// NodeTerm checks the operators of a term that selects nodes, and the number of values of each.
func NodeTerm(at *field.Path, t *v1.NodeSelectorTerm) field.ErrorList {
	var c Checker
	for i := range t.MatchExpressions {
		r, at := &t.MatchExpressions[i], at.Child("matchExpressions").Index(i)
		c.Add(LabelKey(at.Child("key"), r.Key))
		c.Add(requirement(at, r)...)
	}
	for i := range t.MatchFields {
		at := at.Child("matchFields").Index(i)
		c.Add(supported(at.Child("key"), t.MatchFields[i].Key, metav1.ObjectNameField)...)
		c.Add(supported(at.Child("operator"), t.MatchFields[i].Operator, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn)...)
		if len(t.MatchFields[i].Values) != 1 {
			c.Add(field.Required(at.Child("values"), "must be exactly one name of a node"))
		}
	}
	return c.Errors
}

func requirement(at *field.Path, r *v1.NodeSelectorRequirement) field.ErrorList {
	values := at.Child("values")
	switch {
	case !slices.Contains(nodeOperators, r.Operator):
		return supported(at.Child("operator"), r.Operator, nodeOperators...)
	case (r.Operator == v1.NodeSelectorOpIn || r.Operator == v1.NodeSelectorOpNotIn) && len(r.Values) == 0:
		return field.ErrorList{field.Required(values, "the operators In and NotIn need at least one value")}
	case (r.Operator == v1.NodeSelectorOpExists || r.Operator == v1.NodeSelectorOpDoesNotExist) && len(r.Values) > 0:
		return field.ErrorList{field.Forbidden(values, "the operators Exists and DoesNotExist take no value")}
	case (r.Operator == v1.NodeSelectorOpGt || r.Operator == v1.NodeSelectorOpLt) && len(r.Values) != 1:
		return field.ErrorList{field.Required(values, "the operators Gt and Lt need exactly one value, a whole number")}
	}
	return nil
}
