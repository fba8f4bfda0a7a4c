package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// playControllers has the controllers do all that they can do: with targets of each kind, pods that move on and pods that are kept,
// a Deployment that stays level, members and what runs there, and metrics.
func playControllers(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, kubeconfig string) (step func()) {
	t.Helper()
	c := clientOf(t, plane)
	if err := c.Create(ctx, clusterProfileKind()); err != nil { // the controllers would notice it within a minute
		t.Fatal(err)
	}
	w := &balancerCluster{plane: plane, WithWatch: c, kubeconfig: kubeconfig}
	f := &fleetOfClusters{host: plane, client: c, controller: startsWhereItIsInstalled(ctx, t, plane, c, append(slices.Clone(soon), "--metrics-secure")...)}
	f.members = map[string]*controlplane.ControlPlane{"amsterdam": controlplane.StartBeside(t, plane, controlplane.Options{Bare: true}, "amsterdam")[0]}
	spread := &spreadCluster{balancerCluster: w}
	together(ctx, t, map[string]func(context.Context, *testing.T){
		"targets":            func(ctx context.Context, t *testing.T) { targetsOfAllKinds(ctx, t, w) },
		"a StatefulSet":      func(ctx context.Context, t *testing.T) { ordinals(ctx, t, spread) },
		"a Job":              func(ctx context.Context, t *testing.T) { indexedJob(ctx, t, spread) },
		"a patch":            func(ctx context.Context, t *testing.T) { patchIsTried(ctx, t, spread) },
		"pods that move on":  func(ctx context.Context, t *testing.T) { movesOnAndComesBack(ctx, t, spread) },
		"pods that are kept": func(ctx context.Context, t *testing.T) { keptForTheAutoscaler(ctx, t, spread) },
		"a level Deployment": func(ctx context.Context, t *testing.T) {
			l := newLeveled(ctx, t, w, "level")
			l.deploy(ctx, t, 9, "spread")
			l.runs(ctx, t, 9)
			for _, n := range []int32{4, 8, 3} {
				l.stands(ctx, t)
				l.scale(ctx, t, n)
			}
		},
		"members": func(ctx context.Context, t *testing.T) { memberAndReplicas(ctx, t, f) },
	})
	restoredCertificate(ctx, t, c)
	scrapedByAStranger(ctx, t, plane, f.controller.Address)
	return nil
}

// restoredCertificate damages the certificate of the webhooks, and waits for another one.
func restoredCertificate(ctx context.Context, t *testing.T, c client.Client) {
	t.Helper()
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: webhooksName}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	for key := range secret.Data {
		secret.Data[key] = []byte("damaged")
	}
	if err := c.Update(ctx, secret); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the certificate is made anew", func() bool {
		return c.Get(ctx, client.ObjectKeyFromObject(secret), secret) == nil &&
			!slices.ContainsFunc(slices.Collect(maps.Values(secret.Data)), func(data []byte) bool { return string(data) == "damaged" })
	})
}

// targetsOfAllKinds has a Balancer scale a Deployment, a StatefulSet and a ReplicaSet, and gives it back the number of replicas
// that somebody removes.
func targetsOfAllKinds(ctx context.Context, t *testing.T, w *balancerCluster) {
	t.Helper()
	s := w.open(ctx, t, "targets", zone{"deployment", 40})
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "statefulset"}}
	set.Spec.Replicas = ptr.To[int32](0)
	set.Spec.Selector, set.Spec.Template = s.template("statefulset")
	plain := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "replicaset"}}
	plain.Spec.Replicas = ptr.To[int32](0)
	plain.Spec.Selector, plain.Spec.Template = s.template("replicaset")
	for _, o := range []client.Object{set, plain} {
		s.addNode(ctx, t, zone{o.GetName(), 40})
		s.create(ctx, t, o)
	}
	b := s.balancer(6, proportional(map[string]int32{"deployment": 1, "statefulset": 1, "replicaset": 1}))
	for _, ref := range []v1alpha1.ScaleTargetReference{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name}, {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: plain.Name},
	} {
		b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{Name: ref.Name, ScaleTargetRef: ref})
	}
	s.balance(ctx, t, b)
	for _, n := range []int32{6, 9, 12} {
		s.ask(ctx, t, n)
		s.settles(ctx, t, fmt.Sprint(n), state{sizes: map[string]int32{"deployment": n / 3, "statefulset": n / 3, "replicaset": n / 3}})
	}
	s.change(ctx, t, func(spec *v1alpha1.BalancerSpec) { spec.Replicas = nil })
	until(ctx, t, "the number is there again", func() bool { return ptr.Deref(s.get(ctx, t).Spec.Replicas, 0) == 12 })
}

// patchIsTried has the patch of a subset tried on the pods of the workload.
func patchIsTried(ctx context.Context, t *testing.T, w *spreadCluster) {
	t.Helper()
	m := w.market(ctx, t, "patched", zone{"a", 10})
	o := m.bounded("Deployment", "a")
	o.Spec.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)}
	m.create(ctx, t, m.web(1))
	m.create(ctx, t, o)
	until(ctx, t, "the patch fits", func() bool {
		return m.Get(ctx, client.ObjectKeyFromObject(o), o) == nil && len(o.Status.SubsetStatuses) == 1 &&
			meta.IsStatusConditionTrue(o.Status.SubsetStatuses[0].Conditions, v1alpha1.ConditionPatchFits)
	})
}

// memberAndReplicas has a cluster join, another one as a ClusterProfile, and replicas run there.
func memberAndReplicas(ctx context.Context, t *testing.T, f *fleetOfClusters) {
	t.Helper()
	f.join(t, "amsterdam")
	f.becomes(ctx, t, "amsterdam", v1alpha1.ReasonReady, v1alpha1.ReasonAccepted)
	profile := clusterProfile("dublin", f.kubeconfig(ctx, t, "amsterdam").Clusters["amsterdam"])
	if err := f.client.Create(ctx, profile); err != nil {
		t.Fatal(err)
	}
	f.becomesAny(ctx, t, "dublin")
	profile.SetLabels(map[string]string{v1.LabelTopologyRegion: "uk"})
	if err := f.client.Update(ctx, profile); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the member has the label", func() bool {
		var m v1alpha1.MemberCluster
		return f.client.Get(ctx, client.ObjectKey{Name: "dublin"}, &m) == nil && m.Labels[v1.LabelTopologyRegion] == "uk"
	})
	member := f.members["amsterdam"].Client
	for _, c := range []client.Client{f.client, member} {
		if err := c.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "federated"}}); err != nil {
			t.Fatal(err)
		}
	}
	o := &v1alpha1.FederatedReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "federated", Name: "web"}}
	app := map[string]v1alpha1.LabelValue{"app": "web"}
	o.Spec.Replicas, o.Spec.Selector.MatchLabels, o.Spec.Template.Metadata.Labels = ptr.To[int32](3), app, app
	o.Spec.Template.Spec.Raw, o.Spec.Cascade = []byte(`{"containers": [{"name": "web", "image": "web:1"}]}`), v1alpha1.CascadeDelete
	if err := f.client.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	local := &appsv1.ReplicaSet{}
	until(ctx, t, "replicas are in the member", func() bool { return member.Get(ctx, client.ObjectKeyFromObject(o), local) == nil })
	for _, o := range []client.Object{o, profile} {
		if err := f.client.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, "both are gone", func() bool {
		return apierrors.IsNotFound(f.client.Get(ctx, client.ObjectKeyFromObject(o), o)) &&
			apierrors.IsNotFound(f.client.Get(ctx, client.ObjectKey{Name: "dublin"}, &v1alpha1.MemberCluster{}))
	})
}
