package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/schedule"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

const (
	spotThenOnDemand = `scheduleStrategy: {type: Adaptive}, subsets: [
  {name: spot, requiredNodeSelector: {matchExpressions: [{key: capacity, operator: In, values: [spot]}]}},
  {name: on-demand, requiredNodeSelector: {matchExpressions: [{key: capacity, operator: In, values: [on-demand]}]}}]`
)

// podOfOneCPU is a pod of web that asks for one CPU.
var podOfOneCPU = strings.Replace(podOfWeb, `"resources":{`, `"resources":{"requests":{"cpu":"1"},`, 1)

// fleet is a cluster with some webhook servers that simulate, and a controller. Calls take some time,
// and what is watched comes late.
type fleet struct {
	*world
	t        testing.TB
	replicas int32
	servers  []*watching
	counting *store.Store // of the controller
	writes   atomic.Int32 // of the status that succeeded

	mu     sync.Mutex
	random *rand.Rand
	there  []*v1.Pod // seen by all
	in     map[string]int
}

// watching is a webhook server with what it watches.
type watching struct {
	*world
	caches *informertest.FakeInformers
}

func newFleet(t testing.TB, seed uint64, servers, spot int, replicas int32) *fleet {
	f := &fleet{t: t, replicas: replicas, random: rand.New(rand.NewPCG(seed, 0)), in: map[string]int{}}
	f.world = newWorld(t, Options{}, append(deployment(replicas), webSpread(t, spotThenOnDemand))...)
	slow := interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			f.nap(3 * time.Millisecond)
			defer f.nap(3 * time.Millisecond)
			return c.Get(ctx, key, object, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, kind string, object client.Object, opts ...client.SubResourceUpdateOption) error {
			f.nap(3 * time.Millisecond)
			defer f.nap(3 * time.Millisecond)
			err := c.SubResource(kind).Update(ctx, object, opts...)
			if err == nil {
				f.writes.Add(1)
			}
			return err
		},
	})
	for i := range servers {
		s, err := schedule.New(t.Context(), schedule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &watching{caches: &informertest.FakeInformers{}}
		if err := s.Watch(t.Context(), w.caches); err != nil {
			t.Fatal(err)
		}
		w.see(t, nodeOf("spot", spot))
		w.see(t, nodeOf("on-demand", 1000))
		cached := &late{Reader: f.Client, now: func() bool { return f.upTo(2) == 0 }}
		w.world = &world{t: t, Client: slow, requests: 10000 * i, Server: New(cached, slow, store.New(cached, slow, store.Options{}), Options{Simulator: s})}
		f.servers = append(f.servers, w)
	}
	f.counting = store.New(&late{Reader: f.Client, now: func() bool { return f.upTo(2) == 0 }}, slow, store.Options{})
	return f
}

// see has the server see an object.
func (w *watching) see(t testing.TB, o client.Object) {
	informer, err := w.caches.FakeInformerFor(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	informer.Add(o)
}

func nodeOf(capacity string, cpu int) *v1.Node {
	amounts := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI), v1.ResourcePods: resource.MustParse("2000")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: capacity, Labels: map[string]string{"capacity": capacity, v1.LabelHostname: capacity}},
		Status:     v1.NodeStatus{Allocatable: amounts, Capacity: amounts, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
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
	pod, text := f.servers[f.upTo(len(f.servers))].create(podOfOneCPU)
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

// appear has everybody see a new pod, sooner or later, and see it on its node after that.
func (f *fleet) appear(pod *v1.Pod) {
	var all sync.WaitGroup
	for _, w := range f.servers {
		all.Go(func() {
			f.nap(20 * time.Millisecond)
			w.see(f.t, pod)
		})
	}
	all.Wait()
	f.mu.Lock()
	f.there = append(f.there, pod)
	f.mu.Unlock()
	bound := pod.DeepCopy()
	bound.Spec.NodeName = subsetOf(pod)
	for _, w := range f.servers {
		all.Go(func() {
			f.nap(20 * time.Millisecond)
			w.see(f.t, bound)
		})
	}
	all.Wait()
}

// count has the controller count the pods that all have seen: it waits for a moment after a change.
func (f *fleet) count() {
	_, err := f.counting.Update(f.t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, func(o *v1alpha1.WorkloadSpread) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		w := workloadspread.Workload{Found: true, Replicas: f.replicas, Surge: 0, Revision: "1"}
		d := workloadspread.Decide(workloadspread.Input{Name: o.Name, Generation: o.Generation, Pods: f.there, State: workloadspread.State{Spec: &o.Spec, Status: &o.Status, Workload: w, Now: time.Now()}})
		return d.Status, d.Changed, nil
	})
	if err != nil {
		f.t.Error(err)
	}
}

// run creates all pods while the controller counts.
func (f *fleet) run() {
	done := make(chan struct{})
	var counter sync.WaitGroup
	counter.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(f.upTo(int(30 * time.Millisecond)))):
				f.count()
			}
		}
	})
	f.create()
	close(done)
	counter.Wait()
}

// However the calls of servers interleave, exactly as many pods go to a subset without a maximum as its
// nodes have room for.
func TestServersShareTheRoomOfASubset(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 30
	}
	wrong := map[int]int{}
	for seed := range rounds {
		synctest.Test(t, func(t *testing.T) {
			room := 1 + seed%12
			f := newFleet(t, uint64(seed), 2+seed%2, room, 12)
			f.run()
			if got := f.in["spot"]; got != room {
				wrong[got-room]++
			}
		})
	}
	if len(wrong) > 0 {
		t.Errorf("in %d runs, so many pods more than it has room for went to spot, so often: %v", rounds, wrong)
	}
}

// That pods are noted in the status costs a fraction of a write for each.
func TestManyPodsAtOnceShareTheRoomAndTheWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, 2, 300, 500)
		var done, seen sync.WaitGroup
		for i := range 500 {
			done.Go(func() { f.createOne(i, &seen) })
		}
		done.Wait()
		if n := f.writes.Load(); n > 50 {
			t.Errorf("%d writes of the status", n)
		}
		seen.Wait()
		f.count()
		if f.in["spot"] != 300 || f.in["on-demand"] != 200 {
			t.Errorf("%v", f.in)
		}
		for _, row := range f.spread("web").Status.VersionedSubsetStatuses["1"] {
			if len(row.CreatingPods) > 0 || row.MissingReplicas != workloadspread.Unlimited || int(row.Replicas) != f.in[row.Name] {
				t.Errorf("%+v", row)
			}
		}
	})
}

// A server holds room for pods that another one has admitted, for some seconds if they never come.
func TestPodsThatNeverCome(t *testing.T) {
	for name, raw := range map[string]func(i int) string{
		"generated names": func(int) string { return podOfOneCPU },
		"names": func(i int) string {
			return strings.Replace(podOfOneCPU, `"generateName":"web-1-"`, fmt.Sprintf(`"name":"web-%d"`, i), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1, 2, 2, 12)
				n := 0
				create := func(server int, want string) *v1.Pod {
					n++
					pod, text := f.servers[server].create(raw(n))
					if got := subsetOf(pod); got != want {
						t.Errorf("pod %d is in %s, not in %s: %s", n, got, want, text)
					}
					return pod
				}
				create(0, "spot")
				first := create(0, "spot")
				create(1, "on-demand")
				time.Sleep(creation) //nolint:forbidigo // in the bubble's time
				first.Namespace, first.Name, first.CreationTimestamp = "shop", fmt.Sprint("web-", 2), metav1.NewTime(time.Now().Add(-creation))
				f.servers[1].see(t, first)
				create(1, "spot")
				create(1, "on-demand")
				for _, h := range f.servers[1].elsewhere.of {
					if len(h.pods) > 2 {
						t.Errorf("it remembers %v", h.pods)
					}
				}
				f.servers[1].forget(f.spread("web"))
				if n := len(f.servers[1].elsewhere.of); n > 0 {
					t.Errorf("it remembers %d WorkloadSpreads", n)
				}
			})
		})
	}
}
