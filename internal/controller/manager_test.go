package controller_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/internal/controller"
)

// watcher is a controller of ConfigMaps. A pass is what its function does.
type watcher struct {
	name   string
	pass   func(context.Context, client.Reader)
	passes atomic.Int32
	client client.Reader
}

func (w *watcher) Name() string { return w.name }

func (w *watcher) SetupWithManager(mgr manager.Manager) error {
	w.client = mgr.GetClient()
	return builder.ControllerManagedBy(mgr).Named(w.name).For(&v1.ConfigMap{}).Complete(w)
}

func (w *watcher) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if w.pass != nil {
		w.pass(ctx, w.client)
	}
	w.passes.Add(1)
	return reconcile.Result{}, nil
}

// options are for elections that take milliseconds.
func options(identity string) controller.Options {
	return controller.Options{
		LeaseNamespace: "evenkeel", Identity: identity,
		LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 50 * time.Millisecond,
	}
}

// run runs a Manager until stop, which says what Run returned.
func run(t *testing.T, s *server, w *watcher, o controller.Options) (m *controller.Manager, stop func() error, ended <-chan error) {
	t.Helper()
	m, err := controller.New(s.config(), []controller.Controller{w}, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(cancel)
	return m, func() error { cancel(); return <-done }, done
}

// eventually waits until something holds, for longer than a busy machine takes.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestALeaderFromStartToEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var untrimmed atomic.Int32
	w := &watcher{name: "watcher", pass: func(ctx context.Context, c client.Reader) {
		var object v1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "thing"}, &object); err != nil {
			t.Error(err)
		}
		untrimmed.Add(int32(len(object.ManagedFields) + len(object.Data)))
	}}
	o := options("alice")
	o.Trim = map[client.Object]cache.TransformFunc{&v1.ConfigMap{}: func(object any) (any, error) {
		if c, ok := object.(*v1.ConfigMap); ok {
			c.ManagedFields, c.Data = nil, nil
		}
		return object, nil
	}}
	m, stop, _ := run(t, s, w, o)
	eventually(t, "it waits for the caches", func() bool { return m.Ready() != nil })
	close(s.open)
	eventually(t, "one pass", func() bool { return w.passes.Load() == 1 })
	eventually(t, "readiness", func() bool { return m.Ready() == nil })
	if s.holder() != "alice" {
		t.Errorf("the lease is held by %q", s.holder())
	}
	if untrimmed.Load() != 0 {
		t.Error("what is trimmed is cached")
	}
	if err := m.Healthy(); err != nil {
		t.Error(err)
	}
	eventually(t, "the event of the election", func() bool { return strings.Contains(s.told(), "alice became leader") })
	if err := stop(); err != nil {
		t.Errorf("a graceful end: %v", err)
	}
	if s.holder() != "" {
		t.Errorf("the lease is still held by %q", s.holder())
	}
}

func TestOneStandsByAndTakesOver(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	first, second := &watcher{name: "watcher"}, &watcher{name: "watcher"}
	_, stopFirst, _ := run(t, s, first, options("alice"))
	eventually(t, "the first leads", func() bool { return first.passes.Load() == 1 })
	m, stopSecond, _ := run(t, s, second, options("bob"))
	eventually(t, "the second stands by", func() bool {
		return m.Ready() == nil && s.holder() == "alice"
	})
	if second.passes.Load() != 0 {
		t.Error("who stands by makes a pass")
	}
	if err := stopFirst(); err != nil {
		t.Error(err)
	}
	eventually(t, "the second leads", func() bool { return second.passes.Load() == 1 })
	if err := stopSecond(); err != nil {
		t.Error(err)
	}
	if first.passes.Load() != 1 {
		t.Error("a pass after the end")
	}
}

func TestWhoLosesTheLeadershipEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	w := &watcher{name: "watcher"}
	_, _, ended := run(t, s, w, options("alice"))
	eventually(t, "it leads", func() bool { return w.passes.Load() == 1 })
	s.mu.Lock()
	s.broken = true
	s.mu.Unlock()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "leader election lost") {
		t.Errorf("ended with %v", err)
	}
}

// A leader that was frozen finds another one when it wakes: it does not wait for the deadline of a
// renewal.
func TestWhoFindsAnotherLeaderEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	w := &watcher{name: "watcher"}
	o := options("alice")
	o.LeaseDuration, o.RenewDeadline = time.Hour, 50*time.Minute
	_, _, ended := run(t, s, w, o)
	eventually(t, "it leads", func() bool { return w.passes.Load() == 1 })
	s.mu.Lock()
	s.lease.Spec.HolderIdentity = new("bob")
	s.lease.ResourceVersion += "0"
	s.mu.Unlock()
	if err := <-ended; !errors.Is(err, controller.ErrNotLeading) {
		t.Errorf("ended with %v", err)
	}
	if s.holder() != "bob" {
		t.Errorf("the lease is held by %q", s.holder())
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestWhoseLeaseHasExpiredWritesNothing(t *testing.T) {
	for _, c := range []struct {
		method string
		ago    time.Duration
		passes bool
	}{
		{http.MethodPatch, 0, true},
		{http.MethodPatch, 14 * time.Second, true},
		{http.MethodPatch, 16 * time.Second, false},
		{http.MethodPost, 16 * time.Second, false},
		{http.MethodGet, 16 * time.Second, true},
	} {
		sent := false
		fence := controller.Fence(time.Now().Add(-c.ago), 15*time.Second, transport(func(*http.Request) (*http.Response, error) {
			sent = true
			return &http.Response{Body: http.NoBody}, nil
		}))
		request, err := http.NewRequestWithContext(t.Context(), c.method, "http://host", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := fence.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		if sent != c.passes || errors.Is(err, controller.ErrNotLeading) == c.passes {
			t.Errorf("%s, %s after the renewal: sent %v, %v", c.method, c.ago, sent, err)
		}
	}
}

func TestWhoHasNoNamespaceForItsLeaseEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	o := options("alice")
	o.LeaseNamespace = "nowhere"
	_, _, ended := run(t, s, &watcher{name: "watcher"}, o)
	if err := <-ended; !errors.Is(err, controller.ErrNoNamespace) || !strings.Contains(err.Error(), "nowhere does not exist") {
		t.Errorf("ended with %v", err)
	}
}

// TestAPassUnderWay ends before the lease is given up, and makes the process unhealthy if it takes
// too long.
func TestAPassUnderWay(t *testing.T) {
	for name, test := range map[string]struct {
		grace time.Duration
		ends  bool
	}{"ends in time": {time.Minute, true}, "goes on": {100 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			close(s.open)
			begun, never := make(chan struct{}), make(chan struct{})
			defer close(never)
			var holder string // when the pass ends
			w := &watcher{name: "slow", pass: func(ctx context.Context, _ client.Reader) {
				close(begun)
				if !test.ends {
					<-never
				}
				<-ctx.Done() // the end has begun
				holder = s.holder()
			}}
			o := options("alice")
			o.StuckAfter, o.Grace = time.Millisecond, test.grace
			m, stop, _ := run(t, s, w, o)
			<-begun
			eventually(t, "the probe notices", func() bool {
				err := m.Healthy()
				return err != nil && strings.Contains(err.Error(), "a reconciliation of controller slow has been running for ")
			})
			if err := stop(); (err == nil) != test.ends {
				t.Errorf("ended with %v", err)
			}
			if test.ends && holder != "alice" {
				t.Errorf("during the pass the lease is held by %q", holder)
			}
			if s.holder() != "" {
				t.Errorf("the lease is still held by %q", s.holder())
			}
		})
	}
}

// The renewal was cancelled, but the API server had it already.
func TestTheLeaseIsReleasedAfterALateRenewal(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	w := &watcher{name: "watcher"}
	_, stop, _ := run(t, s, w, options("alice"))
	eventually(t, "it leads", func() bool { return w.passes.Load() == 1 })
	s.mu.Lock()
	s.late = true
	s.mu.Unlock()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if s.holder() != "" || s.late {
		t.Errorf("the lease is still held by %q", s.holder())
	}
}

func TestAnEndBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	m, err := controller.New(s.config(), []controller.Controller{&watcher{name: "watcher"}}, options("alice"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestWithoutLeaderElection(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	w := &watcher{name: "watcher"}
	_, stop, _ := run(t, s, w, controller.Options{NoLeaderElection: true})
	eventually(t, "a pass", func() bool { return w.passes.Load() == 1 })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if s.holder() != "" {
		t.Error("it holds a lease")
	}
}

type failing struct{ named }

func (failing) SetupWithManager(manager.Manager) error { return errors.New("no index") }

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for want, test := range map[string]struct {
		controllers []controller.Controller
		options     controller.Options
	}{
		"needs a namespace":                 {nil, controller.Options{}},
		`two controllers have the name "a"`: {[]controller.Controller{named("a"), named("a")}, options("alice")},
		"setting up controller a: no index": {[]controller.Controller{failing{"a"}}, options("alice")},
	} {
		if _, err := controller.New(s.config(), test.controllers, test.options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What both have is reported once.
func TestGatherer(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "evenkeel_test"},
		func() float64 { return 7 }))
	families, _ := controller.Gatherer(registry).Gather() // the error is about what both have
	names := map[string]int{}
	for _, f := range families {
		names[f.GetName()]++
	}
	for _, name := range []string{"evenkeel_test", "go_goroutines", "leader_election_master_status"} {
		if names[name] != 1 {
			t.Errorf("%s is told %d times", name, names[name])
		}
	}
}

// A cache that was filled goes on to tell what it knew: who may not watch any more is not ready.
func TestAWatchThatFailsForGood(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	w := &watcher{name: "watcher"}
	m, stop, _ := run(t, s, w, options("alice"))
	m.NoticeWatches(time.Second, 5*time.Second)
	eventually(t, "a pass", func() bool { return w.passes.Load() == 1 })
	if err := m.Ready(); err != nil {
		t.Error(err)
	}
	s.refuse(true)
	eventually(t, "it says what it cannot watch", func() bool {
		err := m.Ready()
		return err != nil && strings.HasPrefix(err.Error(), "the watch of *v1.ConfigMap has failed for ") &&
			strings.Contains(err.Error(), "Forbidden")
	})
	s.refuse(false)
	eventually(t, "readiness again", func() bool { return m.Ready() == nil })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// What keeps the caches empty is said at once.
func TestAWatchThatIsRefusedFromTheStart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	s.refuse(true)
	m, stop, _ := run(t, s, &watcher{name: "watcher"}, options("alice"))
	eventually(t, "it says what it cannot watch", func() bool {
		err := m.Ready()
		return err != nil && strings.Contains(err.Error(), "the caches are not filled yet\nthe watch of *v1.ConfigMap has failed for ")
	})
	if err := stop(); err != nil { // although the caches are never filled
		t.Error(err)
	}
}
