package predicates_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/predicates"
)

// The default constraints have the selector of the services that select the pod, and no other pod
// is changed.
func TestDefaultConstraintsAreWrittenIntoAPod(t *testing.T) {
	const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [
  {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 3, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}}]}]
`
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	checker, err := predicates.New(t.Context(), predicates.Options{Configuration: []byte(configuration), Objects: []runtime.Object{service}})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(app string, constraints ...v1.TopologySpreadConstraint) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"app": app}},
			Spec: v1.PodSpec{TopologySpreadConstraints: constraints}}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{}}
	own := v1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: v1.ScheduleAnyway}
	if got := checker.DefaultConstraints(); len(got) != 2 || got[0].TopologyKey != "zone" || got[0].LabelSelector != nil {
		t.Errorf("the default constraints are %+v", got)
	}
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want []v1.TopologySpreadConstraint
	}{
		{"a pod that a service selects", pod("web"), []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector},
			{MaxSkew: 3, TopologyKey: "rack", WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: selector},
		}},
		{"a pod with a constraint of its own", pod("web", own), []v1.TopologySpreadConstraint{own}},
		{"a pod that no service selects", pod("db"), nil},
	} {
		before := tc.pod.DeepCopy()
		if diff := cmp.Diff(tc.want, checker.Defaulted(tc.pod).Spec.TopologySpreadConstraints); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(before, tc.pod); diff != "" {
			t.Errorf("%s: the pod was changed:\n%s", tc.name, diff)
		}
	}
}
