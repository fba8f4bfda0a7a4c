package federation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// What the schema refuses, Decide refuses as well, and changes nothing.
func TestValidate(t *testing.T) {
	type spec = v1alpha1.FederatedReplicaSetSpec
	within := func(e v1alpha1.FederatedPreference) func(*spec) {
		return func(s *spec) { s.Preferences.Clusters["x"] = e }
	}
	for name, c := range map[string]struct {
		change func(*spec)
		want   string
	}{
		"negative replicas": {func(s *spec) { s.Replicas = new(int32(-1)) }, "spec.replicas: Invalid value: -1"},
		"empty selector":    {func(s *spec) { s.Selector = v1alpha1.LabelSelector{} }, "spec.selector: Required"},
		"bad selector": {func(s *spec) { s.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"-": "x"} },
			"spec.selector.matchLabels"},
		"other labels":          {func(s *spec) { s.Template.Metadata.Labels = nil }, "spec.template.metadata.labels: Invalid value"},
		"no pod":                {func(s *spec) { s.Template.Spec.Raw = nil }, "spec.template.spec: Required"},
		"unknown kind":          {func(s *spec) { s.LocalKind = "Job" }, "spec.localKind: Unsupported value"},
		"unknown rounding":      {func(s *spec) { s.Rounding = "Up" }, "spec.rounding: Unsupported value"},
		"unknown cascade":       {func(s *spec) { s.Cascade = "Up" }, "spec.cascade: Unsupported value"},
		"unknown rollout":       {func(s *spec) { s.Rollout = "Up" }, "spec.rollout: Unsupported value"},
		"rollout of ReplicaSet": {func(s *spec) { s.Rollout = v1alpha1.RolloutOneByOne }, "spec.rollout: Invalid value"},
		"no moves":              {func(s *spec) { s.MaxMovesPerMinute = new(int32(0)) }, "spec.maxMovesPerMinute: Invalid value: 0"},
		"no probe":              {func(s *spec) { s.Fallback.Probe = new(int32(0)) }, "spec.fallback.probe: Invalid value: 0"},
		"short time": {func(s *spec) { s.Fallback.NormalTime.Duration = time.Millisecond },
			"spec.fallback.normalTime: Invalid value: \"1ms\""},
		"wrong order": {func(s *spec) { s.Fallback.NormalTime = metav1.Duration{Duration: time.Hour} },
			"spec.fallback.normalTime: Invalid value: \"1h0m0s\": must not be longer"},
		"min above max": {within(entry(2, 1, 1)), "spec.preferences.clusters[x].minReplicas: Invalid value: 2"},
		"negative tier": {within(inTier(-1, entry(-1, -1, 1))), "spec.preferences.clusters[x].tier: Invalid value: -1"},
		"clusters of a cluster": {within(v1alpha1.FederatedPreference{Clusters: map[string]v1alpha1.ClusterPreference{}}),
			"spec.preferences.clusters[x].clusters: Forbidden"},
		"selects nothing": {within(v1alpha1.FederatedPreference{Selector: &v1alpha1.ClusterSelector{}}),
			"spec.preferences.clusters[x].selector: Required"},
		"selects the others": {func(s *spec) { s.Preferences.Clusters["*"] = ofRegion("a", entry(-1, -1, 1)) },
			"spec.preferences.clusters[*].selector: Forbidden"},
	} {
		w := even(t)
		before := w.in.Status.DeepCopy().Clusters
		c.change(&w.in.Spec)
		d := w.pass()
		_, reason, message := w.condition(v1alpha1.ConditionSettled)
		if reason != ReasonInvalidSpec || !strings.Contains(message, c.want) {
			t.Errorf("%s: %s: %s, want %q", name, reason, message, c.want)
		}
		if len(d.Writes) > 0 || !equalJSON(t, before, w.in.Status.Clusters) {
			t.Errorf("%s: changed %+v", name, d.Writes)
		}
	}
}

func TestRevision(t *testing.T) {
	spec := specOf(1, nil)
	before := Revision(&spec)
	spec.Replicas, spec.Preferences = new(int32(7)), weighted(nil)
	spec.Template.Spec.Raw = []byte(`{ "containers": [ {"image": "web:1", "name": "web"} ] }`)
	if after := Revision(&spec); after != before {
		t.Errorf("from %s to %s without a change of content", before, after)
	}
	spec.Template.Spec.Raw = []byte(`{"containers":[{"name":"web","image":"web:1"}],"x":9007199254740993}`)
	one := Revision(&spec)
	spec.Template.Spec.Raw = []byte(`{"containers":[{"name":"web","image":"web:1"}],"x":9007199254740992}`)
	if two := Revision(&spec); two == one || two == before {
		t.Errorf("%s, %s, %s", before, one, two)
	}
}
