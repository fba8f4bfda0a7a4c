package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

func TestAsSelector(t *testing.T) {
	type (
		values       = map[string]v1alpha1.LabelValue
		requirements = []v1alpha1.LabelSelectorRequirement
	)
	for name, c := range map[string]struct {
		selector v1alpha1.LabelSelector
		want     string // as a query parameter
		problem  string // part of the error; empty for none
	}{
		"empty":  {},
		"labels": {selector: v1alpha1.LabelSelector{MatchLabels: values{"b": "2", "a": ""}}, want: "a=,b=2"},
		"operators": {selector: v1alpha1.LabelSelector{MatchExpressions: requirements{{"a", "In", []v1alpha1.LabelValue{"x", "y"}},
			{"b", "NotIn", []v1alpha1.LabelValue{"z"}}, {"c", "Exists", nil}, {"d", "DoesNotExist", nil}}}, want: "a in (x,y),b notin (z),c,!d"},
		"together": {selector: v1alpha1.LabelSelector{MatchLabels: values{"a": "x"}, MatchExpressions: requirements{{"b", "Exists", nil}}},
			want: "a=x,b"},
		"bad key":   {selector: v1alpha1.LabelSelector{MatchLabels: values{"/a": "x"}}, problem: `"/a"`},
		"bad value": {selector: v1alpha1.LabelSelector{MatchLabels: values{"a": "x y"}}, problem: `"x y"`},
		"no values": {selector: v1alpha1.LabelSelector{MatchExpressions: requirements{{"a", "In", nil}}}, problem: "values"},
		"unknown":   {selector: v1alpha1.LabelSelector{MatchExpressions: requirements{{"a", "Is", nil}}}, problem: `"Is"`},
		"long value": {selector: v1alpha1.LabelSelector{MatchExpressions: requirements{{"a", "In",
			[]v1alpha1.LabelValue{v1alpha1.LabelValue(strings.Repeat("v", 64))}}}}, problem: "63"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.selector.AsSelector()
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("the error is %v, want %s named", err, c.problem)
				}
				return
			}
			if err != nil || s.String() != c.want {
				t.Errorf("%v, %v; want %s", s, err, c.want)
			}
		})
	}
}
