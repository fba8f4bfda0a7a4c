package controller_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/controller"
)

const loopback = "127.0.0.1:0"

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
		HealthAddress: loopback, MetricsAddress: loopback,
		LeaseNamespace: "evenkeel", Identity: identity,
		LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 50 * time.Millisecond,
	}
}

// run runs a Manager until stop, which tells what Run returned.
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

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestALeaderFromStartToEnd(t *testing.T) {
	s := newServer(t)
	var managed atomic.Int32
	w := &watcher{name: "watcher", pass: func(ctx context.Context, c client.Reader) {
		var object v1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "thing"}, &object); err != nil {
			t.Error(err)
		}
		managed.Add(int32(len(object.ManagedFields)))
	}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "evenkeel_test"}, func() float64 { return 7 }))
	o := options("alice")
	o.Gatherer = registry
	m, stop, _ := run(t, s, w, o)

	var body string
	eventually(t, "the probe answers", func() bool {
		var code int
		code, body = get(t, m.HealthAddress(), "/readyz")
		return code == http.StatusInternalServerError
	})
	if !strings.Contains(body, "[-]caches failed: they do not hold all that is watched yet\n") {
		t.Errorf("before the caches are filled it says:\n%s", body)
	}
	close(s.open)
	eventually(t, "one pass", func() bool { return w.passes.Load() == 1 })
	eventually(t, "readiness", func() bool {
		_, body = get(t, m.HealthAddress(), "/readyz?verbose")
		return body == "[+]caches ok\n[+]leader leads\nreadyz check passed\n"
	})
	if identity, itself := m.Leader(); identity != "alice" || !itself || s.holder() != "alice" {
		t.Errorf("%q leads, itself: %v; the lease is held by %q", identity, itself, s.holder())
	}
	if managed.Load() != 0 {
		t.Error("managed fields are cached")
	}
	if code, body := get(t, m.HealthAddress(), "/healthz"); code != http.StatusOK || body != "ok" {
		t.Errorf("healthz: %d %s", code, body)
	}
	_, body = get(t, m.MetricsAddress(), "/metrics")
	for _, line := range []string{
		"\nevenkeel_test 7\n", "\ncontroller_runtime_reconcile_total{controller=\"watcher\",result=\"success\"} ", "\n# TYPE go_goroutines gauge\n",
	} {
		if strings.Count(body, line) != 1 {
			t.Errorf("metrics have %d times %q", strings.Count(body, line), line)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("a graceful end: %v", err)
	}
	if s.holder() != "" {
		t.Errorf("the lease is still held by %q", s.holder())
	}
}

func TestOneStandsByAndTakesOver(t *testing.T) {
	s := newServer(t)
	close(s.open)
	first, second := &watcher{name: "watcher"}, &watcher{name: "watcher"}
	_, stopFirst, _ := run(t, s, first, options("alice"))
	eventually(t, "the first leads", func() bool { return first.passes.Load() == 1 })
	m, stopSecond, _ := run(t, s, second, options("bob"))
	eventually(t, "the second stands by", func() bool {
		code, body := get(t, m.HealthAddress(), "/readyz?verbose")
		return code == http.StatusOK && strings.Contains(body, "[+]leader stands by for alice\n")
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

// TestAPassUnderWay ends before the lease is given up, and makes the process unhealthy if it takes too long.
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
				code, body := get(t, m.HealthAddress(), "/healthz")
				return code == http.StatusInternalServerError && strings.Contains(body, "[-]passes failed: a pass of slow has been going on for ")
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

func TestAnEndBeforeTheBeginning(t *testing.T) {
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
	s := newServer(t)
	close(s.open)
	w := &watcher{name: "watcher"}
	m, stop, _ := run(t, s, w, controller.Options{NoLeaderElection: true})
	eventually(t, "a pass", func() bool { return w.passes.Load() == 1 })
	if _, itself := m.Leader(); !itself || m.HealthAddress() != "" || m.MetricsAddress() != "" {
		t.Errorf("leads: %v, serves on %q and %q", itself, m.HealthAddress(), m.MetricsAddress())
	}
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
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	inUse := options("alice")
	inUse.MetricsAddress = taken.Addr().String()
	s := newServer(t)
	for want, test := range map[string]struct {
		controllers []controller.Controller
		options     controller.Options
	}{
		"needs a namespace":                           {nil, controller.Options{}},
		`two controllers have the name "a"`:           {[]controller.Controller{named("a"), named("a")}, options("alice")},
		"setting up controller a: no index":           {[]controller.Controller{failing{"a"}}, options("alice")},
		"metrics: listen tcp " + inUse.MetricsAddress: {nil, inUse},
	} {
		if _, err := controller.New(s.config(), test.controllers, test.options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
