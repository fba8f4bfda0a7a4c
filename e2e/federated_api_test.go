package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A FederatedReplicaSet that is valid; the cases below change some fields of it.
const validFederated = `
apiVersion: evenkeel.dev/v1alpha1
kind: FederatedReplicaSet
metadata: {namespace: default, name: web}
spec:
  replicas: 50
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec: {containers: [{name: web, image: registry.example.com/web}]}
  preferences:
    rebalance: true
    clusters:
      eu-1: {minReplicas: 1, maxReplicas: 1, weight: 2}
      us: {selector: {matchLabels: {region: us}}, weight: 1, tier: 1, clusters: {us-1: {weight: 2}, "*": {weight: 1}}}
      "*": {weight: 1}
`

// changedFederated is the valid one with a JSON merge patch applied, which is written as YAML.
func changedFederated(t *testing.T, patch string) *unstructured.Unstructured {
	t.Helper()
	var object, change map[string]any
	for text, into := range map[string]*map[string]any{validFederated: &object, patch: &change} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	merge(object, change)
	return &unstructured.Unstructured{Object: object}
}

// clusters replaces the entries of the valid FederatedReplicaSet.
func clusters(entries string) string {
	return `spec: {preferences: {clusters: {eu-1: null, us: null, "*": null, ` + entries + `}}}`
}

func acceptedFederated(ctx context.Context, t *testing.T, c client.Client) {
	for name, patch := range map[string]string{
		"as it is":               `{}`,
		"no replicas":            `spec: {replicas: null}`,
		"zero replicas":          `spec: {replicas: 0}`,
		"most replicas":          `spec: {replicas: 2147483647}`,
		"no preferences":         `spec: {preferences: null}`,
		"only rebalance":         `spec: {preferences: {clusters: null}}`,
		"weight of a million":    clusters(`a: {weight: 1000000}, b: {weight: 1}`),
		"an entry of nothing":    clusters(`a: {}`),
		"a name with dots":       clusters(`eu.example.com: {weight: 1}`),
		"a Deployment":           `spec: {localKind: Deployment, rollout: OneByOne}`,
		"limits":                 `spec: {maxMovesPerMinute: 1, fallback: {normalTime: 30s, startupTimeout: 2m, stabilizationTime: 10m, probe: 1}}`,
		"cascade":                `spec: {cascade: Delete}`,
		"rounding":               `spec: {rounding: Webster}`,
		"fields of the future":   `spec: {template: {spec: {afterTomorrow: {x: 1}}}}`,
		"expressions that match": `spec: {selector: {matchExpressions: [{key: tier, operator: In, values: [back, front]}, {key: app, operator: Exists}, {key: old, operator: DoesNotExist}, {key: tier, operator: NotIn, values: [x]}]}}`,
	} {
		o := changedFederated(t, patch)
		if err := c.Create(ctx, o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func refusedFederated(ctx context.Context, t *testing.T, c client.Client) {
	for _, r := range []struct{ name, patch, field, message string }{
		{"no spec", `spec: null`, "spec", "Required"},
		{"negative replicas", `spec: {replicas: -1}`, "spec.replicas", "greater than or equal to 0"},
		{"too many replicas", `spec: {replicas: 2147483648}`, ".spec.replicas", "less than or equal to 2147483647"},
		{"no selector", `spec: {selector: null}`, "spec.selector", "Required"},
		{"empty selector", `spec: {selector: {matchLabels: {app: null}}}`, "spec.selector", "must not be empty"},
		{"no template", `spec: {template: null}`, "spec.template", "Required"},
		{"no pod", `spec: {template: {spec: null}}`, "spec.template.spec", "Required"},
		{"pod that is a text", `spec: {template: {spec: web}}`, "spec.template.spec", "must be of type object"},
		{"other label", `spec: {template: {metadata: {labels: {app: api}}}}`, "spec.template.metadata.labels",
			"must be labels that spec.selector matches"},
		{"no label", `spec: {template: {metadata: {labels: {app: null}}}}`, "spec.template.metadata.labels",
			"must be labels that spec.selector matches"},
		{"no metadata", `spec: {template: {metadata: null}}`, "spec.template.metadata.labels", "must be labels that spec.selector matches"},
		{"label of no value in a set", `spec: {selector: {matchExpressions: [{key: tier, operator: In, values: [back]}]}}`,
			"spec.template.metadata.labels", "must be labels that spec.selector matches"},
		{"label that must not be", `spec: {selector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}`, "spec.template.metadata.labels",
			"must be labels that spec.selector matches"},
		{"unknown kind", `spec: {localKind: StatefulSet}`, "spec.localKind", `supported values: "ReplicaSet", "Deployment"`},
		{"rollout of a ReplicaSet", `spec: {rollout: OneByOne}`, "spec.rollout", "a ReplicaSet rolls nothing out"},
		{"unknown rollout", `spec: {localKind: Deployment, rollout: Canary}`, "spec.rollout", "supported values"},
		{"unknown cascade", `spec: {cascade: Foreground}`, "spec.cascade", "supported values"},
		{"unknown rounding", `spec: {rounding: Up}`, "spec.rounding", "supported values"},
		{"no moves", `spec: {maxMovesPerMinute: 0}`, "spec.maxMovesPerMinute", "greater than or equal to 1"},

		{"no entries", `spec: {preferences: {clusters: {eu-1: null, us: null, "*": null}}}`, "spec.preferences.clusters",
			"at least 1 properties"},
		{"min above max", clusters(`a: {minReplicas: 2, maxReplicas: 1}`), "spec.preferences.clusters[a].minReplicas",
			"must not be greater than maxReplicas"},
		{"negative min", clusters(`a: {minReplicas: -1}`), "spec.preferences.clusters.a.minReplicas", "greater than or equal to 0"},
		{"negative max", clusters(`a: {maxReplicas: -1}`), "spec.preferences.clusters.a.maxReplicas", "greater than or equal to 0"},
		{"negative weight", clusters(`a: {weight: -1}`), "spec.preferences.clusters.a.weight", "greater than or equal to 0"},
		{"enormous weight", clusters(`a: {weight: 1000000001}`), "spec.preferences.clusters.a.weight", "less than or equal to 1000000000"},
		{"half a weight", clusters(`a: {weight: 0.5}`), "spec.preferences.clusters.a.weight", "must be of type int32"},
		{"negative tier", clusters(`a: {weight: 1, tier: -1}`), "spec.preferences.clusters.a.tier", "greater than or equal to 0"},
		{"capitals in a name", clusters(`EU: {weight: 1}`), "spec.preferences.clusters", "every key must be the name of a cluster"},
		{"pattern as a name", clusters(`"eu-*": {weight: 1}`), "spec.preferences.clusters", "every key must be the name of a cluster"},
		{"selector of all others", `spec: {preferences: {clusters: {"*": {selector: {matchLabels: {a: b}}}}}}`, "spec.preferences.clusters",
			"cannot have a selector"},
		{"empty selector of clusters", clusters(`a: {weight: 1, selector: {}}`), "spec.preferences.clusters[a].selector", "must not be empty"},
		{"clusters without selector", clusters(`a: {weight: 1, clusters: {b: {weight: 1}}}`), "spec.preferences.clusters[a].clusters",
			"are for entries with a selector only"},
		{"min above max within", clusters(`a: {weight: 1, selector: {matchLabels: {a: b}}, clusters: {b: {minReplicas: 2, maxReplicas: 1}}}`),
			"spec.preferences.clusters[a].clusters[b].minReplicas", "must not be greater than maxReplicas"},

		{"normal time of nothing", `spec: {fallback: {normalTime: 0s}}`, "spec.fallback.normalTime", "must be 1s or more"},
		{"negative time", `spec: {fallback: {startupTimeout: -5m}}`, "spec.fallback.startupTimeout", "should match"},
		{"thresholds in the wrong order", `spec: {fallback: {normalTime: 3m, startupTimeout: 2m}}`, "spec.fallback.normalTime",
			"must not be longer than startupTimeout"},
		{"threshold below a default", `spec: {fallback: {startupTimeout: 30s}}`, "spec.fallback.normalTime",
			"must not be longer than startupTimeout"},
		{"no probe", `spec: {fallback: {probe: 0}}`, "spec.fallback.probe", "greater than or equal to 1"},
	} {
		err := c.Create(ctx, changedFederated(t, r.patch), client.DryRunAll)
		refusedAt(t, err, r.name, r.field, r.message)
	}
}

// refusedAt expects an object to be refused with a message at a field.
func refusedAt(t *testing.T, err error, name, field, message string) {
	t.Helper()
	names := func(c metav1.StatusCause) bool { return c.Field == field && strings.Contains(c.Message, message) }
	var status *apierrors.StatusError
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || !slices.ContainsFunc(status.ErrStatus.Details.Causes, names) {
		t.Errorf("%s: want %q at %s, got\n%v", name, message, field, err)
	}
}

// As many entries as there may be are within the API server's budget.
func largestFederated(ctx context.Context, t *testing.T, c client.Client) {
	f := changedFederated(t, `{}`)
	entries := map[string]any{}
	for i := range 100 {
		within := map[string]any{}
		for j := range 100 {
			within[fmt.Sprintf("c%d", j)] = map[string]any{"minReplicas": int64(1), "maxReplicas": int64(2), "weight": int64(1)}
		}
		entries[fmt.Sprintf("group-%d", i)] = map[string]any{
			"weight": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"region": fmt.Sprint(i)}}, "clusters": within,
		}
	}
	if err := unstructured.SetNestedMap(f.Object, entries, "spec", "preferences", "clusters"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := c.Create(ctx, f, client.DryRunAll); err != nil {
		t.Error(err)
	}
	t.Logf("accepted in %v", time.Since(start).Round(time.Millisecond))
}

// Defaults, what cannot be changed, the Scale subresource, and a pod with fields that the host does
// not know.
func federatedLife(ctx context.Context, t *testing.T, c client.Client) {
	created := changedFederated(t, `spec: {replicas: null, template: {spec: {afterTomorrow: {x: 1}}}}`)
	if err := c.Create(ctx, created); err != nil {
		t.Fatal(err)
	}
	f := &v1alpha1.FederatedReplicaSet{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(created), f); err != nil {
		t.Fatal(err)
	}
	s := f.Spec
	if s.Replicas == nil || *s.Replicas != 1 || s.LocalKind != v1alpha1.LocalReplicaSet || s.Cascade != v1alpha1.CascadeOrphan {
		t.Errorf("defaults: %+v", s)
	}
	if !strings.Contains(string(s.Template.Spec.Raw), `"afterTomorrow":{"x":1}`) {
		t.Errorf("the pod lost a field: %s", s.Template.Spec.Raw)
	}
	for field, patch := range map[string]string{
		"spec.selector":  `{"spec":{"selector":{"matchLabels":{"app":"web","tier":"front"}}}}`,
		"spec.localKind": `{"spec":{"localKind":"Deployment"}}`,
	} {
		err := c.Patch(ctx, f.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
		refusedAt(t, err, "changed "+field, field, "cannot be changed")
	}
	f.Status = v1alpha1.FederatedReplicaSetStatus{Replicas: 7, Selector: "app=web",
		Clusters: []v1alpha1.FederatedClusterStatus{{Name: "eu-1"}}}
	if err := c.Status().Update(ctx, f); err != nil {
		t.Fatal(err)
	}
	size := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 12}}
	if err := c.SubResource("scale").Update(ctx, f, client.WithSubResourceBody(size)); err != nil {
		t.Fatal(err)
	}
	if size.Spec.Replicas != 12 || size.Status.Replicas != 7 || size.Status.Selector != "app=web" {
		t.Errorf("scale: %+v", size)
	}
}
