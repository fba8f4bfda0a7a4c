package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A WorkloadSpread that is valid; the cases below change some fields of it.
const validSpread = `
apiVersion: evenkeel.dev/v1alpha1
kind: WorkloadSpread
metadata: {namespace: default, name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  subsets:
  - name: a
    maxReplicas: 8
    requiredNodeSelector: {matchExpressions: [{key: zone, operator: In, values: [a]}]}
    preferredNodeSelector: [{weight: 10, preference: {matchExpressions: [{key: disk, operator: Exists}]}}]
    tolerations: [{key: spot, operator: Exists}]
    patch: {metadata: {labels: {resource.cpu/arch: x86}}, spec: {containers: [{name: main, resources: {limits: {cpu: 500m}}}]}}
  - name: b
`

// changedSpread is the valid one with a JSON merge patch applied, which is written as YAML.
func changedSpread(t *testing.T, patch string) *unstructured.Unstructured {
	t.Helper()
	var object, change map[string]any
	for text, into := range map[string]*map[string]any{validSpread: &object, patch: &change} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	merge(object, change)
	return &unstructured.Unstructured{Object: object}
}

func acceptedSpreads(ctx context.Context, t *testing.T, c client.Client) {
	for name, patch := range map[string]string{
		"as it is":              `{}`,
		"percentages":           `spec: {subsets: [{name: a, maxReplicas: 20%}, {name: b, maxReplicas: 20%}, {name: c, maxReplicas: 60%}]}`,
		"open last percentage":  `spec: {subsets: [{name: a, maxReplicas: 20%}, {name: b}]}`,
		"even":                  `spec: {distribution: Even, subsets: [{name: a}, {name: b, minReplicas: 2}, {name: c, maxReplicas: 9}]}`,
		"base, then weights":    `spec: {distribution: Weighted, subsets: [{name: a, base: 2, weight: 20}, {name: b, weight: 80}]}`,
		"longest critical of 2": `spec: {scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 295}}}`,
		"longest critical of 3": `spec: {subsets: [{name: a}, {name: b}, {name: c}], scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 147}}}`,
		"longest critical of 4": `spec: {subsets: [{name: a}, {name: b}, {name: c}, {name: d}], scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 98}}}`,
		"longer window":         `spec: {scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 595, unschedulableSeconds: 600, waitForAutoscaler: false, autoscalerTimeoutSeconds: 60, reschedule: Reserve, maxReschedulesPerMinute: 3}}}`,
		"a limited last subset": `spec: {subsets: [{name: a, maxReplicas: 1}, {name: b, maxReplicas: 2}], whenFull: Refuse}`,
		"a kind of its own":     `spec: {targetRef: {apiVersion: example.com/v1, kind: Fleet, name: f}, targetFilter: {replicasPathList: [spec.replicas, spec.pools.1.size], selector: {matchLabels: {app: web}}}}`,
		"a StatefulSet":         `spec: {targetRef: {kind: StatefulSet}}`,
		"a Job":                 `spec: {targetRef: {apiVersion: batch/v1, kind: Job}, creatingTimeoutSeconds: 60, deletingTimeoutSeconds: 30}`,
	} {
		if err := c.Create(ctx, changedSpread(t, patch), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func refusedSpreads(ctx context.Context, t *testing.T, c client.Client) {
	adaptive := func(fields string) string {
		return `spec: {scheduleStrategy: {type: Adaptive, adaptive: {` + fields + `}}}`
	}
	for _, r := range []struct{ name, patch, field, message string }{
		{"no name of the target", `spec: {targetRef: {name: ""}}`, "spec.targetRef.name", "at least 1 chars"},
		{"no kind of the target", `spec: {targetRef: {kind: null}}`, "spec.targetRef.kind", "Required"},
		{"no version of the target", `spec: {targetRef: {apiVersion: ""}}`, "spec.targetRef.apiVersion", "at least 1 chars"},
		{"other kind", `spec: {targetRef: {kind: DaemonSet}}`, "spec.targetRef.kind", "any other kind needs targetFilter.replicasPathList"},
		{"kind of another group", `spec: {targetRef: {apiVersion: example.com/v1}}`, "spec.targetRef.kind",
			"any other kind needs targetFilter.replicasPathList"},
		{"no path", `spec: {targetRef: {kind: DaemonSet}, targetFilter: {replicasPathList: []}}`, "spec.targetRef.kind",
			"any other kind needs targetFilter.replicasPathList"},
		{"empty name in a path", `spec: {targetFilter: {replicasPathList: [spec..replicas]}}`, "spec.targetFilter.replicasPathList[0]",
			"should match"},
		{"bad selector", `spec: {targetFilter: {selector: {matchLabels: {-: x}}}}`, "spec.targetFilter.selector.matchLabels",
			"is not a label key"},
		{"no subsets", `spec: {subsets: []}`, "spec.subsets", "at least 1 items"},
		{"too many subsets", `spec: {subsets: [` + strings.Repeat("{name: a},", 16) + `]}`, "spec.subsets", "at most 15 items"},
		{"no name", `spec: {subsets: [{name: ""}]}`, "spec.subsets[0].name", "should match"},
		{"name twice", `spec: {subsets: [{name: a}, {name: a}]}`, "spec.subsets[1]", "Duplicate"},
		{"negative maximum", `spec: {subsets: [{name: a, maxReplicas: -1}]}`, "spec.subsets[0].maxReplicas",
			"must be a number from 0 to 2147483647 or a whole percentage"},
		{"a maximum that cannot be read", `spec: {subsets: [{name: a, maxReplicas: 2147483648}]}`, "spec.subsets[0].maxReplicas",
			"must be a number from 0 to 2147483647 or a whole percentage"},
		{"half a percent", `spec: {subsets: [{name: a, maxReplicas: 0.5%}, {name: b}]}`, "spec.subsets[0].maxReplicas", "should match"},
		{"negative percentage", `spec: {subsets: [{name: a, maxReplicas: -1%}, {name: b}]}`, "spec.subsets[0].maxReplicas", "should match"},
		{"a number as text", `spec: {subsets: [{name: a, maxReplicas: "5"}, {name: b}]}`, "spec.subsets[0].maxReplicas", "should match"},
		{"no weight", `spec: {distribution: Weighted, subsets: [{name: a, weight: 0}, {name: b, weight: 0}]}`, "spec.subsets",
			"a subset must have a weight above 0"},
		{"negative weight", `spec: {distribution: Weighted, subsets: [{name: a, weight: -1}, {name: b}]}`, "spec.subsets[0].weight",
			"greater than or equal to 0"},
		{"min above max", `spec: {subsets: [{name: a, minReplicas: 2, maxReplicas: 1}]}`, "spec.subsets[0].minReplicas",
			"must not be greater than maxReplicas"},
		{"negative min", `spec: {subsets: [{name: a, minReplicas: -2}]}`, "spec.subsets[0].minReplicas", "greater than or equal to 0"},
		{"min of a percentage", `spec: {subsets: [{name: a, minReplicas: 2, maxReplicas: 100%}]}`, "spec.subsets[0].minReplicas",
			"cannot be combined"},
		{"base above max", `spec: {distribution: Weighted, subsets: [{name: a, base: 2, maxReplicas: 1}, {name: b}]}`, "spec.subsets[0].base",
			"must not be greater than maxReplicas"},
		{"base and min", `spec: {distribution: Weighted, subsets: [{name: a, base: 2, minReplicas: 1}, {name: b}]}`, "spec.subsets[0].base",
			"cannot be combined"},
		{"unknown distribution", `spec: {distribution: Random}`, "spec.distribution", "supported values"},
		{"unknown whenFull", `spec: {whenFull: Wait}`, "spec.whenFull", "supported values"},
		{"no creating time", `spec: {creatingTimeoutSeconds: 0}`, "spec.creatingTimeoutSeconds", "greater than or equal to 1"},
		{"no deleting time", `spec: {deletingTimeoutSeconds: 0}`, "spec.deletingTimeoutSeconds", "greater than or equal to 1"},
		{"patch that is a text", `spec: {subsets: [{name: a, patch: x}]}`, "spec.subsets[0].patch", "must be of type object"},
		{"unknown strategy", `spec: {scheduleStrategy: {type: Random}}`, "spec.scheduleStrategy.type", "supported values"},
		{"adaptive with Fixed", `spec: {scheduleStrategy: {type: Fixed, adaptive: {}}}`, "spec.scheduleStrategy.type", "must be Adaptive"},
		{"adaptive with no type", `spec: {scheduleStrategy: {adaptive: {}}}`, "spec.scheduleStrategy.type", "must be Adaptive"},
		{"last subset limited", `spec: {subsets: [{name: a}, {name: b, maxReplicas: 5}], scheduleStrategy: {type: Adaptive}}`,
			"spec.scheduleStrategy.adaptive", "needs a last subset without maxReplicas"},
		{"negative critical", adaptive(`rescheduleCriticalSeconds: -1`), "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds",
			"greater than or equal to 0"},
		{"too long critical of 2", adaptive(`rescheduleCriticalSeconds: 296`), "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds",
			"(unschedulableSeconds - 5) / (subsets - 1)"},
		{"too long critical of 3",
			`spec: {subsets: [{name: a}, {name: b}, {name: c}], scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 148}}}`,
			"spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds", "(unschedulableSeconds - 5) / (subsets - 1)"},
		{"too long for its window", adaptive(`rescheduleCriticalSeconds: 56, unschedulableSeconds: 60`),
			"spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds", "(unschedulableSeconds - 5) / (subsets - 1)"},
		{"no window", adaptive(`unschedulableSeconds: 0`), "spec.scheduleStrategy.adaptive.unschedulableSeconds", "greater than or equal to 5"},
		{"no patience", adaptive(`autoscalerTimeoutSeconds: 0`), "spec.scheduleStrategy.adaptive.autoscalerTimeoutSeconds",
			"greater than or equal to 1"},
		{"no rate", adaptive(`maxReschedulesPerMinute: 0`), "spec.scheduleStrategy.adaptive.maxReschedulesPerMinute",
			"greater than or equal to 1"},
		{"unknown way to move on", adaptive(`reschedule: Evict`), "spec.scheduleStrategy.adaptive.reschedule", "supported values"},
	} {
		err := c.Create(ctx, changedSpread(t, r.patch), client.DryRunAll)
		refusedAt(t, err, r.name, r.field, r.message)
	}
}

// Defaults, the largest object, what cannot be changed, and the status.
func spreadLife(ctx context.Context, t *testing.T, c client.Client) {
	created := changedSpread(t, `{}`)
	subsets := make([]any, 15)
	for i := range subsets {
		subsets[i] = map[string]any{"name": fmt.Sprintf("s%d", i), "maxReplicas": "6%",
			"patch": map[string]any{"spec": map[string]any{"afterTomorrow": int64(i)}}}
	}
	delete(subsets[14].(map[string]any), "maxReplicas")
	if err := unstructured.SetNestedSlice(created.Object, subsets, "spec", "subsets"); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, created); err != nil {
		t.Fatal(err)
	}
	s := &v1alpha1.WorkloadSpread{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(created), s); err != nil {
		t.Fatal(err)
	}
	if string(s.Spec.Subsets[1].Patch.Raw) != `{"spec":{"afterTomorrow":1}}` || s.Spec.Subsets[1].MaxReplicas.StrVal != "6%" {
		t.Errorf("subset: %+v", s.Spec.Subsets[1])
	}
	for name, patch := range map[string]string{"name": `"name":"api"`, "kind": `"kind":"ReplicaSet"`} {
		err := c.Patch(ctx, s.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"targetRef":{`+patch+`}}}`)))
		refusedAt(t, err, "changed "+name, "spec.targetRef", "cannot be changed")
	}
	if err := c.Patch(ctx, s, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"targetRef":{"apiVersion":"apps/v2"}}}`))); err != nil {
		t.Errorf("the version may change: %v", err)
	}
	s.Status = v1alpha1.WorkloadSpreadStatus{
		Filled:         "s0 1/1",
		SubsetStatuses: []v1alpha1.WorkloadSubsetStatus{{Name: "s0", Replicas: 1, MissingReplicas: -1}},
		VersionedSubsetStatuses: map[string][]v1alpha1.WorkloadSubsetCount{"5d9c": {{
			Name: "s0", CreatingPods: map[string]metav1.Time{"web-1": metav1.NewTime(time.Unix(1_700_000_000, 0))},
		}}},
	}
	if err := c.Status().Update(ctx, s); err != nil {
		t.Fatal(err)
	}
	if at := s.Status.VersionedSubsetStatuses["5d9c"][0].CreatingPods["web-1"]; at.Unix() != 1_700_000_000 {
		t.Errorf("status: %+v", s.Status)
	}
}
