package workloadspread

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// Validate returns the errors in the spec of a WorkloadSpread: all that the schema refuses, and what
// it cannot say, which is about node selectors, tolerations and patches. The template is that of the
// workload, which every patch must fit; nil if it is not known.
func Validate(spec *v1alpha1.WorkloadSpreadSpec, template *v1.PodTemplateSpec) field.ErrorList {
	c, at := checker{spec: spec}, field.NewPath("spec")
	c.target(at)
	c.subsets(at.Child("subsets"), template)
	c.percentages(at.Child("subsets"))
	admission.Option(&c.Checker, at.Child("distribution"), spec.Distribution, v1alpha1.DistributeOrdered, v1alpha1.DistributeEven,
		v1alpha1.DistributeWeighted)
	admission.Option(&c.Checker, at.Child("whenFull"), spec.WhenFull, v1alpha1.WhenFullAdmit, v1alpha1.WhenFullRefuse)
	admission.Option(&c.Checker, at.Child("whenPatchFails"), spec.WhenPatchFails, v1alpha1.WhenPatchFailsRefuse, v1alpha1.WhenPatchFailsAdmit)
	c.Within(at.Child("creatingTimeoutSeconds"), spec.CreatingTimeoutSeconds, 1, 3600)
	c.Within(at.Child("deletingTimeoutSeconds"), spec.DeletingTimeoutSeconds, 1, 3600)
	c.strategy(at.Child("scheduleStrategy"))
	return c.Errors
}

// ValidateTarget refuses a WorkloadSpread whose target another one of the namespace has.
func ValidateTarget(object *v1alpha1.WorkloadSpread, others []v1alpha1.WorkloadSpread) field.ErrorList {
	for i := range others {
		o := &others[i]
		if o.Namespace == object.Namespace && o.Name != object.Name && sameTarget(&o.Spec, &object.Spec) {
			return field.ErrorList{field.Duplicate(field.NewPath("spec", "targetRef"), describe(&object.Spec)+", which the WorkloadSpread "+o.Name+
				" spreads")}
		}
	}
	return nil
}

// Refused says why a WorkloadSpread does nothing: another one has its workload, which only a webhook
// prevents. The first by name counts that is not being deleted. It is empty if no other one does.
func Refused(object *v1alpha1.WorkloadSpread, others []v1alpha1.WorkloadSpread) string {
	for i := range others {
		if others[i].Name >= object.Name || others[i].DeletionTimestamp != nil {
			continue
		}
		if errs := ValidateTarget(object, others[i:i+1]); len(errs) > 0 {
			return errs.ToAggregate().Error()
		}
	}
	return ""
}

// mostSubsets is how many subsets the schema allows.
const mostSubsets = 15

// sameTarget reports whether two specs have the same workload, in whichever version.
func sameTarget(a, b *v1alpha1.WorkloadSpreadSpec) bool {
	return kindOf(a) == kindOf(b) && a.TargetRef.Name == b.TargetRef.Name
}

func describe(spec *v1alpha1.WorkloadSpreadSpec) string {
	return spec.TargetRef.Kind + " " + spec.TargetRef.Name
}

// checker collects the errors.
type checker struct {
	admission.Checker
	spec *v1alpha1.WorkloadSpreadSpec
}

func (c *checker) target(at *field.Path) {
	ref, at, spec := c.spec.TargetRef, at.Child("targetRef"), at
	for _, f := range []struct{ name, value string }{{"apiVersion", ref.APIVersion}, {"kind", ref.Kind}, {"name", ref.Name}} {
		if f.value == "" {
			c.Add(field.Required(at.Child(f.name), "name the workload completely"))
		}
	}
	if _, err := schema.ParseGroupVersion(ref.APIVersion); err != nil {
		c.Add(field.Invalid(at.Child("apiVersion"), ref.APIVersion, "must be group/version"))
	}
	filter := c.spec.TargetFilter
	if !isKnown(c.spec) && ref.Kind != "" && (filter == nil || len(filter.ReplicasPathList) == 0) {
		c.Add(field.Invalid(at.Child("kind"), ref.Kind,
			"must be a Deployment, ReplicaSet or StatefulSet of apps, or a Job of batch; any other kind needs targetFilter.replicasPathList"))
	}
	if filter == nil {
		return
	}
	for i, path := range filter.ReplicasPathList {
		if slices.Contains(strings.Split(path, "."), "") {
			c.Add(field.Invalid(spec.Child("targetFilter", "replicasPathList").Index(i), path, "must be names or indexes with dots between them"))
		}
	}
	if filter.Selector != nil {
		c.Errors = append(c.Errors, validation.ValidateLabelSelector(filter.Selector.Meta(), validation.LabelSelectorValidationOptions{},
			spec.Child("targetFilter", "selector"))...)
	}
}

func (c *checker) subsets(at *field.Path, template *v1.PodTemplateSpec) {
	if len(c.spec.Subsets) == 0 {
		c.Add(field.Required(at, "a workload is spread over at least one subset"))
	}
	if n := len(c.spec.Subsets); n > mostSubsets {
		c.Add(field.TooMany(at, n, mostSubsets))
	}
	names := sets.Set[string]{}
	for i := range c.spec.Subsets {
		s, at := &c.spec.Subsets[i], at.Index(i)
		if problems := utilvalidation.IsDNS1123Label(s.Name); len(problems) > 0 {
			c.Add(field.Invalid(at.Child("name"), s.Name, problems[0]))
		}
		if names.Has(s.Name) {
			c.Add(field.Duplicate(at.Child("name"), s.Name))
		}
		names.Insert(s.Name)
		c.bounds(at, s)
		if s.RequiredNodeSelector != nil {
			c.Errors = append(c.Errors, admission.NodeTerm(at.Child("requiredNodeSelector"), s.RequiredNodeSelector)...)
		}
		for j := range s.PreferredNodeSelector {
			p, at := &s.PreferredNodeSelector[j], at.Child("preferredNodeSelector").Index(j)
			c.Within(at.Child("weight"), &p.Weight, 1, 100)
			c.Errors = append(c.Errors, admission.NodeTerm(at.Child("preference"), &p.Preference)...)
		}
		c.Errors = append(c.Errors, admission.Tolerations(at.Child("tolerations"), s.Tolerations)...)
		c.patch(at.Child("patch"), s, template)
	}
}

func (c *checker) bounds(at *field.Path, s *v1alpha1.WorkloadSubset) {
	c.Within(at.Child("minReplicas"), s.MinReplicas, 0, v1alpha1.MaxCount)
	c.Within(at.Child("base"), s.Base, 0, v1alpha1.MaxCount)
	c.Within(at.Child("weight"), s.Weight, 0, 1_000_000_000)
	most, notWeighted := s.MaxReplicas, c.spec.Distribution != v1alpha1.DistributeWeighted
	isPercent := most != nil && most.Type == intstr.String
	c.absent(at.Child("weight"), s.Weight, notWeighted, "is for distribution Weighted only")
	c.absent(at.Child("base"), s.Base, notWeighted, "is for distribution Weighted only")
	c.absent(at.Child("base"), s.Base, s.MinReplicas != nil, "cannot be combined with minReplicas")
	c.absent(at.Child("minReplicas"), s.MinReplicas, isPercent, "cannot be combined with a maxReplicas in percent")
	switch {
	case most == nil:
	case isPercent:
		if _, ok := percentage(most.StrVal); !ok {
			c.Add(field.Invalid(at.Child("maxReplicas"), most.StrVal, "must be a number from 0 to 2147483647 or a whole percentage"))
		}
	case most.IntVal < 0:
		c.Add(field.Invalid(at.Child("maxReplicas"), most.IntVal, "must be a number from 0 to 2147483647 or a whole percentage"))
	default:
		for i, n := range []*int32{s.MinReplicas, s.Base} {
			if n != nil && *n > most.IntVal {
				c.Add(field.Invalid(at.Child([]string{"minReplicas", "base"}[i]), *n, "must not be greater than maxReplicas"))
			}
		}
	}
}

// absent refuses a number where it has no place.
func (c *checker) absent(at *field.Path, n *int32, refused bool, why string) {
	if n != nil && refused {
		c.Add(field.Forbidden(at, why))
	}
}

// percentages checks what the maximums of all subsets are together. The first one that does not go with those before it
// is named.
func (c *checker) percentages(at *field.Path) {
	if c.spec.Distribution == v1alpha1.DistributeWeighted && len(c.spec.Subsets) > 0 &&
		!slices.ContainsFunc(c.spec.Subsets, func(s v1alpha1.WorkloadSubset) bool { return s.Weight == nil || *s.Weight > 0 }) {
		c.Add(field.Invalid(at, 0, "a subset must have a weight above 0"))
	}
	var first *intstr.IntOrString
	sum, last := int64(0), len(c.spec.Subsets)-1
	for i := range c.spec.Subsets {
		most := c.spec.Subsets[i].MaxReplicas
		if most == nil {
			continue
		}
		first = cmp.Or(first, most)
		percent, _ := percentage(most.StrVal) // an invalid one counts 0
		sum += int64(percent)
		why := ""
		switch isPercent := most.Type == intstr.String; {
		case isPercent && kindOf(c.spec) == statefulSetKind:
			why = "must be a number for a StatefulSet: its pods keep their subset by ordinal"
		case isPercent && !ordered(c.spec):
			why = "must be a number unless distribution is Ordered: use weights"
		case most.Type != first.Type:
			why = "must be a number in all subsets, or a percentage in all subsets"
		case sum > 100:
			why = "the percentages must not exceed 100% together"
		case isPercent && i == last && sum < 100:
			why = "the percentages must be 100% together if the last subset has one"
		}
		if why != "" {
			c.Add(field.Invalid(at.Index(i).Child("maxReplicas"), most.String(), why))
			return
		}
	}
}

// patch checks that a patch can be read and, if there is a template, that it fits.
func (c *checker) patch(at *field.Path, s *v1alpha1.WorkloadSubset, template *v1.PodTemplateSpec) {
	if s.Patch == nil {
		return
	}
	if raw := bytes.TrimSpace(s.Patch.Raw); !bytes.HasPrefix(raw, []byte("{")) || !json.Valid(raw) {
		c.Add(field.Invalid(at, admission.Shorten(string(raw)), "must be a strategic merge patch, which is an object"))
		return
	}
	pod := &v1.Pod{}
	if template != nil {
		pod.ObjectMeta, pod.Spec = template.ObjectMeta, template.Spec
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err == nil {
		_, err = merge(fields, s.Patch.Raw, labels.Everything(), template != nil)
	}
	if err != nil {
		c.Add(field.Invalid(at, admission.Shorten(string(s.Patch.Raw)), err.Error()))
	}
}

func (c *checker) strategy(at *field.Path) {
	s, n := c.spec.ScheduleStrategy, len(c.spec.Subsets)
	admission.Option(&c.Checker, at.Child("type"), s.Type, v1alpha1.ScheduleFixed, v1alpha1.ScheduleAdaptive)
	adaptive := at.Child("adaptive")
	if s.Type == v1alpha1.ScheduleAdaptive && n > 1 && c.spec.Subsets[n-1].MaxReplicas != nil {
		c.Add(field.Invalid(adaptive, c.spec.Subsets[n-1].MaxReplicas.String(), "needs a last subset without maxReplicas"))
	}
	if s.Adaptive == nil {
		return
	}
	if s.Type != v1alpha1.ScheduleAdaptive {
		c.Add(field.Invalid(at.Child("type"), s.Type, "must be Adaptive if adaptive is set"))
	}
	a := s.Adaptive
	c.Within(adaptive.Child("rescheduleCriticalSeconds"), a.RescheduleCriticalSeconds, 0, 86400)
	c.Within(adaptive.Child("unschedulableSeconds"), a.UnschedulableSeconds, 5, 86400)
	c.Within(adaptive.Child("autoscalerTimeoutSeconds"), a.AutoscalerTimeoutSeconds, 1, 86400)
	c.Within(adaptive.Child("maxReschedulesPerMinute"), a.MaxReschedulesPerMinute, 1, v1alpha1.MaxCount)
	admission.Option(&c.Checker, adaptive.Child("reschedule"), a.Reschedule, v1alpha1.RescheduleDelete, v1alpha1.RescheduleReserve)
	window := int64(ptr.Deref(a.UnschedulableSeconds, v1alpha1.DefaultUnschedulableSeconds))
	if critical := ptr.Deref(a.RescheduleCriticalSeconds, 0); n > 1 && int64(critical)*int64(n-1) > window-5 {
		c.Add(field.Invalid(adaptive.Child("rescheduleCriticalSeconds"), critical,
			"must be at most (unschedulableSeconds - 5) / (subsets - 1), so that a pod can try every subset before the first mark expires"))
	}
}
