package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// hostHarness is a host, in virtual time or not, whose members are reached over a network in memory.
type hostHarness struct {
	t       *testing.T
	host    client.Client
	net     *network
	members *Members
	events  *events.FakeRecorder
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	writes  atomic.Int32                           // of statuses
	stale   atomic.Pointer[v1alpha1.MemberCluster] // what the cache of the host still has; nil means what is stored
	inHost  *dynamicfake.FakeDynamicClient
	kinds   *kinds
	stop    func()
}

const hostUID = "uid-of-host"

func newHostHarness(t *testing.T, o Options, objects ...client.Object) *hostHarness {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	system := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: hostUID}}
	w := &hostHarness{t: t, net: newNetwork(), events: events.NewFakeRecorder(100)}
	w.host = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, system)...).
		WithStatusSubresource(&v1alpha1.MemberCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if m, ok := o.(*v1alpha1.MemberCluster); ok && w.stale.Load() != nil {
				w.stale.Load().DeepCopyInto(m)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		}, SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			w.writes.Add(1)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	w.inHost = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		profileResource: "ClusterProfileList",
	})
	w.kinds = &kinds{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	o.dial = w.net.dial
	w.run(o)
	return w
}

// run starts the controller; stop ends it.
func (w *hostHarness) run(o Options) {
	ctx, cancel := context.WithCancel(context.Background())
	w.members = New(o)
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := w.members.triggers.Attach(ctx, w.queue); err != nil {
		w.t.Fatal(err)
	}
	p := &profiles{kinds: w.kinds, client: w.inHost, members: w.members}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if err := p.Start(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	r := &reconciler{members: w.members, client: w.host, live: w.host, events: w.events, profiles: p}
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for request, shut := w.queue.Get(); !shut; request, shut = w.queue.Get() {
				result, err := r.Reconcile(ctx, request)
				if err != nil {
					w.t.Error(err)
				}
				if result.RequeueAfter > 0 {
					w.queue.AddAfter(request, result.RequeueAfter)
				}
				w.queue.Done(request)
			}
		})
	}
	w.stop = func() {
		w.queue.ShutDown()
		workers.Wait()
		for _, c := range w.clusters() {
			c.end()
		}
		cancel()
		<-watching
	}
}

// clusters are all clusters.
func (w *hostHarness) clusters() []*Cluster {
	w.members.mu.Lock()
	defer w.members.mu.Unlock()
	return slices.Collect(maps.Values(w.members.clusters))
}

// end stops everything, so that nothing of the bubble runs on.
func (w *hostHarness) end() {
	w.stop()
	for address := range w.net.pipes {
		w.net.down(address)
	}
	time.Sleep(time.Minute) //nolint:forbidigo // virtual: what is about to be tried again notices
}

// join adds a MemberCluster with a Secret.
func (w *hostHarness) join(name string, kubeconfig []byte) {
	w.t.Helper()
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "member-" + name},
		Data: map[string][]byte{"kubeconfig": kubeconfig}}
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.KubeconfigSecretRef.Name = secret.Name
	for _, o := range []client.Object{secret, m} {
		if err := w.host.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	w.poke(name)
}

// server starts a cluster and joins it.
func (w *hostHarness) server(name string) *server {
	w.t.Helper()
	s := newServer("uid-of-"+name, "token-of-"+name)
	w.net.up(at(name), s)
	w.join(name, w.kubeconfigOf(name, s.token))
	return s
}

// kubeconfigOf reaches a cluster in memory.
func (w *hostHarness) kubeconfigOf(name, token string) []byte {
	return kubeconfig(w.t, address(name), token)
}

// at is where a cluster is reached.
func at(name string) string { return name + ".example.com:443" }

func address(name string) string { return "https://" + at(name) }

// rotate replaces the kubeconfig of a cluster.
func (w *hostHarness) rotate(name string, kubeconfig []byte) {
	w.t.Helper()
	var secret v1.Secret
	if err := w.host.Get(w.t.Context(), client.ObjectKey{Namespace: DefaultNamespace, Name: "member-" + name}, &secret); err != nil {
		w.t.Fatal(err)
	}
	secret.Data["kubeconfig"] = kubeconfig
	if err := w.host.Update(w.t.Context(), &secret); err != nil {
		w.t.Fatal(err)
	}
	w.poke(name)
}

func (w *hostHarness) poke(name string) {
	w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
}

func (w *hostHarness) get(name string) *v1alpha1.MemberCluster {
	w.t.Helper()
	var m v1alpha1.MemberCluster
	if err := w.host.Get(w.t.Context(), client.ObjectKey{Name: name}, &m); err != nil {
		w.t.Fatal(err)
	}
	return &m
}

// says holds the conditions of a cluster against "Reachable=True/Ready CredentialsValid=True/Accepted".
func (w *hostHarness) says(name, want string) {
	w.t.Helper()
	m := w.get(name)
	got := ""
	for _, kind := range []string{v1alpha1.ConditionReachable, v1alpha1.ConditionCredentialsValid} {
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
			got += fmt.Sprintf("%s=%s/%s ", kind, c.Status, c.Reason)
		}
	}
	if got != want+" " {
		w.t.Errorf("%s at %s:\n got %s\nwant %s\n%+v", name, time.Now().Format(time.TimeOnly), got, want, m.Status)
	}
}

const (
	fine       = "Reachable=True/Ready CredentialsValid=True/Accepted"
	notAnswers = "Reachable=Unknown/NotAnswering CredentialsValid=True/Accepted"
	offline    = "Reachable=False/Offline CredentialsValid=True/Accepted"
	stabilizes = "Reachable=False/Stabilizing CredentialsValid=True/Accepted"
)

// after lets time pass, and waits until nothing is left to do.
func (w *hostHarness) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}
