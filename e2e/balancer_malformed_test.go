package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// If the definition has no schema, a Balancer that does not parse is named, and keeps no other from
// being balanced.
func TestMalformedBalancer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	w := newBalancerCluster(ctx, t)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	if err := w.Get(ctx, client.ObjectKey{Name: "balancers." + v1alpha1.Group}, definition); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	versions[0].(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
		"x-kubernetes-preserve-unknown-fields": true}}
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if err := w.Update(ctx, definition); err != nil {
		t.Fatal(err)
	}
	s := w.open(ctx, t, "malformed", zone{"a", 20}, zone{"b", 20})
	bad := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3), "targets": "a"}}}
	bad.SetAPIVersion(v1alpha1.APIVersion)
	bad.SetKind(v1alpha1.KindBalancer)
	bad.SetNamespace(s.namespace)
	bad.SetName("bad")
	until(ctx, t, "what does not parse is accepted", func() bool { return w.Create(ctx, bad.DeepCopy()) == nil })

	w.controller(t)
	s.balance(ctx, t, s.balancer(5, proportional(map[string]int32{"a": 1, "b": 1})))
	until(ctx, t, "the other is balanced", func() bool {
		b := untypedBalancer(s.name)
		if err := w.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, b); err != nil {
			t.Fatal(err)
		}
		n, _, _ := unstructured.NestedInt64(b.Object, "status", "running")
		return n == 5
	})
	until(ctx, t, "it is named", func() bool {
		var list eventsv1.EventList
		if err := w.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == "Malformed" && e.Regarding.Name == "bad" && strings.Contains(e.Note, "targets") {
				return true
			}
		}
		return false
	})
}

func untypedBalancer(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(v1alpha1.APIVersion)
	u.SetKind(v1alpha1.KindBalancer)
	u.SetName(name)
	return u
}
