package members

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// profile has access providers in a field of its status, with these names.
func profile(name, field string, providers ...string) *unstructured.Unstructured {
	var all []any
	for _, p := range providers {
		all = append(all, map[string]any{"name": p, "cluster": map[string]any{
			"server": address(name), "certificate-authority-data": base64.StdEncoding.EncodeToString(authority),
			"extensions": []any{map[string]any{"name": "client.authentication.k8s.io/exec", "extension": map[string]any{"clusterName": "s3cr3t"}}},
		}})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": profileKind.Group + "/v1alpha1", "kind": "ClusterProfile",
		"metadata": map[string]any{"namespace": DefaultNamespace, "name": name, "labels": map[string]any{v1.LabelTopologyRegion: "eu"}},
		"status":   map[string]any{field: all},
	}}
}

var profileResource = profileKind.WithVersion("v1alpha1").GroupVersion().WithResource("clusterprofiles")

// kinds are the kinds that the host has.
type kinds struct {
	*meta.DefaultRESTMapper
	mu sync.Mutex
}

func (k *kinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.DefaultRESTMapper.RESTMapping(kind, append(versions, "v1alpha1")...)
}

// install gives the host the kind.
func (w *hostHarness) install() {
	w.kinds.mu.Lock()
	defer w.kinds.mu.Unlock()
	w.kinds.Add(profileKind.WithVersion("v1alpha1"), meta.RESTScopeNamespace)
}

func (w *hostHarness) addProfile(p *unstructured.Unstructured) {
	w.t.Helper()
	if _, err := w.inHost.Resource(profileResource).Namespace(DefaultNamespace).Create(w.t.Context(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// A ClusterProfile is a member from the moment that the host has the kind until it is deleted.
func TestClusterProfileIsAMember(t *testing.T) {
	for _, field := range []string{"accessProviders", "credentialProviders"} {
		t.Run(field, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *hostHarness) {
				s := newServer("uid-of-p", "token-of-p")
				w.net.up(at("p"), s)
				w.addProfile(profile("p", field, "other", secretReader))
				w.after(time.Second)
				if len(w.clusters()) != 0 {
					t.Error("the host does not have the kind yet")
				}
				w.install()
				w.after(2 * time.Minute)
				w.poke("p") // the MemberCluster that was made
				w.after(time.Second)
				w.says("p", "Reachable=Unknown/NoCredentials CredentialsValid=False/SecretNotFound")
				token := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "p"},
					Data: map[string][]byte{"token": []byte("token-of-p")}}
				if err := w.host.Create(t.Context(), token); err != nil {
					t.Fatal(err)
				}
				w.poke("p")
				w.after(time.Second)
				w.says("p", fine)
				if m := w.get("p"); m.Labels[v1.LabelTopologyRegion] != "eu" || m.Labels[v1alpha1.LabelClusterProfile] != "p" {
					t.Errorf("labels %v", m.Labels)
				}
				if err := w.inHost.Resource(profileResource).Namespace(DefaultNamespace).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				w.after(time.Second)
				if err := w.host.Get(t.Context(), client.ObjectKey{Name: "p"}, &v1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
					t.Errorf("it is still a member: %v", err)
				}
			})
		})
	}
}

// Only the access provider that runs no command is used.
func TestClusterProfileThatRunsACommand(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		w.addProfile(profile("p", "accessProviders", "google", "eks"))
		w.install()
		w.after(2 * time.Minute)
		w.poke("p")
		w.after(time.Second)
		w.says("p", "Reachable=Unknown/NoCredentials CredentialsValid=False/ProfileUnusable")
		if text := fmt.Sprintf("%+v", w.get("p").Status); !strings.Contains(text, "never used") || strings.Contains(text, "s3cr3t") {
			t.Error(text)
		}
	})
}

// A MemberCluster that somebody has made keeps its name, whatever ClusterProfiles there are.
func TestClusterProfileDoesNotReplaceAMemberCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, w *hostHarness) {
		w.server("a")
		w.addProfile(profile("a", "accessProviders", secretReader))
		w.install()
		w.after(2 * time.Minute)
		w.says("a", fine)
		if m := w.get("a"); m.Spec.ClusterProfileRef != nil || m.Labels[v1.LabelTopologyRegion] != "" {
			t.Errorf("%+v", m)
		}
		if err := w.inHost.Resource(profileResource).Namespace(DefaultNamespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		w.says("a", fine)
	})
}

// Whatever its fields hold, a ClusterProfile ends in a condition, not in a crash.
func TestMalformedClusterProfile(t *testing.T) {
	for name, status := range map[string]any{
		"nothing": nil, "a text": "x", "no list": map[string]any{"accessProviders": "x"},
		"a list of texts": map[string]any{"accessProviders": []any{"x", nil}},
		"no cluster":      map[string]any{"accessProviders": []any{map[string]any{"name": secretReader}}},
		"wrong fields": map[string]any{"accessProviders": []any{map[string]any{"name": secretReader,
			"cluster": map[string]any{"server": true, "certificate-authority-data": "%"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := profile("p", "accessProviders")
			p.Object["status"] = status
			if got := accessOf(p); got != nil && name != "wrong fields" {
				t.Errorf("%+v", got)
			}
		})
	}
}
