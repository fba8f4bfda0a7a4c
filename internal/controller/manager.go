package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// readyTimeout is how long a probe waits for an answer; the kubelet waits for a second.
const readyTimeout = 500 * time.Millisecond

// Manager runs controllers.
type Manager struct {
	options Options
	manager manager.Manager
	lease   *lease // nil without leader election
	watches *watches
	waiting *waiting
	decided *decided
	names   []string // of the controllers
}

// New returns a Manager for the API server of config and sets the controllers up. It may ask the
// API server about the kinds that are watched. The client has no rate limit: the API server has its
// own.
func New(config *rest.Config, controllers []Controller, o Options) (*Manager, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	m := &Manager{options: o, watches: newWatches(), decided: &decided{clock: clock.RealClock{}}}
	if err := m.build(unlimited(config), controllers); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manager) build(config *rest.Config, controllers []Controller) (err error) {
	log.SetLogger(m.options.Log)
	settings := m.settings()
	if !m.options.NoLeaderElection {
		if m.lease, err = newLease(config, &m.options); err != nil {
			return err
		}
		settings.LeaderElectionResourceLockInterface = m.lease
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fence{m.lease, next} })
	}
	if m.manager, err = manager.New(config, settings); err != nil {
		return fmt.Errorf("building the manager of controllers: %w", err)
	}
	if m.lease != nil {
		m.lease.LockConfig.EventRecorder = announcer{m.manager.GetEventRecorder(userAgent)}
	}
	named := map[string]bool{}
	for _, c := range controllers {
		if named[c.Name()] {
			return fmt.Errorf("two controllers have the name %q", c.Name())
		}
		named[c.Name()] = true
		m.names = append(m.names, c.Name())
	}
	ready, waiting, err := m.split(controllers)
	if err != nil {
		return err
	}
	m.waiting = waiting
	for _, c := range ready {
		if err := c.SetupWithManager(remembering{m.manager, m.decided}); err != nil {
			return fmt.Errorf("setting up controller %s: %w", c.Name(), err)
		}
	}
	if err := m.manager.Add(waiting); err != nil {
		return err
	}
	return m.manager.Add(manager.RunnableFunc(m.lead))
}

// settings are the options of controller-runtime, whose servers are not used.
func (m *Manager) settings() manager.Options {
	o := &m.options
	return manager.Options{
		Scheme:  o.Scheme,
		Logger:  o.Log,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: namespaces(o.Namespaces),
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject:          kinds(o),

			DefaultWatchErrorHandler: m.watches.failed,
		},
		LeaderElection:                !o.NoLeaderElection,
		LeaderElectionID:              o.Lease,
		LeaderElectionNamespace:       o.LeaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &o.RenewDeadline,
		RetryPeriod:                   &o.RetryPeriod,
		GracefulShutdownTimeout:       &o.Grace,
		BaseContext:                   func() context.Context { return logr.NewContext(context.Background(), o.Log) },
		Controller: config.Controller{
			MaxConcurrentReconciles: o.Workers,
			ReconciliationTimeout:   passTimeout,
			EnableWarmup:            ptr.To(true), // a process that stands by has its caches filled
			SkipNameValidation:      ptr.To(true), // names differ within a Manager, not within the process
			Logger:                  o.Log,
		},
	}
}

// kinds are what the cache does with objects of single kinds.
func kinds(o *Options) map[client.Object]cache.ByObject {
	out := map[client.Object]cache.ByObject{}
	for object, trim := range o.Trim {
		out[object] = cache.ByObject{Transform: trim}
	}
	for object, namespace := range o.Confined {
		out[object] = cache.ByObject{Namespaces: namespaces([]string{namespace})}
	}
	return out
}

func namespaces(names []string) map[string]cache.Config {
	if len(names) == 0 {
		return nil
	}
	out := map[string]cache.Config{}
	for _, name := range names {
		out[name] = cache.Config{}
	}
	return out
}

// Run runs the controllers while this Manager leads, until ctx is done. Then the passes under way have the grace period
// to end, and the leadership is handed over. If the caches are not filled yet, Run returns at once. Run fails if the
// leadership is lost (ErrNotLeading if another process has it), if it can never be obtained (ErrNoNamespace), if what
// was read is void (ErrRestored), or if the grace period is too short. When Run returns the program must exit at once:
// another process leads or is about to, and passes that did not end are still running.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(logr.NewContext(ctx, m.options.Log))
	defer cancel(nil)
	if m.lease != nil {
		m.lease.fail = cancel
	}
	ended := make(chan error, 1)
	go func() { ended <- m.manager.Start(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if m.filled() { // Start does not return before that
			err = <-ended
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrNoNamespace) || errors.Is(cause, ErrNotLeading) || errors.Is(cause, ErrRestored) {
		return cause
	}
	return err
}

// filled reports whether the caches hold what is watched.
func (m *Manager) filled() bool {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	return m.manager.GetCache().WaitForCacheSync(ctx)
}

// lead runs while this Manager leads.
func (m *Manager) lead(ctx context.Context) error {
	m.options.Log.Info("Leading", "identity", m.options.Identity)
	<-ctx.Done()
	m.options.Log.Info("No longer leading", "identity", m.options.Identity)
	return nil
}

// Healthy fails if a pass has been running for longer than Options.StuckAfter. Only a restart of
// the process helps then.
func (m *Manager) Healthy() error { return stuck(metrics.Registry, m.options.StuckAfter) }

// Ready fails until the caches hold what the controllers watch, also while this Manager stands by,
// so that it can take over at once. It fails again if a watch has been failing for three minutes,
// until two minutes after the last failure: the cache is outdated then.
func (m *Manager) Ready() error {
	if !m.filled() {
		return errors.Join(errors.New("the caches are not filled yet"), m.watches.problem(0))
	}
	return m.watches.problem(m.watches.patience)
}
