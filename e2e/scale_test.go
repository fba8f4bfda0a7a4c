package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

// Objects with a Scale, each of which asks for 3 replicas.
const (
	scaledDeployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default}, spec: {replicas: 3,
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}}`
	scaledStatefulSet = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, namespace: default}, spec: {replicas: 3,
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}}`
	scaledRollout    = `{apiVersion: example.com/v1, kind: Rollout, metadata: {name: web, namespace: default}, spec: {replicas: 3}}`
	rolloutInstalled = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: rollouts.example.com},
  spec: {group: example.com, scope: Namespaced, names: {kind: Rollout, plural: rollouts}, versions: [{name: v1, served: true, storage: true,
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}},
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}}]}}`
	scaleReader = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: scale-reader},
  rules: [{apiGroups: ["*"], resources: ["*/scale"], verbs: [get]}, {apiGroups: [apps], resources: [deployments], verbs: [list, watch]}]}`
	scaleReaderBound = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: scale-reader},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scale-reader}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]}`
)

// Scales as a real API server serves them.
func TestScale(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{Bare: true}) // nobody else acts on what is created
	c, err := scale.New(plane.Config, scale.Options{RefreshInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	rollout := v1alpha1.ScaleTargetReference{APIVersion: "example.com/v1", Kind: "Rollout", Name: "web"}
	if _, err := c.Get(ctx, "default", rollout); scale.ReasonOf(err) != scale.ReasonUnknownKind {
		t.Errorf("before its kind is there: %v", err)
	}
	createAll(ctx, t, plane, scaledDeployment, scaledStatefulSet, rolloutInstalled)
	holdsSoon(ctx, t, "the new kind is served", func() bool {
		_, err := c.Get(ctx, "default", rollout)
		return scale.ReasonOf(err) == scale.ReasonNotFound
	})
	made := createAll(ctx, t, plane, scaledRollout)
	if got, err := c.Get(ctx, "default", rollout); scale.ReasonOf(err) != scale.ReasonEmptySelector || got.Replicas != 3 {
		t.Errorf("without a selector: %+v, %v", got, err)
	}
	if err := unstructured.SetNestedField(made.Object, "app=web", "status", "selector"); err != nil {
		t.Fatal(err)
	}
	if err := plane.Client.Status().Update(ctx, made); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []v1alpha1.ScaleTargetReference{{Kind: "Deployment", Name: "web"}, {Kind: "StatefulSet", Name: "web"}, rollout} {
		t.Run(ref.Kind, func(t *testing.T) { readAndWritten(ctx, t, plane, c, ref) })
	}
	t.Run("recreated", func(t *testing.T) { recreated(ctx, t, plane, c) })
	t.Run("watched", func(t *testing.T) { watchedScales(ctx, t, plane) })
}

func readAndWritten(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c *scale.Client,
	ref v1alpha1.ScaleTargetReference) {
	was, err := c.Get(ctx, "default", ref)
	if err != nil || was.Replicas != 3 || was.Selector.String() != "app=web" || was.UID == "" {
		t.Fatalf("read %+v, %v", was, err)
	}
	now, err := c.Update(ctx, was, 5)
	if err != nil || now.Replicas != 5 || now.ResourceVersion == was.ResourceVersion {
		t.Fatalf("written %+v, %v", now, err)
	}
	if _, err := c.Update(ctx, was, 1); scale.ReasonOf(err) != scale.ReasonConflict {
		t.Errorf("written over a change: %v", err)
	}
	if _, err := c.Update(ctx, now, -1); scale.ReasonOf(err) != scale.ReasonRefused {
		t.Errorf("less than nothing: %v", err)
	}
	same, err := c.Update(ctx, now, 5)
	if err != nil || same.ResourceVersion != now.ResourceVersion {
		t.Errorf("what is there, once more: %+v, %v", same, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(was.Resource.GroupVersion().WithKind(ref.Kind))
	if err := plane.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web"}, object); err != nil {
		t.Fatal(err)
	}
	if replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); replicas != 5 {
		t.Errorf("the object asks for %d replicas", replicas)
	}
}

// What was read of an object is not written to the next of its name.
func recreated(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c *scale.Client) {
	was, err := c.Get(ctx, "default", v1alpha1.ScaleTargetReference{Kind: "StatefulSet", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.Client.Delete(ctx, parse(t, scaledStatefulSet)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Update(ctx, was, 1); scale.ReasonOf(err) != scale.ReasonNotFound {
		t.Errorf("written to nothing: %v", err)
	}
	createAll(ctx, t, plane, scaledStatefulSet)
	if _, err := c.Update(ctx, was, 1); scale.ReasonOf(err) != scale.ReasonConflict {
		t.Errorf("written to another: %v", err)
	}
}

// A user who gets permission to watch receives changes from then on, even after a restart of the
// API server.
func watchedScales(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	config := rest.CopyConfig(plane.Config)
	config.Impersonate.UserName = "reader"
	told := make(chan scale.Target, 100)
	w, err := scale.NewWatcher(config, scale.WatcherOptions{Changed: func(target scale.Target) { told <- target }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- w.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	c, err := scale.New(config, scale.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref := v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: "web"}
	if _, err := c.Get(ctx, "default", ref); scale.ReasonOf(err) != scale.ReasonForbidden ||
		!strings.Contains(err.Error(), `"deployments/scale"`) {
		t.Errorf("without a right: %v", err)
	}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	if poll := w.Watch(deployments, "default"); poll != scale.PollInterval {
		t.Errorf("without a right: look every %v", poll)
	}
	createAll(ctx, t, plane, scaleReader, scaleReaderBound)
	holdsSoon(ctx, t, "the watch is granted", func() bool { return w.Watch(deployments, "default") == 0 })
	want := scale.Target{Resource: deployments, Namespace: "default", Name: "web"}
	expect := func(when string) {
		t.Helper()
		select {
		case target := <-told:
			if target != want {
				t.Errorf("%s: told of %+v", when, target)
			}
		case <-ctx.Done():
			t.Fatalf("%s: nothing is told", when)
		}
	}
	expect("at first")
	if err := plane.Restart(ctx, controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":7}}`))
	if err := plane.Client.Patch(ctx, parse(t, scaledDeployment), patch); err != nil {
		t.Fatal(err)
	}
	expect("after a restart of the API server")
	if got, err := c.Get(ctx, "default", ref); err != nil || got.Replicas != 7 {
		t.Errorf("read %+v, %v", got, err)
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// createAll creates objects and returns the last as it is then.
func createAll(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, texts ...string) *unstructured.Unstructured {
	t.Helper()
	var o *unstructured.Unstructured
	for _, text := range texts {
		o = parse(t, text)
		if err := plane.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func holdsSoon(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
