package federation

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

func TestParsePreferences(t *testing.T) {
	want := v1alpha1.FederatedPreferences{Rebalance: true, Clusters: map[string]v1alpha1.FederatedPreference{
		"a": entry(2, 20, -1), "b": entry(-1, -1, 0), "*": entry(-1, -1, 1),
	}}
	for _, text := range []string{
		`{"rebalance": true, "clusters": {"a": {"minReplicas": 2, "maxReplicas": 20}, "b": {"weight": 0, "maxReplicas": null}, "*": {"weight": 1}}}`,
		`{"rebalance": true, "Clusters": {"a": {"MinReplicas": 2, "maxReplicas": 20}, "b": {"Weight": 0}, "*": {"Weight": 1}}}`,
	} {
		got, err := ParsePreferences(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := ParsePreferences(`{}`); err != nil || got.Rebalance || got.Clusters != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParsePreferencesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                     "not a JSON object",
		`[]`:                                   "not a JSON object",
		`{"clusters": {}} {}`:                  "not a JSON object",
		`{"rebalance": 1}`:                     "rebalance: Invalid value: \"1\": must be true or false",
		`{"clusters": []}`:                     "clusters: Invalid value: \"[]\": must be an object",
		`{"Clusters": {}, "clusters": {}}`:     "clusters: Duplicate value",
		`{"clusters": {"a": {}, "a": {}}}`:     `duplicate field "clusters.a"`,
		`{"weights": {}}`:                      `weights: Unsupported value: "weights": supported values: "rebalance", "clusters"`,
		`{"clusters": {"a": 1}}`:               "clusters[a]: not a JSON object",
		`{"clusters": {"a": {"wieght": 1}}}`:   `clusters[a]: wieght: Unsupported value`,
		`{"clusters": {"a": {"weight": -1}}}`:  "clusters[a].weight: Invalid value: -1: must be between 0 and 1000000000",
		`{"clusters": {"a": {"weight": 1.5}}}`: `clusters[a].weight: Invalid value: "1.5": must be a whole number`,
		`{"clusters": {"a": {"weight": "1"}}}`: "must be a whole number",
		`{"clusters": {"a": {"maxReplicas": 2147483648}}}`: "clusters[a].maxReplicas: Invalid value: 2147483648: " +
			"must be between 0 and 2147483647",
		`{"clusters": {"a": {"maxReplicas": 9223372036854775808}}}`: "must be a whole number",
		`{"clusters": {"a": {"minReplicas": 2, "maxReplicas": 1}}}`: "clusters[a].minReplicas: Invalid value: 2: must not " +
			"be greater than maxReplicas",
		`{"clusters": {"a": {"minReplicas": 1, "MinReplicas": 1}}}`:    "Duplicate value",
		`{"clusters": {"b": {"weight": -1}, "a": {"maxReplicas":-1}}}`: "clusters[a].maxReplicas",
	} {
		got, err := ParsePreferences(text)
		if err == nil || !strings.Contains(err.Error(), want) || !reflect.DeepEqual(got, v1alpha1.FederatedPreferences{}) {
			t.Errorf("%s: %+v, %v; want %q", text, got, err, want)
		}
	}
}

// Both annotations are read, that of the local kind first, and not if the spec has preferences.
func TestAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		kind        v1alpha1.LocalKind
		spec        *v1alpha1.FederatedPreferences
		want        string
	}{
		"for ReplicaSets": {map[string]string{AnnotationReplicaSetPreferences: `{"clusters": {"a": {"weight": 1}}}`}, "", nil, "50 - -"},
		"for Deployments": {map[string]string{AnnotationDeploymentPreferences: `{"clusters": {"b": {"weight": 1}}}`}, v1alpha1.LocalDeployment,
			nil, "- 50 -"},
		"of another kind": {map[string]string{AnnotationDeploymentPreferences: `{"clusters": {"b": {"weight": 1}}}`}, v1alpha1.LocalReplicaSet,
			nil, "- 50 -"},
		"of both kinds": {map[string]string{AnnotationReplicaSetPreferences: `{"clusters": {"a": {"weight": 1}}}`,
			AnnotationDeploymentPreferences: `{"clusters": {"b": {"weight": 1}}}`}, v1alpha1.LocalDeployment, nil, "- 50 -"},
		"beside the spec": {map[string]string{AnnotationReplicaSetPreferences: `{`}, "", weighted(map[string]int32{"c": 1}), "- - 50"},
		"of nothing":      {nil, "", nil, "17 17 16"},
	} {
		w := abc(t, c.spec)
		w.in.Annotations, w.in.Spec.LocalKind = c.annotations, c.kind
		w.converge()
		w.want(c.want, name)
		if name == "beside the spec" {
			if _, _, message := w.condition(v1alpha1.ConditionPreferencesClear); !strings.Contains(message,
				"is ignored because spec.preferences is set") {
				t.Error(message)
			}
		}
	}
}

// A wrong annotation changes nothing, and says what to do.
func TestWrongAnnotation(t *testing.T) {
	w := even(t)
	w.in.Spec.Preferences = nil
	w.in.Annotations = map[string]string{AnnotationReplicaSetPreferences: `{"clusters": {"a": {"weight": -1}}}`}
	w.in.Generation++
	w.quiet("wrong")
	_, reason, message := w.condition(v1alpha1.ConditionSettled)
	if want := "metadata.annotations[" + AnnotationReplicaSetPreferences +
		"]: clusters[a].weight: Invalid value: -1"; reason != ReasonInvalidSpec || !strings.HasPrefix(message, want) ||
		!strings.HasSuffix(message, "or remove it and set spec.preferences") {
		t.Errorf("%s: %s", reason, message)
	}
	n := 0
	for _, e := range w.events {
		if e.Reason == ReasonInvalidSpec {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

// Whatever is accepted is valid for the schema too, and the same when it is written and read again.
func FuzzParsePreferences(f *testing.F) {
	for _, seed := range []string{
		`{"rebalance": true, "clusters": {"a": {"minReplicas": 2, "maxReplicas": 20}, "*": {"weight": 1}}}`,
		`{"Clusters": {"": {"Weight": 1000000000}}}`, `{"clusters": null}`, `{"clusters": {"a": null}}`, `{"clusters": {"a": {"weight": 1e3}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePreferences(text)
		if err != nil {
			return
		}
		spec := specOf(1, &p)
		if errs := Validate(&spec); len(errs) > 0 {
			t.Errorf("%s is accepted, but invalid: %v", text, errs)
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParsePreferences(string(written))
		if err != nil || !equalJSON(t, p, again) {
			t.Errorf("%s becomes %s: %v", text, written, err)
		}
	})
}
