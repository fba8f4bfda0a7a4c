package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// fleet is a cluster with some webhook servers, and a controller. Calls take some time,
// and what is watched comes late.
type fleet struct {
	*webhookHarness
	t        testing.TB
	replicas int32
	servers  []*webhookHarness
	counting *store.Store // of the controller
	calls    atomic.Int32 // to the API server
	writes   atomic.Int32 // of the status that succeeded

	mu     sync.Mutex
	random *rand.Rand
	there  []*v1.Pod // seen by all
	in     map[string]int
}

func newFleet(t testing.TB, seed uint64, servers int, spec string, replicas int32) *fleet {
	f := &fleet{t: t, replicas: replicas, random: rand.New(rand.NewPCG(seed, 0)), in: map[string]int{}}
	f.webhookHarness = newWebhookHarness(t, Options{}, append(deployment(replicas), webSpread(t, spec))...)
	slow := interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			f.nap(3 * time.Millisecond)
			defer f.nap(3 * time.Millisecond)
			f.calls.Add(1)
			return c.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			f.nap(3 * time.Millisecond)
			defer f.nap(3 * time.Millisecond)
			f.calls.Add(1)
			return c.List(ctx, list, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, kind string, object client.Object,
			opts ...client.SubResourceUpdateOption) error {
			f.nap(3 * time.Millisecond)
			defer f.nap(3 * time.Millisecond)
			f.calls.Add(1)
			err := c.SubResource(kind).Update(ctx, object, opts...)
			if err == nil {
				f.writes.Add(1)
			}
			return err
		},
	})
	for i := range servers {
		cached := &late{Reader: f.Client, now: func() bool { return f.upTo(2) == 0 }}
		f.servers = append(f.servers, &webhookHarness{t: t, Client: slow, requests: 10000 * i,
			Server: New(cached, slow, store.New(cached, slow, nil), Options{})})
	}
	f.counting = store.New(&late{Reader: f.Client, now: func() bool { return f.upTo(2) == 0 }}, slow, nil)
	return f
}

// late is a cache that has the newest WorkloadSpread now and then.
type late struct {
	client.Reader
	now func() bool

	mu   sync.Mutex
	last *v1alpha1.WorkloadSpread
}

func (l *late) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil || l.now() {
		l.last = &v1alpha1.WorkloadSpread{}
		if err := l.Reader.Get(ctx, key, l.last); err != nil {
			return err
		}
	}
	l.last.DeepCopyInto(object.(*v1alpha1.WorkloadSpread))
	return nil
}

func (l *late) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	o := v1alpha1.WorkloadSpread{}
	if err := l.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "web"}, &o); err != nil {
		return err
	}
	list.(*v1alpha1.WorkloadSpreadList).Items = []v1alpha1.WorkloadSpread{o}
	return nil
}

// upTo is a random number below n.
func (f *fleet) upTo(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

func (f *fleet) nap(most time.Duration) { time.Sleep(time.Duration(f.upTo(int(most)))) } //nolint:forbidigo // in the bubble's time

// create creates all pods as a ReplicaSet does: one, two, four at once, and so on.
func (f *fleet) create() {
	var seen sync.WaitGroup
	for n, batch := 0, 1; n < int(f.replicas); n, batch = n+batch, 2*batch {
		var done sync.WaitGroup
		for i := n; i < min(n+batch, int(f.replicas)); i++ {
			done.Go(func() { f.createOne(i, &seen) })
		}
		done.Wait()
	}
	seen.Wait()
}

// createOne creates a pod, which is seen later.
func (f *fleet) createOne(i int, seen *sync.WaitGroup) {
	f.nap(3 * time.Millisecond)
	pod, text := f.servers[f.upTo(len(f.servers))].create(podOfWeb)
	if pod == nil {
		f.t.Error(text)
		return
	}
	pod.Namespace, pod.Name, pod.UID = "shop", fmt.Sprint("web-1-", i), types.UID(fmt.Sprint("uid-", i))
	pod.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	f.mu.Lock()
	f.in[subsetOf(pod)]++
	f.mu.Unlock()
	seen.Go(func() { f.appear(pod) })
}

// appear has the pod created, and the controller see it later.
func (f *fleet) appear(pod *v1.Pod) {
	if err := f.Create(f.t.Context(), pod); err != nil {
		f.t.Error(err)
	}
	f.nap(20 * time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there = append(f.there, pod)
}

// count has the controller count the pods that all have seen: it waits for a moment after a change.
func (f *fleet) count() {
	_, err := f.counting.Update(f.t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"},
		func(o *v1alpha1.WorkloadSpread, _ *store.Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			w := workloadspread.Workload{Found: true, Replicas: f.replicas, Surge: 0, Revision: "1"}
			d := workloadspread.Decide(workloadspread.Input{Name: o.Name, Generation: o.Generation, Pods: f.there,
				State: workloadspread.State{Spec: &o.Spec, Status: &o.Status, Workload: w, Now: time.Now()}})
			return d.Status, d.Changed, nil
		})
	if err != nil {
		f.t.Error(err)
	}
}

// Pods of ten Deployments at once cost a webhook call each, no more calls to the API server than there are
// pods, and few writes of the status; no pod is refused. An API server sends all pods to one webhook server
// as long as that answers, and several API servers may send them to two.
func TestFiveHundredPodsOfTenDeploymentsAtOnce(t *testing.T) {
	for servers, most := range map[int]int{1: 60, 2: 95} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) { fiveHundredPods(t, servers, most) })
	}
}

func fiveHundredPods(t *testing.T, servers, most int) {
	synctest.Test(t, func(t *testing.T) {
		calls, writes := 0, 0
		var all sync.WaitGroup
		fleets := make([]*fleet, 10)
		for i := range fleets {
			fleets[i] = newFleet(t, uint64(i), servers, `subsets: [{name: spot, maxReplicas: 20}, {name: on-demand}]`, 50)
			all.Go(fleets[i].create)
		}
		all.Wait()
		for _, f := range fleets {
			f.count()
			f.count()
			calls, writes = calls+int(f.calls.Load()), writes+int(f.writes.Load())
			if f.in["spot"] != 20 || f.in["on-demand"] != 30 {
				t.Errorf("%v", f.in)
			}
		}
		if calls > 500 || writes > most {
			t.Errorf("%d calls, %d writes of the status", calls, writes)
		}
		t.Logf("%d calls, %d writes of the status", calls, writes)
	})
}
