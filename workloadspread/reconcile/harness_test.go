package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// harness is a reconciler with all that it works on.
type harness struct {
	*reconciler
	t        testing.TB
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	registry *prometheus.Registry
	// server is the client without faults.
	server client.WithWatch
	// fault answers writes, counted from 1; nil answers none. If lost, the write is made nevertheless.
	fault func(write int, what string) (err error, lost bool)
	mu    sync.Mutex
	// writes are those that arrived.
	writes []string
	made   int
	// late are the pods that the cache has; nil if it is up to date.
	late *v1.PodList
}

// rollout is a kind that Kubernetes does not have.
var rollout = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rollout"}

// kinds are those that the server knows.
var kinds = sync.OnceValues(func() (*runtime.Scheme, meta.RESTMapper) {
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		panic(err) // no name is registered twice
	}
	s.AddKnownTypeWithName(rollout, &unstructured.Unstructured{})
	s.AddKnownTypeWithName(rollout.GroupVersion().WithKind("RolloutList"), &unstructured.UnstructuredList{})
	return s, testrestmapper.TestOnlyStaticRESTMapper(s)
})

func newHarness(t testing.TB, objects ...client.Object) *harness {
	t.Helper()
	b := &harness{t: t, clock: clocktesting.NewFakePassiveClock(noon), registry: prometheus.NewRegistry()}
	s, mapper := kinds()
	// Without managed fields, which nothing reads here, it is much faster.
	tracker := clienttesting.NewObjectTracker(s, serializer.NewCodecFactory(s).UniversalDecoder())
	b.server = fake.NewClientBuilder().WithScheme(s).WithRESTMapper(mapper).WithObjectTracker(tracker).WithObjects(objects...).WithStatusSubresource(&v1alpha1.WorkloadSpread{}).
		Build()
	b.start()
	return b
}

// start has another controller take over, which knows nothing but what is stored.
func (b *harness) start() {
	b.t.Helper()
	faulty := interceptor.NewClient(b.server, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			pods, ok := list.(*v1.PodList)
			if !ok || b.late == nil {
				return c.List(ctx, list, opts...)
			}
			o := (&client.ListOptions{}).ApplyOptions(opts)
			for i := range b.late.Items {
				if pod := &b.late.Items[i]; o.LabelSelector.Matches(labels.Set(pod.Labels)) {
					pods.Items = append(pods.Items, *pod)
				}
			}
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return b.write("mark "+o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return b.write("delete "+o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return b.write("create "+o.GetName(), func() error { return c.Create(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return b.write(sub, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	})
	watcher, err := scale.NewWatcher(&rest.Config{Host: "127.0.0.1:0"}, scale.WatcherOptions{}) // it does not run
	if err != nil {
		b.t.Fatal(err)
	}
	b.registry = prometheus.NewRegistry()
	m, err := NewMetrics(b.registry)
	if err != nil {
		b.t.Fatal(err)
	}
	b.recorder = events.NewFakeRecorder(10000)
	b.reconciler = &reconciler{
		client: faulty, live: b.server, store: store.New(b.server, faulty, nil), mapper: b.server.RESTMapper(), watcher: watcher,
		reader: &workloads.Reader{Spreads: faulty, Pods: faulty, Owners: owners.New(b.server, b.clock)},
		events: passes.Recorder{EventRecorder: b.recorder, Action: action}, metrics: m, clock: b.clock,
	}
}

// write makes a write, several at a time.
func (b *harness) write(what string, write func() error) error {
	err, made := b.answer(what)
	if err == nil {
		err = write()
		made = err == nil
	} else if made {
		made = write() == nil
	}
	if made {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.writes = append(b.writes, what)
	}
	return err
}

// answer is that of the fault, if there is one, and whether the write is made nevertheless.
func (b *harness) answer(what string) (error, bool) { //nolint:revive // as the faults do
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made++
	if b.fault == nil {
		return nil, false
	}
	return b.fault(b.made, what)
}

// written takes the writes since it was last asked, in alphabetical order.
func (b *harness) written() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.writes)
	out := strings.Join(b.writes, ", ")
	b.writes = nil
	return out
}

// told takes the events since it was last asked.
func (b *harness) told() string {
	var out []string
	for {
		select {
		case e := <-b.recorder.Events:
			out = append(out, e)
		default:
			return strings.Join(out, "\n")
		}
	}
}

var spreadKey = types.NamespacedName{Namespace: "shop", Name: "web"}

func (b *harness) pass() (time.Duration, error) {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: spreadKey})
	return result.RequeueAfter, err
}

func (b *harness) mustPass() time.Duration {
	b.t.Helper()
	again, err := b.pass()
	if err != nil {
		b.t.Fatal(err)
	}
	return again
}

func (b *harness) get() *v1alpha1.WorkloadSpread {
	b.t.Helper()
	s := &v1alpha1.WorkloadSpread{}
	if err := b.server.Get(b.t.Context(), spreadKey, s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *harness) pod(name string) *v1.Pod {
	b.t.Helper()
	pod := &v1.Pod{}
	if err := b.server.Get(b.t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		b.t.Fatal(err)
	}
	return pod
}

// costs are the deletion costs of the pods, in the order of their names.
func (b *harness) costs() string {
	b.t.Helper()
	var pods v1.PodList
	if err := b.server.List(b.t.Context(), &pods); err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for i := range pods.Items {
		out = append(out, pods.Items[i].Annotations[workloadspread.AnnotationCost])
	}
	return strings.Join(out, " ")
}

// spreadOver is a WorkloadSpread of Deployment web.
func spreadOver(subsets ...v1alpha1.WorkloadSubset) *v1alpha1.WorkloadSpread {
	return &v1alpha1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "spread", Generation: 1},
		Spec: v1alpha1.WorkloadSpreadSpec{
			TargetRef: v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Subsets: subsets,
		},
	}
}

// subset is one with a maximum, if it is not empty.
func subset(name, most string) v1alpha1.WorkloadSubset {
	s := v1alpha1.WorkloadSubset{Name: name}
	if most != "" {
		value := intstr.Parse(most)
		s.MaxReplicas = &value
	}
	return s
}

// deployed is a Deployment and its ReplicaSet.
func deployed(replicas int32) []client.Object {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	return []client.Object{
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "deployment"},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector},
		},
		replicaSet("r1", 1),
	}
}

func replicaSet(hash string, revision int) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-" + hash, UID: types.UID(hash), Labels: map[string]string{"app": "web", "pod-template-hash": hash},
			Annotations: map[string]string{revisionAnnotation: fmt.Sprint(revision)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment",
				Controller: new(true)}},
		},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "pod-template-hash": hash}},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "pod-template-hash": hash}},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web:1"}}},
			},
		},
	}
}

// replica is a pod of the ReplicaSet of a revision that runs; without a subset it has no assignment.
func replica(n int, hash, subset string) *v1.Pod {
	name := fmt.Sprintf("web-%s-%03d", hash, n)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(n) * time.Second)),
			Labels:            map[string]string{"app": "web", "pod-template-hash": hash},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-" + hash, UID: types.UID(hash),
				Controller: new(true)}},
		},
		Spec:   v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "main", Image: "web:1"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	if subset != "" {
		pod.Annotations = map[string]string{workloadspread.AnnotationSpread: workloadspread.Assignment{Name: "web", Subset: subset}.String()}
	}
	return pod
}

// waits is a pod that the scheduler has found no node for since a time.
func waits(pod *v1.Pod, since time.Time) *v1.Pod {
	pod.Spec.NodeName = ""
	pod.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(since)},
	}}
	return pod
}
