package workloadspread

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// What the schema refuses, Validate refuses as well, and what the schema cannot say.
func TestValidate(t *testing.T) {
	type spec = v1alpha1.WorkloadSpreadSpec
	change := func(base *spec, f func(*spec)) *spec { f(base); return base }
	a := func(f func(*v1alpha1.AdaptiveSchedule)) *spec {
		s := adaptive("", "")
		f(s.ScheduleStrategy.Adaptive)
		return s
	}
	critical := func(seconds int32, most ...string) *spec {
		s := adaptive(most...)
		s.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds = &seconds
		return s
	}
	of := func(apiVersion, kind string, most ...string) *spec {
		return change(deployment(most...), func(s *spec) { s.TargetRef.APIVersion, s.TargetRef.Kind = apiVersion, kind })
	}
	first := func(f func(*v1alpha1.WorkloadSubset)) *spec {
		s := deployment("", "")
		f(&s.Subsets[0])
		return s
	}
	weighted := func(f func(*v1alpha1.WorkloadSubset)) *spec {
		s := first(f)
		s.Distribution = v1alpha1.DistributeWeighted
		return s
	}
	paths := func(s *spec, paths ...string) *spec {
		s.TargetFilter = &v1alpha1.WorkloadFilter{ReplicasPathList: paths}
		return s
	}
	for _, c := range []struct {
		name string
		spec *spec
		want string // empty: valid
	}{
		{"two subsets", deployment("8", ""), ""},
		{"percentages", deployment("20%", "20%", "60%"), ""},
		{"an open last subset", deployment("20%", ""), ""},
		{"a StatefulSet", of("apps/v1", "StatefulSet", "3", ""), ""},
		{"a Job", of("batch/v1", "Job", "3", ""), ""},
		{"a ReplicaSet", of("apps/v1beta2", "ReplicaSet", "3", ""), ""},
		{"a kind with a path", paths(of("example.com/v1", "Fleet", ""), "spec.replicas"), ""},
		{"even", even("", "5"), ""},
		{"a ratio", ratio(2, 20, 80), ""},
		{"critical time of 2", critical(295, "", ""), ""},
		{"critical time of 3", critical(147, "", "", ""), ""},
		{"critical time of 4", critical(98, "", "", "", ""), ""},
		{"critical time of 1", critical(86400, ""), ""},

		{"no version", of("", "Deployment", ""), "spec.targetRef.apiVersion: Required"},
		{"no kind", of("apps/v1", "", ""), "spec.targetRef.kind: Required"},
		{"no name", change(deployment(""), func(s *spec) { s.TargetRef.Name = "" }), "spec.targetRef.name: Required"},
		{"bad version", of("a/b/c", "Deployment", ""), "spec.targetRef.apiVersion: Invalid value"},
		{"other kind", of("apps/v1", "DaemonSet", ""), "spec.targetRef.kind: Invalid value: \"DaemonSet\""},
		{"other group", of("batch/v1", "Deployment", ""), "spec.targetRef.kind: Invalid value: \"Deployment\""},
		{"bad path", paths(deployment(""), "spec.replicas", "spec..x"), "spec.targetFilter.replicasPathList[1]: Invalid value"},
		{"bad selector", change(deployment(""), func(s *spec) {
			s.TargetFilter = &v1alpha1.WorkloadFilter{Selector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"-": "x"}}}
		}), "spec.targetFilter.selector.matchLabels"},
		{"no subset", deployment(), "spec.subsets: Required"},
		{"too many subsets", deployment(make([]string, 16)...), "spec.subsets: Too many: 16"},
		{"no name of a subset", first(func(s *v1alpha1.WorkloadSubset) { s.Name = "" }), "spec.subsets[0].name: Invalid value"},
		{"a name twice", first(func(s *v1alpha1.WorkloadSubset) { s.Name = "b" }), "spec.subsets[1].name: Duplicate value"},
		{"negative maximum", deployment("-1", ""), "spec.subsets[0].maxReplicas: Invalid value: -1"},
		{"bad percentage", deployment("1.5%", ""), "spec.subsets[0].maxReplicas: Invalid value: \"1.5%\""},
		{"numbers and percentages", deployment("1", "5%", ""), "spec.subsets[1].maxReplicas: Invalid value: \"5%\": must be a number in all"},
		{"101%", deployment("60%", "41%", ""), "spec.subsets[1].maxReplicas: Invalid value: \"41%\""},
		{"99%", deployment("60%", "39%"), "spec.subsets[1].maxReplicas: Invalid value: \"39%\""},
		{"percentage of a StatefulSet", of("apps/v1", "StatefulSet", "60%", ""), "for a StatefulSet"},
		{"even percentages", even("50%", ""), "use weights"},
		{"min above max", change(deployment("1", ""), func(s *spec) { s.Subsets[0].MinReplicas = new(int32(2)) }),
			"spec.subsets[0].minReplicas: Invalid value: 2"},
		{"negative min", first(func(s *v1alpha1.WorkloadSubset) { s.MinReplicas = new(int32(-2)) }),
			"spec.subsets[0].minReplicas: Invalid value: -2"},
		{"min of a percentage", change(deployment("10%", ""), func(s *spec) { s.Subsets[0].MinReplicas = new(int32(2)) }),
			"spec.subsets[0].minReplicas: Forbidden"},
		{"weight in order", first(func(s *v1alpha1.WorkloadSubset) { s.Weight = new(int32(2)) }), "spec.subsets[0].weight: Forbidden"},
		{"base in order", first(func(s *v1alpha1.WorkloadSubset) { s.Base = new(int32(2)) }), "spec.subsets[0].base: Forbidden"},
		{"negative weight", weighted(func(s *v1alpha1.WorkloadSubset) { s.Weight = new(int32(-2)) }),
			"spec.subsets[0].weight: Invalid value: -2"},
		{"base and min", weighted(func(s *v1alpha1.WorkloadSubset) { s.Base, s.MinReplicas = new(int32(2)), new(int32(2)) }),
			"spec.subsets[0].base: Forbidden"},
		{"base above max", weighted(func(s *v1alpha1.WorkloadSubset) { *s = subsetOf("a", "1"); s.Base = new(int32(2)) }),
			"spec.subsets[0].base: Invalid value: 2"},
		{"no weight", ratio(0, 0, 0), "spec.subsets: Invalid value: 0: a subset must have a weight above 0"},
		{"operator of a term", first(func(s *v1alpha1.WorkloadSubset) {
			s.RequiredNodeSelector = &v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Is"}}}
		}), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].operator: Unsupported value"},
		{"weight of a term", first(func(s *v1alpha1.WorkloadSubset) {
			s.PreferredNodeSelector = []v1.PreferredSchedulingTerm{{Weight: 101}}
		}), "spec.subsets[0].preferredNodeSelector[0].weight: Invalid value: 101"},
		{"toleration", first(func(s *v1alpha1.WorkloadSubset) { s.Tolerations = []v1.Toleration{{Key: "a", Effect: "Never"}} }),
			"spec.subsets[0].tolerations[0].effect: Unsupported value"},
		{"patch", change(deployment(""), func(s *spec) { s.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`[1]`)} }),
			"spec.subsets[0].patch: Invalid value"},
		{"patch of the name", change(deployment(""), func(s *spec) {
			s.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"x"}}`)}
		}), "spec.subsets[0].patch: Invalid value: \"{\\\"metadata\\\":{\\\"name\\\":\\\"x\\\"}}\": must not change metadata.name"},
		{"unknown distribution", change(deployment(""), func(s *spec) { s.Distribution = "Random" }), "spec.distribution: Unsupported value"},
		{"unknown whenFull", change(deployment(""), func(s *spec) { s.WhenFull = "Wait" }), "spec.whenFull: Unsupported value"},
		{"creating time", change(deployment(""), func(s *spec) { s.CreatingTimeoutSeconds = new(int32(0)) }),
			"spec.creatingTimeoutSeconds: Invalid value: 0"},
		{"deleting time", change(deployment(""), func(s *spec) { s.DeletingTimeoutSeconds = new(int32(0)) }),
			"spec.deletingTimeoutSeconds: Invalid value: 0"},
		{"unknown strategy", change(deployment(""), func(s *spec) { s.ScheduleStrategy.Type = "Random" }),
			"spec.scheduleStrategy.type: Unsupported value"},
		{"adaptive with Fixed", change(adaptive("", ""), func(s *spec) { s.ScheduleStrategy.Type = v1alpha1.ScheduleFixed }),
			"spec.scheduleStrategy.type: Invalid value: \"Fixed\": must be Adaptive"},
		{"last subset limited", adaptive("", "5"), "spec.scheduleStrategy.adaptive: Invalid value"},
		{"critical time below 0", critical(-1, "", ""), "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value: -1"},
		{"too long with 2", critical(296, "", ""), "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value: 296"},
		{"too long with 3", critical(148, "", "", ""), "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value: 148"},
		{"too long with 4", critical(99, "", "", "", ""), "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value: 99"},
		{"too long for its window", a(func(a *v1alpha1.AdaptiveSchedule) { a.UnschedulableSeconds = new(int32(34)) }),
			"spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value: 30"},
		{"no window", a(func(a *v1alpha1.AdaptiveSchedule) { a.UnschedulableSeconds = new(int32(0)) }),
			"spec.scheduleStrategy.adaptive.unschedulableSeconds: Invalid value: 0"},
		{"no patience", a(func(a *v1alpha1.AdaptiveSchedule) { a.AutoscalerTimeoutSeconds = new(int32(0)) }),
			"spec.scheduleStrategy.adaptive.autoscalerTimeoutSeconds: Invalid value: 0"},
		{"no rate", a(func(a *v1alpha1.AdaptiveSchedule) { a.MaxReschedulesPerMinute = new(int32(0)) }),
			"spec.scheduleStrategy.adaptive.maxReschedulesPerMinute: Invalid value: 0"},
		{"unknown way", a(func(a *v1alpha1.AdaptiveSchedule) { a.Reschedule = "Evict" }),
			"spec.scheduleStrategy.adaptive.reschedule: Unsupported value"},
	} {
		errs := Validate(c.spec, nil)
		text := ""
		if len(errs) > 0 {
			text = errs.ToAggregate().Error()
		}
		if c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
		if c.want == "" {
			continue
		}
		in := inputOf(c.spec, 3, podsIn("a", 3)...)
		if d := Decide(in); len(d.Costs)+len(d.Delete)+len(d.Assign) > 0 || d.Status.Conditions[0].Reason != ReasonInvalidSpec {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// A patch is held against the template of the workload, if there is one.
func TestValidatePatchOfATemplate(t *testing.T) {
	spec := deployment("")
	spec.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"other","resources":{"limits":{"cpu":"1"}}}]}}`)}
	pod := webPod()
	template := &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: pod.Spec}
	if errs := Validate(spec, nil); len(errs) > 0 {
		t.Errorf("without a template: %v", errs)
	}
	if errs := Validate(spec, template); len(errs) != 1 || errs[0].Field != "spec.subsets[0].patch" ||
		!strings.Contains(errs[0].Detail, "needs an image") {
		t.Errorf("with one: %v", errs)
	}
}

func TestTwoObjectsOnOneTarget(t *testing.T) {
	object := &v1alpha1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}, Spec: *deployment("")}
	for _, c := range []struct {
		namespace, name, apiVersion, kind string
		refused                           bool
	}{
		{"shop", "y", "apps/v1", "Deployment", true},
		{"shop", "y", "apps/v1beta1", "Deployment", true},
		{"shop", "x", "apps/v1", "Deployment", false},
		{"other", "y", "apps/v1", "Deployment", false},
		{"shop", "y", "apps/v1", "StatefulSet", false},
	} {
		other := *object.DeepCopy()
		other.Namespace, other.Name, other.Spec.TargetRef.APIVersion, other.Spec.TargetRef.Kind = c.namespace, c.name, c.apiVersion, c.kind
		errs := ValidateTarget(object, []v1alpha1.WorkloadSpread{other})
		if refused := len(errs) == 1 && errs[0].Field == "spec.targetRef"; refused != c.refused {
			t.Errorf("%+v: %v", c, errs)
		}
	}
}
