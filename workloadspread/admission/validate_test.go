package admission

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// validate asks about a WorkloadSpread, of which there was an old one if that is not nil.
func (w *webhookHarness) validate(object, old *v1alpha1.WorkloadSpread) (int, string, *admissionv1.AdmissionResponse) {
	w.t.Helper()
	r := admissionv1.AdmissionRequest{Operation: admissionv1.Create,
		UserInfo: authenticationv1.UserInfo{Username: "jane", Groups: []string{"dev"}}}
	for o, into := range map[*v1alpha1.WorkloadSpread]*runtime.RawExtension{object: &r.Object, old: &r.OldObject} {
		if o == nil {
			continue
		}
		raw, err := json.Marshal(o)
		if err != nil {
			w.t.Fatal(err)
		}
		into.Raw = raw
	}
	if old != nil {
		r.Operation = admissionv1.Update
	}
	return w.call(PathValidateSpreads, r)
}

func TestSpecsAreRefusedByField(t *testing.T) {
	of := func(target, subsets string) string {
		return `{targetRef: {apiVersion: apps/v1, kind: ` + target + `}, subsets: ` + subsets + `}`
	}
	const web, api = "Deployment, name: web", "Deployment, name: api"
	for name, test := range map[string]struct {
		spec, field, message string
	}{
		"valid":             {spec: twoSubsets},
		"an unknown target": {spec: of(api, `[{name: a, patch: {spec: {containers: [{name: x, command: [serve]}]}}}]`)},
		"a target of another one": {spec: of("ReplicaSet, name: web-1", `[{name: a}]`), field: "spec.targetRef",
			message: "the WorkloadSpread first spreads"},
		"a rule of the schema": {spec: of(api, `[{name: a, minReplicas: 2, maxReplicas: 1}]`), field: "spec.subsets[0].minReplicas",
			message: "maxReplicas"},
		"a bad operator": {spec: of(api, `[{name: a, requiredNodeSelector: {matchExpressions: [{key: x, operator: Near}]}}]`),
			field: "spec.subsets[0].requiredNodeSelector.matchExpressions[0].operator", message: "Near"},
		"a patch that breaks the pod": {spec: of(web, `[{name: a, patch: {spec: {containers: [{name: new}]}}}]`),
			field: "spec.subsets[0].patch", message: "needs an image"},
		"a patch of what identifies it": {spec: of(web, `[{name: a, patch: {metadata: {name: x}}}]`), field: "spec.subsets[0].patch",
			message: "metadata.name"},
		"a patch of the selector's label": {spec: of(web, `[{name: a, patch: {metadata: {labels: {app: x}}}}]`), field: "spec.subsets[0].patch",
			message: "a patch adds labels only"},
		"a version that is not served": {spec: strings.Replace(of(web, `[{name: a}]`), "apps/v1", "apps/v99", 1), field: "spec.targetRef",
			message: "is not served"},
		"a group that is not served": {spec: strings.Replace(of(web, `[{name: a}]`), "apps/v1", "v1", 1), field: "spec.targetRef",
			message: "is not served"},
		"a kind that is not served": {spec: `{targetRef: {apiVersion: example.com/v1, kind: Fleet, name: f}, targetFilter: {replicasPathList: [spec.replicas]}, subsets: [{name: a}]}`, field: "spec.targetRef", message: "is not served"},
	} {
		t.Run(name, func(t *testing.T) {
			first := spreadOf(t, "first", of("ReplicaSet, name: web-1", `[{name: a}]`))
			w := newWebhookHarness(t, Options{}, append(deployment(5), first)...)
			code, text, answer := w.validate(spreadOf(t, "new", test.spec), nil)
			if answer == nil {
				t.Fatalf("%d: %s", code, text)
			}
			if answer.Allowed != (test.field == "") {
				t.Fatalf("allowed %t: %s", answer.Allowed, text)
			}
			if test.field == "" {
				return
			}
			causes := answer.Result.Details.Causes
			if answer.Result.Reason != metav1.StatusReasonInvalid || len(causes) != 1 || causes[0].Field != test.field ||
				!strings.Contains(causes[0].Message, test.message) {
				t.Errorf("%+v", causes)
			}
		})
	}
}

func TestUpdatesOfSpecs(t *testing.T) {
	w := newWebhookHarness(t, Options{}, deployment(5)...)
	old := spreadOf(t, "web", twoSubsets)
	invalid := old.DeepCopy()
	invalid.Spec.Subsets[0].Name = "-"
	for name, test := range map[string]struct {
		change   func(*v1alpha1.WorkloadSpread)
		old      *v1alpha1.WorkloadSpread
		refusals string
	}{
		"another label of an invalid one": {func(o *v1alpha1.WorkloadSpread) { o.Labels = map[string]string{"a": "b"} }, invalid, ""},
		"the end of an invalid one": {func(o *v1alpha1.WorkloadSpread) {
			now := metav1.Now()
			o.DeletionTimestamp, o.Finalizers = &now,
				nil
		}, invalid, ""},
		"another spec of an invalid one": {func(o *v1alpha1.WorkloadSpread) { o.Spec.Subsets = o.Spec.Subsets[:1] }, invalid,
			"spec.subsets[0].name"},
		"a version that is not served": {func(o *v1alpha1.WorkloadSpread) { o.Spec.TargetRef.APIVersion = "apps/v2" }, old, "spec.targetRef"},
	} {
		t.Run(name, func(t *testing.T) {
			object := test.old.DeepCopy()
			test.change(object)
			code, text, answer := w.validate(object, test.old)
			if answer == nil {
				t.Fatalf("%d: %s", code, text)
			}
			if answer.Allowed != (test.refusals == "") || !strings.Contains(text, test.refusals) {
				t.Errorf("allowed %t: %s", answer.Allowed, text)
			}
		})
	}
}

// What cannot be found out is not refused, and not allowed either.
func TestValidationsThatFail(t *testing.T) {
	for kind, want := range map[string]string{"Deployment": "reading Deployment web: "} {
		w := newWebhookHarness(t, Options{}, deployment(5)...)
		w.failing[kind] = errors.New("no route to host")
		if code, text, _ := w.validate(spreadOf(t, "web", twoSubsets), nil); code != 500 || !strings.Contains(text, want+"no route to host") {
			t.Errorf("%d: %s", code, text)
		}
	}
}

// A deleted WorkloadSpread leaves nothing behind.
func TestForgetting(t *testing.T) {
	w, _ := created(t)
	o := w.spread("web")
	w.forget(client.ObjectKeyFromObject(o))
	if err := w.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if pod, text := w.create(podOfWeb); subsetOf(pod) != "not marked" {
		t.Errorf("%s: %s", subsetOf(pod), text)
	}
}
