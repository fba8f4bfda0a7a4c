package e2e

import (
	"context"
	"encoding/base64"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A ClusterProfile becomes a member without a command, with the token of a Secret, and leaves with the
// ClusterProfile. The kind is installed while the controller runs.
func profileJoins(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	token := f.token(ctx, t, "amsterdam")
	access := f.kubeconfig(ctx, t, "amsterdam").Clusters["amsterdam"]
	var m v1alpha1.MemberCluster
	if err := f.client.Get(ctx, client.ObjectKey{Name: "amsterdam"}, &m); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Delete(ctx, &m); err != nil { // its account stays, for the ClusterProfile
		t.Fatal(err)
	}
	for _, o := range []*unstructured.Unstructured{clusterProfileKind(), clusterProfile("dublin", access)} {
		until(ctx, t, o.GetKind()+" is there", func() bool { return client.IgnoreAlreadyExists(f.client.Create(ctx, o)) == nil })
	}
	if err := f.controller.Stop(); err != nil { // it would notice within a minute
		t.Fatal(err)
	}
	if err := f.controller.Start(); err != nil {
		t.Fatal(err)
	}
	f.becomesAny(ctx, t, "dublin")
	got := f.becomes(ctx, t, "dublin", v1alpha1.ReasonNoCredentials, v1alpha1.ReasonSecretNotFound)
	if got.Labels[v1.LabelTopologyRegion] != "ie" || got.Labels[v1alpha1.LabelClusterProfile] != "dublin" {
		t.Errorf("labels %v", got.Labels)
	}
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: "dublin"},
		Data: map[string][]byte{"token": []byte(token)}}
	if err := f.client.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	f.becomes(ctx, t, "dublin", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	for _, o := range []client.Object{clusterProfile("dublin", access), secret} {
		if err := f.client.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, "it has left", func() bool { return apierrors.IsNotFound(f.client.Get(ctx, client.ObjectKey{Name: "dublin"}, &m)) })
	f.join(t, "amsterdam")
	f.becomes(ctx, t, "amsterdam", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
}

// clusterProfileKind defines the kind as far as it matters.
func clusterProfileKind() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "clusterprofiles.multicluster.x-k8s.io",
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": map[string]any{
			"group": "multicluster.x-k8s.io", "scope": "Namespaced",
			"names": map[string]any{"kind": "ClusterProfile", "plural": "clusterprofiles"},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

func clusterProfile(name string, access *clientcmdapi.Cluster) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
		"metadata": map[string]any{"namespace": "evenkeel-system", "name": name, "labels": map[string]any{v1.LabelTopologyRegion: "ie"}},
		"spec":     map[string]any{"clusterManager": map[string]any{"name": "test"}},
		"status": map[string]any{"accessProviders": []any{
			map[string]any{"name": "runs-a-command", "cluster": map[string]any{"server": "https://127.0.0.1:1"}},
			map[string]any{"name": "secretreader", "cluster": map[string]any{
				"server": access.Server, "certificate-authority-data": base64.StdEncoding.EncodeToString(access.CertificateAuthorityData),
			}},
		}},
	}}
}
