package admission

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Budget checks a PodDisruptionBudget: its selector, and that it has at most one bound, which is a
// number or a percentage.
func Budget(at *field.Path, s *policyv1.PodDisruptionBudgetSpec) field.ErrorList {
	var errs field.ErrorList
	if s.Selector != nil {
		errs = selector(at.Child("selector"), s.Selector)
	}
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		errs = append(errs, field.Forbidden(at.Child("maxUnavailable"), "not together with minAvailable"))
	}
	errs = append(errs, bound(at.Child("minAvailable"), s.MinAvailable)...)
	errs = append(errs, bound(at.Child("maxUnavailable"), s.MaxUnavailable)...)
	if p := s.UnhealthyPodEvictionPolicy; p != nil {
		errs = append(errs, supported(at.Child("unhealthyPodEvictionPolicy"), *p, policyv1.IfHealthyBudget, policyv1.AlwaysAllow)...)
	}
	return errs
}

func bound(at *field.Path, value *intstr.IntOrString) field.ErrorList {
	if value == nil {
		return nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, 100, true)
	if err != nil || n < 0 || value.Type == intstr.String && n > 100 {
		return field.ErrorList{field.Invalid(at, value.String(), "must be a number, 0 or more, or a percentage up to 100%")}
	}
	return nil
}
