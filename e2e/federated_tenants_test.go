package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// Writes into a cluster fail because of a dead webhook. The status, an event and the explanation name it, the
// share runs elsewhere, and returns when the webhook is gone.
func (w *federation) deadWebhook(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "dead-webhook", anyRoom, anyRoom, anyRoom)
	berlin := w.members["berlin"].Client
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "dead"}}
	hook.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "dead.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelMetadataName: s.namespace}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}},
	}}
	if err := berlin.Create(ctx, hook); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "the webhook is asked", func() bool {
		return apierrors.IsInternalError(berlin.Create(ctx, emptyDeployment(s.namespace, "try"), client.DryRunAll))
	})
	s.create(ctx, t, 30, startup, evenly)
	const names = `failed calling webhook "dead.example.com"`
	s.until(ctx, t, "the condition names the webhook", func() bool {
		c := meta.FindStatusCondition(s.get(ctx, t).Status.Conditions, v1alpha1.ConditionSettled)
		return c != nil && c.Reason == "Refused" && strings.Contains(c.Message, names)
	})
	s.until(ctx, t, "an event does", func() bool { return s.happened(ctx, t, "Refused", names) })
	s.until(ctx, t, "the explanation does", func() bool {
		f := s.get(ctx, t)
		f.APIVersion, f.Kind = v1alpha1.APIVersion, "FederatedReplicaSet"
		text, err := json.Marshal(f)
		file := filepath.Join(t.TempDir(), "web.json")
		if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		out, _, _ := evenkeel.Run(t, "explain", "frs/web", "-f", file)
		return strings.Contains(out, names)
	})
	began := time.Now()
	s.until(ctx, t, "its share runs elsewhere", func() bool { _, ready := s.sizes(ctx); return slices.Equal(ready, []int32{15, -1, 15}) })
	t.Logf("after %v, with a timeout of %v", time.Since(began).Round(time.Millisecond), startup)
	if err := berlin.Delete(ctx, hook); err != nil {
		t.Fatal(err)
	}
	s.edit(ctx, t, func(spec *v1alpha1.FederatedReplicaSetSpec) { spec.Fallback.Probe = ptr.To[int32](3) }) // it is tried at once
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.close(ctx, t)
}

// happened reports whether there was an event in the namespace.
func (s *stage) happened(ctx context.Context, t *testing.T, reason, says string) bool {
	t.Helper()
	var all eventsv1.EventList
	if err := s.client.List(ctx, &all, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all.Items, func(e eventsv1.Event) bool { return e.Reason == reason && strings.Contains(e.Note, says) })
}

// A Deployment of others is taken over, and changed by others later: nothing of theirs is left in its template. When the
// object is deleted, it is left behind.
func (w *federation) exactTemplate(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "exact", anyRoom, anyRoom, anyRoom)
	berlin := w.members["berlin"].Client
	d := emptyDeployment(s.namespace, "web")
	d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = map[string]string{"app": "web"}, map[string]string{"app": "web", "team": "other"}
	d.Spec.Template.Spec = v1.PodSpec{
		HostNetwork: true, Volumes: []v1.Volume{{Name: "v"}},
		Containers: []v1.Container{{Name: "foreign", Image: "foreign:1"},
			{Name: "web", Image: "web:0", Env: []v1.EnvVar{{Name: "A", Value: "b"}}}},
	}
	if err := berlin.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	s.create(ctx, t, 6, 0, evenly)
	exact := func() bool {
		d := s.local(ctx, "berlin")
		if d == nil {
			return false
		}
		pod := d.Spec.Template.Spec
		return len(pod.Containers) == 1 && pod.Containers[0].Image == "web:1" && len(pod.Containers[0].Env) == 0 && !pod.HostNetwork &&
			len(pod.Volumes) == 0 && d.Spec.Template.Labels["team"] == ""
	}
	s.until(ctx, t, "it is taken over", exact)
	s.settles(ctx, t, []int32{2, 2, 2}, nil)
	s.until(ctx, t, "an event says so", func() bool { return s.happened(ctx, t, "Overwritten", "another origin") })
	foreign := s.local(ctx, "berlin")
	before := foreign.DeepCopy()
	foreign.Spec.Template.Spec.HostNetwork = true
	foreign.Spec.Template.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "b"}}
	foreign.Spec.Template.Spec.Containers = append(foreign.Spec.Template.Spec.Containers, v1.Container{Name: "foreign", Image: "foreign:1"})
	if err := berlin.Patch(ctx, foreign, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "what others added is gone", exact)
	s.settles(ctx, t, []int32{2, 2, 2}, nil)
	if err := w.client.Delete(ctx, s.get(ctx, t)); err != nil { // with cascade: Delete
		t.Fatal(err)
	}
	until(ctx, t, "what was made for it is gone", func() bool { sizes, _ := s.sizes(ctx); return slices.Equal(sizes, []int32{-1, 2, -1}) })
	until(ctx, t, "an event says what is left behind", func() bool { return s.happened(ctx, t, "LeftBehind", "berlin") })
	until(ctx, t, "it has no marks", func() bool {
		d := s.local(ctx, "berlin")
		return d != nil && d.Labels[v1alpha1.LabelFederated] == "" && d.Annotations[v1alpha1.AnnotationFederatedUID] == ""
	})
}

// A tenant with the token of an account in the host runs what it may create, and touches nothing that others run.
func (w *federation) tenant(ctx context.Context, t *testing.T) {
	apply(ctx, t, w.host, "../controller/admission")
	s := w.open(ctx, t, "tenants", anyRoom, anyRoom, anyRoom)
	rights := []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.Group}, Resources: []string{"federatedreplicasets"}, Verbs: []string{"*"}}}
	its := w.account(ctx, t, s.namespace, "tenant", rights)
	set := func(name string) *v1alpha1.FederatedReplicaSet {
		f := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		labels := map[string]v1alpha1.LabelValue{"app": "shop"}
		f.Spec.Replicas, f.Spec.Cascade, f.Spec.Selector.MatchLabels, f.Spec.Template.Metadata.Labels = ptr.To[int32](3), v1alpha1.CascadeDelete,
			labels, labels
		f.Spec.Template.Spec.Raw = s.pods(t, "evil:1")
		return f
	}
	until(ctx, t, "who may not create workloads may not write the object", func() bool {
		err := its.Create(ctx, set("first"), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "must be allowed to create replicasets.apps")
	})
	rights[0] = rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"create"}}
	if err := w.client.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "more"},
		Rules: rights}); err != nil {
		t.Fatal(err)
	}
	bind(ctx, t, w.client, s.namespace, "more", "tenant")

	// The ReplicaSet of a Deployment of others, and one that nobody owns in a member that keeps all.
	berlin, cork := w.members["berlin"].Client, w.members["cork"].Client
	d := emptyDeployment(s.namespace, "shop")
	d.Spec.Replicas, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = ptr.To[int32](1), map[string]string{"app": "shop"},
		map[string]string{"app": "shop"}
	if err := berlin.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	var owned appsv1.ReplicaSet
	until(ctx, t, "its ReplicaSet is there", func() bool {
		var all appsv1.ReplicaSetList
		if err := berlin.List(ctx, &all, client.InNamespace(s.namespace)); err != nil || len(all.Items) != 1 {
			return false
		}
		owned = all.Items[0]
		return true
	})
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "cork"}}
	if err := w.client.Patch(ctx, m, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"takeover":"Never"}}`))); err != nil {
		t.Fatal(err)
	}
	alone := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: owned.Name}}
	alone.Spec.Replicas, alone.Spec.Selector, alone.Spec.Template = ptr.To[int32](0), d.Spec.Selector, d.Spec.Template
	if err := cork.Create(ctx, alone); err != nil {
		t.Fatal(err)
	}
	f := set(owned.Name)
	until(ctx, t, "the tenant may write it", func() bool { return its.Create(ctx, f) == nil })
	until(ctx, t, "the condition says what is left as it is", func() bool {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(f), f); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionSettled)
		return c != nil && strings.Contains(c.Message, "belongs to Deployment shop") && strings.Contains(c.Message, "takeover: Never")
	})
	if err := its.Delete(ctx, f); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "it is gone", func() bool { return apierrors.IsNotFound(w.client.Get(ctx, client.ObjectKeyFromObject(f), f)) })
	for name, was := range map[string]*appsv1.ReplicaSet{"berlin": &owned, "cork": alone} {
		var is appsv1.ReplicaSet
		if err := w.members[name].Client.Get(ctx, client.ObjectKeyFromObject(was), &is); err != nil || is.Generation != was.Generation ||
			is.UID != was.UID {
			t.Errorf("in %s it was touched: %v %+v", name, err, is)
		}
	}
}

// account makes an account in the host with rights in a namespace, and returns a client with its token.
func (w *federation) account(ctx context.Context, t *testing.T, namespace, name string, rules []rbacv1.PolicyRule) client.Client {
	t.Helper()
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, o := range []client.Object{account, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}} {
		if err := w.client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	bind(ctx, t, w.client, namespace, name, name)
	var token authenticationv1.TokenRequest
	if err := w.client.SubResource("token").Create(ctx, account, &token); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(w.host.Config)
	config.BearerToken = token.Status.Token
	its, err := client.New(config, client.Options{Scheme: w.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return its
}

// bind gives an account a role.
func bind(ctx context.Context, t *testing.T, c client.Client, namespace, role, account string) {
	t.Helper()
	if err := c.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}); err != nil {
		t.Fatal(err)
	}
}

// With --cascade=orphan the local objects stay, whatever the object says.
func (w *federation) orphanWins(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "orphan-wins", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 6, 0, evenly)
	s.settles(ctx, t, []int32{2, 2, 2}, nil)
	f := s.get(ctx, t)
	s.begin(ctx, t)
	if err := w.client.Delete(ctx, f, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "it is gone", func() bool { return apierrors.IsNotFound(w.client.Get(ctx, client.ObjectKeyFromObject(f), f)) })
	s.quiet(ctx, t)
	s.wrote(ctx, t, "deleted", 0, 0, 0)
	s.bounds(t, "deleted", 6, 6)
}
