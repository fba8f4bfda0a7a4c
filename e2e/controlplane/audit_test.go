package controlplane_test

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// The audit log says what each user wrote, refused calls included, and a kubeconfig makes its
// bearer somebody else.
func TestWrites(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := controlplane.Start(t, controlplane.Options{Audit: true, Bare: true})
	as := func(user string, groups ...string) client.Client {
		t.Helper()
		config, err := clientcmd.BuildConfigFromFlags("", c.KubeconfigAs(t, user, groups...))
		if err != nil {
			t.Fatal(err)
		}
		cl, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	writer := as("writer", "system:masters")
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if err := writer.Create(ctx, n); err != nil {
		t.Fatal(err)
	}
	mark, err := c.Mark()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-time.Second)
	for _, name := range []string{"a", "b"} {
		if err := writer.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Status().Patch(ctx, n, client.RawPatch("application/merge-patch+json", []byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	if err := writer.List(ctx, &v1.ConfigMapList{}); err != nil {
		t.Fatal(err)
	}
	if err := as("nobody").Delete(ctx, n); err == nil {
		t.Error("nobody has deleted a namespace")
	}
	for user, want := range map[string][]controlplane.Write{
		"writer": {
			{Verb: "create", Resource: "configmaps", Namespace: "n", Name: "a", Code: 201},
			{Verb: "create", Resource: "configmaps", Namespace: "n", Name: "b", Code: 201},
			{Verb: "patch", Resource: "namespaces", Subresource: "status", Namespace: "n", Name: "n", Code: 200},
		},
		"nobody": {{Verb: "delete", Resource: "namespaces", Namespace: "n", Name: "n", Code: 403}},
		"none":   nil,
	} {
		got, err := c.Writes(user, mark)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i].At.Before(began) || got[i].At.After(time.Now()) {
				t.Errorf("%s wrote at %v", user, got[i].At)
			}
			got[i].At = time.Time{}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s wrote %+v, want %+v", user, got, want)
		}
	}
}
