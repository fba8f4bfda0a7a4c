package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

var (
	key         = types.NamespacedName{Namespace: "shop", Name: "web"}
	errConflict = apierrors.NewConflict(schema.GroupResource{Resource: "workloadspreads"}, "web", errors.New("somebody was faster"))
	errLost     = errors.New("EOF")
)

// server is an API server with one WorkloadSpread. before is asked before a status is written, and
// after when it was: an error is the answer.
type server struct {
	client.Client
	before, after func() error
	latency       func() time.Duration // of half a call, in the bubble
	reads, writes atomic.Int32
}

func newServer(t testing.TB) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &server{latency: func() time.Duration { return time.Millisecond }}
	nothing := func() error { return nil }
	s.before, s.after = nothing, nothing
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(spread()).WithStatusSubresource(&v1alpha1.WorkloadSpread{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				s.reads.Add(1)
				time.Sleep(s.latency())       //nolint:forbidigo // in the bubble's time
				defer time.Sleep(s.latency()) //nolint:forbidigo // in the bubble's time
				return c.Get(ctx, key, o, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object,
				opts ...client.SubResourceUpdateOption) error {
				time.Sleep(s.latency())       //nolint:forbidigo // in the bubble's time
				defer time.Sleep(s.latency()) //nolint:forbidigo // in the bubble's time
				if err := s.before(); err != nil {
					return err
				}
				s.writes.Add(1)
				if err := c.SubResource(name).Update(ctx, o, opts...); err != nil {
					return err
				}
				return s.after()
			},
		}).Build()
	return s
}

func spread() *v1alpha1.WorkloadSpread {
	return &v1alpha1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: v1alpha1.WorkloadSpreadSpec{
			TargetRef: v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"},
			Subsets: []v1alpha1.WorkloadSubset{
				{Name: "a", MaxReplicas: ptr.To(intstr.FromInt32(30))}, {Name: "b", MaxReplicas: ptr.To(intstr.FromInt32(1000))},
			},
		},
	}
}

// admit counts a pod, and says of which subset.
func admit(id string, subset *int) Decide {
	return func(o *v1alpha1.WorkloadSpread, _ *Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
		a := workloadspread.Admit(stateOf(o), workloadspread.NewPod{ID: id, Revision: workloadspread.OneRevision})
		*subset = a.Subset
		return a.Status, a.Changed, nil
	}
}

func stateOf(o *v1alpha1.WorkloadSpread) workloadspread.State {
	return workloadspread.State{Spec: &o.Spec, Status: &o.Status, Workload: workloadspread.Workload{Found: true, Replicas: 2000},
		Now: time.Now()}
}

// counted are the pods that are stored, by their subset.
func (s *server) counted(t testing.TB) map[string]map[string]metav1.Time {
	t.Helper()
	o := &v1alpha1.WorkloadSpread{}
	if err := s.Get(t.Context(), key, o); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]metav1.Time{}
	for _, c := range o.Status.VersionedSubsetStatuses[workloadspread.OneRevision] {
		out[c.Name] = c.CreatingPods
	}
	return out
}

// dice are random numbers that several goroutines draw.
type dice struct {
	mu sync.Mutex
	*rand.Rand
}

func (d *dice) draw(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.IntN(n)
}

func (d *dice) exponential() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ExpFloat64()
}

// laggard is a cache that is now and then brought up to date.
type laggard struct {
	client.Reader
	dice *dice
	mu   sync.Mutex
	copy *v1alpha1.WorkloadSpread
}

func (l *laggard) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.copy == nil || l.dice.draw(4) == 0 {
		fresh := &v1alpha1.WorkloadSpread{}
		if err := l.Reader.Get(ctx, key, fresh); err != nil {
			return err
		}
		l.copy = fresh
	}
	l.copy.DeepCopyInto(o.(*v1alpha1.WorkloadSpread))
	return nil
}

// Several processes count the pods of one object while writes conflict, fail, and succeed without an
// answer: every pod is counted once, no subset has too many, and no pod is refused.
func TestPodsAreCountedOnceByAllProcesses(t *testing.T) {
	for world := range 30 {
		synctest.Test(t, func(t *testing.T) {
			s, dice := newServer(t), &dice{Rand: rand.New(rand.NewPCG(uint64(world), 0))}
			trouble := []error{nil, nil, nil, errConflict, errLost, apierrors.NewServiceUnavailable("restarting"),
				apierrors.NewTooManyRequests("busy", 1)}
			random := func() error { return trouble[dice.draw(len(trouble))] }
			s.before, s.after = random, func() error {
				if errors.Is(random(), errLost) {
					return errLost
				}
				return nil
			}
			var stores []*Store
			for range 1 + world%3 {
				stores = append(stores, New(&laggard{Reader: s, dice: dice}, s, nil))
			}
			const pods = 60
			subsets := make([]int, pods)
			var done sync.WaitGroup
			for i := range pods {
				done.Go(func() {
					time.Sleep(time.Duration(dice.draw(50)) * time.Millisecond) //nolint:forbidigo // in the bubble's time
					if _, err := stores[i%len(stores)].Update(t.Context(), key, admit(fmt.Sprint("pod-", i), &subsets[i])); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			counted := s.counted(t)
			if len(counted["a"]) != 30 || len(counted["b"]) != 30 {
				t.Errorf("world %d: %d and %d pods are counted", world, len(counted["a"]), len(counted["b"]))
			}
			for i, subset := range subsets {
				if _, ok := counted[[]string{"a", "b"}[subset]][fmt.Sprint("pod-", i)]; !ok {
					t.Errorf("world %d: pod %d is not counted where it is", world, i)
				}
			}
		})
	}
}

// 1,000 pods through two processes need a fraction of the writes.
func TestWaitingPodsShareOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		stores := []*Store{New(s, s, nil), New(s, s, nil)}
		begin := time.Now()
		var done sync.WaitGroup
		for i := range 1000 {
			done.Go(func() {
				var subset int
				if _, err := stores[i%2].Update(t.Context(), key, admit(fmt.Sprint("pod-", i), &subset)); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		if n := s.writes.Load(); n > 20 {
			t.Errorf("%d writes", n)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s", took)
		}
		if counted := s.counted(t); len(counted["a"]) != 30 || len(counted["b"]) != 970 {
			t.Errorf("%d and %d pods are counted", len(counted["a"]), len(counted["b"]))
		}
	})
}

func increment(o *v1alpha1.WorkloadSpread, _ *Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
	status := o.Status
	status.Replicas++
	return &status, true, nil
}

func TestUpdate(t *testing.T) {
	for name, test := range map[string]struct {
		cached        int32 // replicas that the cache has; the server has 5
		before, after []error
		decide        func(calls int) error
		unchanged     bool
		want          int32 // replicas that are stored
		problem       string
		writes, calls int32
	}{
		"at the first try":    {cached: 5, want: 6, writes: 1, calls: 1},
		"nothing has changed": {cached: 5, unchanged: true, want: 5, calls: 1},
		"an old copy":         {cached: 3, want: 6, writes: 2, calls: 2},
		"a conflict":          {cached: 5, before: []error{errConflict}, want: 6, writes: 1, calls: 2},
		"five conflicts": {cached: 5, before: []error{errConflict, errConflict, errConflict, errConflict, errConflict}, want: 6,
			writes: 1, calls: 6},
		"no connection":     {cached: 5, before: []error{errLost}, want: 6, writes: 1, calls: 2},
		"an answer is lost": {cached: 5, after: []error{errLost}, want: 7, writes: 2, calls: 2}, // increment does not know itself
		"may not": {cached: 5, before: []error{apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("no"))},
			want: 5, calls: 1, problem: "forbidden"},
		"refused by the decision": {cached: 5, decide: func(int) error { return errors.New("the patch is bad") }, want: 5, calls: 1,
			problem: "the patch is bad"},
		"unsure with an old copy": {cached: 3, decide: func(int) error { return ErrUnsure }, want: 6, writes: 1, calls: 2},
		"a decision that cannot be made": {cached: 5, decide: func(int) error { panic("index out of range") }, want: 5, calls: 1,
			problem: "panic: index out of range"},
		"an API server that does not come": {cached: 5, before: slicesOf(errLost, 200), want: 5, calls: -1, problem: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				next := func(list *[]error) func() error {
					return func() (err error) {
						if len(*list) > 0 {
							err, *list = (*list)[0], (*list)[1:]
						}
						return err
					}
				}
				old := s.store(t, test.cached)
				if test.cached != 5 {
					s.store(t, 5)
				}
				s.writes.Store(0)
				s.before, s.after = next(&test.before), next(&test.after)
				calls := int32(0)
				_, err := New(&still{old}, s, nil).Update(t.Context(), key,
					func(o *v1alpha1.WorkloadSpread, round *Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
						calls++
						status, _, _ := increment(o, nil)
						if test.decide != nil && !round.Live {
							return status, true, test.decide(int(calls))
						}
						return status, !test.unchanged, nil
					})
				time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time: the store notices that the caller has left
				if problem := fmt.Sprint(err); (err != nil) != (test.problem != "") || !strings.Contains(problem, test.problem) {
					t.Errorf("error: %v", err)
				}
				stored := &v1alpha1.WorkloadSpread{}
				if err := s.Get(t.Context(), key, stored); err != nil {
					t.Fatal(err)
				}
				if stored.Status.Replicas != test.want || s.writes.Load() != test.writes || test.calls >= 0 && calls != test.calls {
					t.Errorf("%d replicas are stored by %d writes and %d decisions", stored.Status.Replicas, s.writes.Load(), calls)
				}
			})
		})
	}
}

// still is a cache that never changes.
type still struct{ object *v1alpha1.WorkloadSpread }

func (s *still) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s.object.DeepCopyInto(o.(*v1alpha1.WorkloadSpread))
	return nil
}

func (s *still) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// store stores a number and returns the object.
func (s *server) store(t *testing.T, replicas int32) *v1alpha1.WorkloadSpread {
	t.Helper()
	o := &v1alpha1.WorkloadSpread{}
	if err := s.Get(t.Context(), key, o); err != nil {
		t.Fatal(err)
	}
	o.Status.Replicas = replicas
	if err := s.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func slicesOf(err error, n int) []error {
	var out []error
	for range n {
		out = append(out, err)
	}
	return out
}

// A pod is counted once though its caller has tried twice because an answer was lost.
func TestALostAnswerCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		lost := []error{errLost, errLost}
		s.after = func() (err error) {
			if len(lost) > 0 {
				err, lost = lost[0], lost[1:]
			}
			return err
		}
		var subset int
		if _, err := New(s, s, nil).Update(t.Context(), key, admit("pod", &subset)); err != nil {
			t.Fatal(err)
		}
		if counted := s.counted(t); len(counted["a"]) != 1 || s.writes.Load() != 1 {
			t.Errorf("%v by %d writes", counted, s.writes.Load())
		}
	})
}

// What was written last is known before the cache has it, and a newer copy of the cache wins.
func TestTheNewestCopyIsUsed(t *testing.T) {
	s := newServer(t)
	cache := &still{s.store(t, 5)}
	store := New(cache, s, nil)
	s.reads.Store(0)
	for want := int32(6); want < 9; want++ {
		got, err := store.Update(t.Context(), key, increment)
		if err != nil || got.Status.Replicas != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if n := s.reads.Load(); n != 0 {
		t.Errorf("%d reads", n)
	}
	cache.object = s.store(t, 20)
	if got, err := store.Update(t.Context(), key, increment); err != nil || got.Status.Replicas != 21 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A caller that leaves gets an error, its decision is not asked for any more, and the others go on.
func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		open := make(chan struct{})
		var once sync.Once
		s.before = func() (err error) {
			once.Do(func() { <-open; err = errConflict })
			return err
		}
		store := New(s, s, nil)
		ctx, leave := context.WithCancel(t.Context())
		left := atomic.Bool{}
		leaver, stayer := make(chan error), make(chan error)
		go func() {
			_, err := store.Update(ctx, key, func(o *v1alpha1.WorkloadSpread, _ *Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
				if left.Load() {
					t.Error("asked after it has left")
				}
				return increment(o, nil)
			})
			leaver <- err
		}()
		synctest.Wait()
		go func() { _, err := store.Update(t.Context(), key, increment); stayer <- err }()
		leave()
		if err := <-leaver; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		left.Store(true)
		close(open)
		if err := <-stayer; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
	})
}

func TestAnObjectThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		store := New(s, s, nil)
		if _, err := store.Update(t.Context(), key, increment); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), spread()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(store.objects) != 1 {
			t.Errorf("%d objects are known", len(store.objects))
		}
		if _, err := store.Update(t.Context(), key, increment); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if len(store.objects) != 0 {
			t.Error("it is still known")
		}
	})
}

// What was written is remembered until the object is forgotten.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		store := New(s, s, nil)
		if _, err := store.Update(t.Context(), key, increment); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		store.Forget(key)
		store.Forget(key)
		if len(store.objects) != 0 {
			t.Error("it is still known")
		}
		_, err := store.Update(t.Context(), key, func(o *v1alpha1.WorkloadSpread, _ *Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
			store.Forget(key)
			return increment(o, nil)
		})
		if synctest.Wait(); err != nil || len(store.objects) != 0 {
			t.Errorf("deleted while it was written, it is still known: %v", err)
		}
	})
}

// BenchmarkUpdate is the work of the store itself for pods that come at once.
func BenchmarkUpdate(b *testing.B) {
	for _, pods := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			s := newServer(b)
			store := New(s, s, nil)
			b.ReportAllocs()
			for b.Loop() {
				var done sync.WaitGroup
				for range pods {
					done.Go(func() {
						if _, err := store.Update(b.Context(), key, increment); err != nil {
							b.Error(err)
						}
					})
				}
				done.Wait()
			}
			b.ReportMetric(float64(s.writes.Load())/float64(b.N), "writes/op")
		})
	}
}
