package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/federation/members"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// host is a host with one cluster, which does not answer.
type host struct {
	*reconciler
	writes  int   // of objects and statuses
	refuses error // of statuses
}

func newHost(t *testing.T, change func(*v1alpha1.FederatedReplicaSet)) *host {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := web()
	f.Spec.Replicas = ptr.To[int32](4)
	f.Status.Clusters = []v1alpha1.FederatedClusterStatus{{Name: "a", Desired: 4, Written: 4, Pods: 4, Running: 4, Ready: 4, Reachable: true}}
	change(f)
	h := &host{}
	h.reconciler = &reconciler{
		client: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(f).
			WithObjects(f, &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).
			WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					h.writes++
					return c.Patch(ctx, o, p, opts...)
				},
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
					opts ...client.SubResourcePatchOption) error {
					if h.refuses != nil {
						return h.refuses
					}
					h.writes++
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				},
			}).Build(),
		events: passes.Recorder{EventRecorder: events.NewFakeRecorder(100), Action: action}, members: members.New(members.Options{}),
		clock:    clock.RealClock{},
		triggers: &passes.Triggers{}, begun: func() time.Time { return time.Time{} },
	}
	h.live = h.client
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := h.triggers.Attach(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	h.metrics, _ = NewMetrics(nil)
	return h
}

func (h *host) pass(t *testing.T) error {
	t.Helper()
	_, err := h.Reconcile(t.Context(), reconcile.Request{NamespacedName: shop})
	return err
}

func (h *host) get(t *testing.T) (f v1alpha1.FederatedReplicaSet, err error) {
	t.Helper()
	return f, h.client.Get(t.Context(), shop, &f)
}

func plain(*v1alpha1.FederatedReplicaSet) {}

func cascading(f *v1alpha1.FederatedReplicaSet) {
	f.Spec.Cascade = v1alpha1.CascadeDelete
	controllerutil.AddFinalizer(f, finalizer)
}

// The first pass stores the status; further ones write nothing.
func TestNothingIsWrittenWhenSettled(t *testing.T) {
	h := newHost(t, plain)
	for range 3 {
		if err := h.pass(t); err != nil {
			t.Fatal(err)
		}
		if h.writes != 1 {
			t.Fatalf("%d writes", h.writes)
		}
	}
	f, err := h.get(t)
	if s := f.Status; err != nil || len(s.Clusters) != 1 || s.Clusters[0].Written != 4 || s.Clusters[0].Reachable {
		t.Errorf("%+v, %v", s, err)
	}
}

// What a cluster refuses is stored by the next pass whose status can be stored.
func TestARefusalIsStored(t *testing.T) {
	h := newHost(t, plain)
	h.known.answered(shop, federation.Answer{Write: federation.Write{Cluster: "a", From: 3, To: 4}, Refused: "no such field"}, false, "")
	h.refuses = apierrors.NewConflict(schema.GroupResource{Resource: "federatedreplicasets"}, "web", nil)
	if err := h.pass(t); err != nil { // somebody else has changed the object: it is read again
		t.Fatal(err)
	}
	h.refuses = errors.New("the API server is away")
	if err := h.pass(t); !errors.Is(err, h.refuses) {
		t.Fatal(err)
	}
	h.refuses = nil
	if err := h.pass(t); err != nil {
		t.Fatal(err)
	}
	f, err := h.get(t)
	if err != nil {
		t.Fatal(err)
	}
	if c := f.Status.Clusters[0]; c.Written != 3 || c.Refused == nil || c.Refused.Message != "no such field" || c.Refused.Count != 1 {
		t.Errorf("%+v", c)
	}
}

// The finalizer follows spec.cascade.
func TestFinalizer(t *testing.T) {
	for _, cascade := range []v1alpha1.Cascade{v1alpha1.CascadeDelete, v1alpha1.CascadeOrphan} {
		h := newHost(t, func(f *v1alpha1.FederatedReplicaSet) {
			cascading(f)
			if f.Spec.Cascade = cascade; cascade == v1alpha1.CascadeDelete {
				f.Finalizers = nil
			}
		})
		if err := h.pass(t); err != nil {
			t.Fatal(err)
		}
		f, err := h.get(t)
		if has := controllerutil.ContainsFinalizer(&f, finalizer); err != nil || has != (cascade == v1alpha1.CascadeDelete) {
			t.Errorf("%s: has it: %t, %v", cascade, has, err)
		}
	}
}

// A deleted object with cascade stays while a cluster with replicas cannot be reached, and goes when
// that is no member any more.
func TestDeletedObjectWaitsForItsClusters(t *testing.T) {
	h := newHost(t, cascading)
	f, err := h.get(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.client.Delete(t.Context(), &f); err != nil {
		t.Fatal(err)
	}
	if err := h.pass(t); err != nil || h.writes != 0 {
		t.Fatalf("%d writes before it is known how it is deleted: %v", h.writes, err)
	}
	deleted, err := h.get(t)
	if err != nil {
		t.Fatal(err)
	}
	h.deletions.see(&f, &deleted)
	for range 2 {
		if err := h.pass(t); err != nil {
			t.Fatal(err)
		}
		f, err := h.get(t)
		if err != nil || h.writes != 1 {
			t.Fatalf("%d writes, %v", h.writes, err)
		}
		if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionSettled); c == nil || c.Reason != federation.ReasonDeleting ||
			!strings.Contains(c.Message, "a (it cannot be reached") {
			t.Errorf("%+v", c)
		}
	}
	if err := h.client.Delete(t.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second pass finds nothing
		if err := h.pass(t); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.get(t); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// Just after the start, the status of an object does not say that a cluster does not answer because
// it was not asked yet, unless the object has changed meanwhile.
func TestNothingIsStoredBeforeClustersWereAsked(t *testing.T) {
	h := newHost(t, func(f *v1alpha1.FederatedReplicaSet) { f.Generation, f.Status.ObservedGeneration = 1, 1 })
	start := time.Now()
	h.begun = func() time.Time { return start }
	if err := h.pass(t); err != nil || h.writes != 0 {
		t.Errorf("%d writes, %v", h.writes, err)
	}
	start = start.Add(-2 * patience)
	if err := h.pass(t); err != nil || h.writes != 1 {
		t.Errorf("%d writes after a while, %v", h.writes, err)
	}
	start = time.Now()
	h = newHost(t, func(f *v1alpha1.FederatedReplicaSet) { f.Generation = 2 })
	h.begun = func() time.Time { return start }
	if err := h.pass(t); err != nil || h.writes != 1 {
		t.Errorf("%d writes of a changed object, %v", h.writes, err)
	}
}
