package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/metricset"
)

// askWithin is how long the API server may take to say whether a kind can be read.
const askWithin = 10 * time.Second

// Need is a kind that a controller must be able to read, by a list of it. A Namespace that is empty
// means those of the Manager.
type Need struct {
	List      client.ObjectList
	Namespace string
}

// Metrics are those of a Manager.
type Metrics struct {
	waiting *prometheus.GaugeVec
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_controller_")
	m := &Metrics{set.Gauge("waiting",
		"1 for a controller that does not run because what it watches is not installed or may not be read, else 0.", "controller")}
	return m, set.Register(r)
}

func (m *Metrics) see(controller string, waits bool) {
	if m != nil {
		m.waiting.WithLabelValues(controller).Set(metricset.Number(waits))
	}
}

// lacks is why a controller cannot run; nil if it can, or if the API server does not say.
func (m *Manager) lacks(ctx context.Context, c Controller) error {
	namespace := ""
	if len(m.options.Namespaces) > 0 {
		namespace = m.options.Namespaces[0]
	}
	var needs []Need
	for _, need := range m.options.Needs[c.Name()] {
		needs = append(needs, Need{need.List, cmp.Or(need.Namespace, namespace)})
	}
	return Lacks(ctx, m.manager.GetAPIReader(), needs...)
}

// Lacks is why a kind that is needed cannot be read; nil if all can, or if the API server does not say.
// An empty namespace means all.
func Lacks(ctx context.Context, live client.Reader, needs ...Need) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, need := range needs {
		err := live.List(ctx, need.List, client.InNamespace(need.Namespace), client.Limit(1))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("a kind is not installed: %w", err)
		}
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("a kind may not be read: %w", err)
		}
	}
	return nil
}

// split returns the controllers that can be set up, and those that wait for what they need. If none
// can be set up, all are, so that their errors are seen: there is nothing else to run.
func (m *Manager) split(controllers []Controller) (ready []Controller, w *waiting, err error) {
	w = &waiting{manager: m, why: map[string]error{}}
	for _, c := range controllers {
		switch lack := m.lacks(context.Background(), c); {
		case lack == nil:
			ready = append(ready, c)
		case meta.IsNoMatchError(lack) && err == nil:
			err = fmt.Errorf("controller %s: %w", c.Name(), lack)
			fallthrough
		default:
			w.left, w.why[c.Name()] = append(w.left, c), lack
		}
	}
	if len(ready) == 0 && err == nil {
		return controllers, &waiting{manager: m}, nil
	}
	if len(ready) > 0 {
		err = nil
	}
	for _, c := range controllers {
		m.options.Metrics.see(c.Name(), w.why[c.Name()] != nil)
	}
	for _, c := range w.left {
		m.options.Log.Error(w.why[c.Name()],
			"Controller not started, the others run without it: install the definitions and the rights of this version", "controller", c.Name())
	}
	return ready, w, err
}

// waiting starts controllers once what they need can be read.
type waiting struct {
	manager *Manager

	mu   sync.Mutex
	left []Controller
	why  map[string]error
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a process that stands by fills the
// caches of all controllers.
func (*waiting) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *waiting) Start(ctx context.Context) error {
	for len(w.names()) > 0 {
		again := clock.RealClock{}.NewTimer(w.manager.options.LookAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-again.C():
		}
		for _, c := range slices.Clone(w.left) {
			if w.manager.lacks(ctx, c) == nil && ctx.Err() == nil {
				if err := c.SetupWithManager(remembering{w.manager.manager, w.manager.decided}); err != nil {
					return fmt.Errorf("setting up controller %s: %w", c.Name(), err)
				}
				w.started(c)
			}
		}
	}
	return nil
}

func (w *waiting) started(c Controller) {
	w.manager.options.Metrics.see(c.Name(), false)
	w.manager.options.Log.Info("Controller started: what it needs can be read now", "controller", c.Name())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = slices.DeleteFunc(slices.Clone(w.left), func(o Controller) bool { return o.Name() == c.Name() })
}

// names are the controllers that wait.
func (w *waiting) names() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.left {
		names = append(names, c.Name())
	}
	return names
}

// Waiting are the controllers that do not run because what they need is not installed, or may not be
// read.
func (m *Manager) Waiting() []string { return m.waiting.names() }
