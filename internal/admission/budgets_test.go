package admission_test

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/admission"
)

func TestBudgetsAreRefusedWithOneClearAnswer(t *testing.T) {
	number := func(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }
	text := func(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }
	for name, c := range map[string]struct {
		spec policyv1.PodDisruptionBudgetSpec
		want string
	}{
		"nothing":      {},
		"a number":     {spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: number(0)}},
		"a percentage": {spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: text("100%")}},
		"a policy":     {spec: policyv1.PodDisruptionBudgetSpec{UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow)}},
		"negative": {spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: number(-1)},
			want: `spec.minAvailable: Invalid value: "-1": must be a number, 0 or more, or a percentage up to 100%`},
		"too much": {spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: text("101%")},
			want: `spec.maxUnavailable: Invalid value: "101%": must be a number, 0 or more, or a percentage up to 100%`},
		"no percentage": {spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: text("1")},
			want: `spec.maxUnavailable: Invalid value: "1": must be a number, 0 or more, or a percentage up to 100%`},
		"both": {spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: number(1), MaxUnavailable: number(1)},
			want: "spec.maxUnavailable: Forbidden: not together with minAvailable"},
		"other policy": {
			spec: policyv1.PodDisruptionBudgetSpec{UnhealthyPodEvictionPolicy: new(policyv1.UnhealthyPodEvictionPolicyType("Never"))},
			want: `spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "IfHealthyBudget", "AlwaysAllow"`,
		},
		"a selector": {
			spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a",
				Operator: "Is"}}}},
			want: `spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
		},
	} {
		got := ""
		if errs := admission.Budget(field.NewPath("spec"), &c.spec); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
