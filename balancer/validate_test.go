package balancer

import (
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

func TestValidate(t *testing.T) {
	type spec = v1alpha1.BalancerSpec
	tests := map[string]struct {
		change func(*spec)
		want   string // the first error begins with this; empty for none
	}{
		"valid":             {func(*spec) {}, ""},
		"no replicas":       {func(s *spec) { s.Replicas = nil }, ""},
		"negative replicas": {func(s *spec) { *s.Replicas = -1 }, "spec.replicas: Invalid value: -1: must not be negative"},
		"no targets":        {func(s *spec) { s.Targets = nil; s.Policy = proportional(nil) }, "spec.targets: Required"},
		"no name": {func(s *spec) {
			s.Targets = append(s.Targets, targetOf("", -1, -1))
			s.Targets[2].ScaleTargetRef.Name = "x"
		}, "spec.targets[2].name: Required"},
		"a name twice": {func(s *spec) {
			s.Targets = append(s.Targets, targetOf("a", -1, -1))
			s.Targets[2].ScaleTargetRef.Name = "x"
		}, "spec.targets[2].name: Duplicate value: \"a\""},
		"an object twice": {func(s *spec) {
			s.Targets[1].ScaleTargetRef = s.Targets[0].ScaleTargetRef
			s.Targets[1].ScaleTargetRef.APIVersion = "apps/v1"
		}, "spec.targets[1].scaleTargetRef: Invalid value: \"a\": must not refer to one object twice"},
		"negative min": {func(s *spec) { s.Targets[0].MinReplicas = new(int32(-1)) }, "spec.targets[0].minReplicas: Invalid value: -1"},
		"negative max": {func(s *spec) { s.Targets[0].MaxReplicas = new(int32(-1)) }, "spec.targets[0].maxReplicas: Invalid value: -1"},
		"min above max": {func(s *spec) { s.Targets[0].MinReplicas, s.Targets[0].MaxReplicas = new(int32(2)), new(int32(1)) },
			"spec.targets[0].minReplicas: Invalid value: 2: must not be greater"},
		"no kind": {func(s *spec) {
			s.Targets[0].ScaleTargetRef = v1alpha1.ScaleTargetReference{APIVersion: "apps/v1", Name: "a"}
		}, "spec.targets[0].scaleTargetRef.kind: Required"},
		"no object":     {func(s *spec) { s.Targets[0].ScaleTargetRef.Name = "" }, "spec.targets[0].scaleTargetRef.name: Required"},
		"unknown group": {func(s *spec) { s.Targets[0].ScaleTargetRef.Kind = "Rollout" }, "spec.targets[0].scaleTargetRef.apiVersion: Required"},
		"the core group": {func(s *spec) {
			s.Targets[0].ScaleTargetRef.Kind = "ReplicationController"
			s.Targets[0].ScaleTargetRef.APIVersion = "v1"
		}, ""},
		"itself": {func(s *spec) {
			s.Targets[0].ScaleTargetRef = v1alpha1.ScaleTargetReference{APIVersion: v1alpha1.APIVersion, Kind: "Balancer", Name: "web"}
		}, "spec.targets[0].scaleTargetRef: Invalid value: \"web\": a Balancer cannot be a target of itself"},
		"another Balancer": {func(s *spec) {
			s.Targets[0].ScaleTargetRef = v1alpha1.ScaleTargetReference{APIVersion: v1alpha1.APIVersion, Kind: "Balancer", Name: "other"}
		}, ""},
		"no selector": {func(s *spec) { s.Selector = v1alpha1.LabelSelector{} }, "spec.selector: Required"},
		"a bad selector": {func(s *spec) {
			s.Selector.MatchExpressions = []v1alpha1.LabelSelectorRequirement{{Key: "x", Operator: "Is"}}
		}, "spec.selector.matchExpressions[0].operator: Invalid value"},
		"a key of a label that is none": {func(s *spec) {
			s.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"-app": "web"}
		}, "spec.selector.matchLabels: Invalid value: \"-app\""},
		"a value of a label that is none": {func(s *spec) {
			s.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"app": "my web"}
		}, "spec.selector.matchLabels: Invalid value: \"my web\""},
		"unknown policy": {func(s *spec) { s.Policy = v1alpha1.BalancerPolicy{PolicyName: "even"} },
			"spec.policy.policyName: Unsupported value: \"even\""},
		"no order":         {func(s *spec) { s.Policy.Priorities = nil }, "spec.policy.priorities: Required"},
		"an empty order":   {func(s *spec) { s.Policy = priority() }, "spec.policy.priorities.targetOrder: Required"},
		"unknown in order": {func(s *spec) { s.Policy = priority("a", "x") }, "spec.policy.priorities.targetOrder[1]: Invalid value: \"x\""},
		"twice in order": {func(s *spec) { s.Policy = priority("a", "a") },
			"spec.policy.priorities.targetOrder[1]: Duplicate value: \"a\""},
		"both blocks": {func(s *spec) { s.Policy.Proportions = proportional(map[string]int32{"a": 1}).Proportions },
			"spec.policy.proportions: Forbidden"},
		"no proportions": {func(s *spec) { s.Policy = proportional(nil) }, "spec.policy.proportions.targetProportions: Required"},
		"unknown proportion": {func(s *spec) { s.Policy = proportional(map[string]int32{"x": 1}) },
			"spec.policy.proportions.targetProportions[x]: Invalid value: \"x\""},
		"a negative proportion": {func(s *spec) { s.Policy = proportional(map[string]int32{"a": -1}) },
			"spec.policy.proportions.targetProportions[a]: Invalid value: -1"},
		"no timeout": {func(s *spec) { s.Policy.Fallback = &v1alpha1.Fallback{} },
			"spec.policy.fallback.startupTimeout: Invalid value: \"0s\": must be 1s or more"},
		"a short stabilization": {func(s *spec) {
			s.Policy = withFallback(s.Policy)
			s.Policy.Fallback.StabilizationTime.Duration = time.Millisecond
		}, "spec.policy.fallback.stabilizationTime: Invalid value: \"1ms\""},
		"the stabilization of old": {func(s *spec) {
			s.Policy = withFallback(s.Policy)
			s.Policy.Fallback.StabilizationTime.Duration = 0
		}, ""},
		"no moves": {func(s *spec) { s.Policy.MaxMovesPerMinute = new(int32(0)) },
			"spec.policy.maxMovesPerMinute: Invalid value: 0: must be 1 or more"},
		"unknown relief":  {func(s *spec) { s.Policy.Relief = "any" }, "spec.policy.relief: Unsupported value: \"any\""},
		"later, in order": {func(s *spec) { s.Policy.Relief = v1alpha1.ReliefLaterOnly }, ""},
		"later, no order": {func(s *spec) {
			s.Policy = with(proportional(map[string]int32{"a": 1}), later)
		}, "spec.policy.relief: Invalid value: \"LaterOnly\": is for policyName priority only"},
		"unknown rounding":  {func(s *spec) { s.Policy.Rounding = "Up" }, "spec.policy.rounding: Unsupported value: \"Up\""},
		"unknown tie break": {func(s *spec) { s.Policy.TieBreak = "Age" }, "spec.policy.tieBreak: Unsupported value: \"Age\""},
		"unknown min mode":  {func(s *spec) { s.Policy.MinMode = "None" }, "spec.policy.minMode: Unsupported value: \"None\""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := specOf(5, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1))
			tt.change(&s)
			errs := Validate("shop/web", &s)
			switch {
			case tt.want == "" && len(errs) == 0:
			case tt.want == "" || len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), tt.want):
				t.Errorf("%v; want %q", errs, tt.want)
			}
		})
	}
}
