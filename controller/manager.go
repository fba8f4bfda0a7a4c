package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Manager runs controllers.
type Manager struct {
	options         Options
	manager         manager.Manager
	lease           *lease // nil without leader election
	health, metrics net.Listener
}

// New makes a Manager of the API server that config reaches, sets the controllers up and opens the listeners. No call is
// made to the API server, and none will wait for a budget of calls: the server has its own. A Manager that is not Run is
// to be closed.
func New(config *rest.Config, controllers []Controller, o Options) (*Manager, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	if config.UserAgent == "" {
		config.UserAgent = userAgent
	}
	m := &Manager{options: o}
	if err := m.build(config, controllers); err != nil {
		m.Close()
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
	}
	if m.manager, err = manager.New(config, settings); err != nil {
		return fmt.Errorf("building the manager of controllers: %w", err)
	}
	named := map[string]bool{}
	for _, c := range controllers {
		if named[c.Name()] {
			return fmt.Errorf("two controllers have the name %q", c.Name())
		}
		named[c.Name()] = true
		if err := c.SetupWithManager(m.manager); err != nil {
			return fmt.Errorf("setting up controller %s: %w", c.Name(), err)
		}
	}
	return errors.Join(m.manager.Add(manager.RunnableFunc(m.lead)), m.listen())
}

// settings are those of controller-runtime, whose servers are not used: ours tell more.
func (m *Manager) settings() manager.Options {
	o := &m.options
	return manager.Options{
		Scheme:  o.Scheme,
		Logger:  o.Log,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: namespaces(o.Namespaces),
			DefaultTransform:  cache.TransformStripManagedFields(),
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
			ReconciliationTimeout:   o.PassTimeout,
			EnableWarmup:            ptr.To(true), // who stands by has its caches filled
			SkipNameValidation:      ptr.To(true), // names differ within a Manager, not within the process
			Logger:                  o.Log,
		},
	}
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

// listen opens the listeners and has the manager serve on them.
func (m *Manager) listen() error {
	health := http.NewServeMux()
	health.Handle("GET /healthz", probe{"healthz", []check{{"passes", m.passes}}})
	health.Handle("GET /readyz", probe{"readyz", []check{{"caches", m.caches}, {"leader", m.leader}}})
	scraped := health
	if m.options.MetricsAddress != m.options.HealthAddress {
		scraped = http.NewServeMux()
	}
	scraped.Handle("GET /metrics", scrape(page(m.options.Gatherer)))
	var err error
	if m.health, err = m.serve("health", m.options.HealthAddress, health); err != nil {
		return err
	}
	if scraped == health {
		m.metrics = m.health
		return nil
	}
	m.metrics, err = m.serve("metrics", m.options.MetricsAddress, scraped)
	return err
}

// serve opens a listener, on which the manager serves from its start to its end.
func (m *Manager) serve(name, address string, handler http.Handler) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return listener, m.manager.Add(&manager.Server{
		Name: name, Server: newServer(handler), Listener: listener, ShutdownTimeout: &m.options.Grace,
	})
}

// HealthAddress is where the probes are served, host:port; empty if they are not.
func (m *Manager) HealthAddress() string { return address(m.health) }

// MetricsAddress is where the metrics are served, host:port; empty if they are not.
func (m *Manager) MetricsAddress() string { return address(m.metrics) }

// Leader is the identity last seen to lead, empty if none was, and whether it is this Manager. Without leader election it
// is this one, without a name.
func (m *Manager) Leader() (identity string, itself bool) {
	if m.lease == nil {
		return "", true
	}
	identity = m.lease.last()
	return identity, identity == m.options.Identity
}

// Run runs the controllers until ctx is done, whenever this Manager leads. Then passes under way may end within the
// grace, and the leadership is handed over. Run fails when the leadership is lost, or the grace is not enough. In either
// case the program has to exit at once: another leads or is about to, and what did not end goes on.
func (m *Manager) Run(ctx context.Context) error {
	defer m.Close()
	return m.manager.Start(logr.NewContext(ctx, m.options.Log))
}

// Close closes the listeners of a Manager that is not Run.
func (m *Manager) Close() {
	for _, listener := range []net.Listener{m.health, m.metrics} {
		if listener != nil {
			_ = listener.Close() // closed already if it ran
		}
	}
}

// lead runs while this Manager leads.
func (m *Manager) lead(ctx context.Context) error {
	m.options.Log.Info("Leading", "identity", m.options.Identity)
	<-ctx.Done()
	m.options.Log.Info("Not leading any more", "identity", m.options.Identity)
	return nil
}

// passes is the check of the passes under way.
func (m *Manager) passes(*http.Request) (string, error) {
	return "ok", stuck(metrics.Registry, m.options.StuckAfter)
}

// caches is the check that all is cached that is watched.
func (m *Manager) caches(r *http.Request) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), probeTimeout)
	defer cancel()
	if !m.manager.GetCache().WaitForCacheSync(ctx) {
		return "", errors.New("they do not hold all that is watched yet")
	}
	return "ok", nil
}

// leader says who leads; it is never wrong not to.
func (m *Manager) leader(*http.Request) (string, error) {
	switch identity, itself := m.Leader(); {
	case itself:
		return "leads", nil
	case identity == "":
		return "stands by, nobody leads", nil
	default:
		return "stands by for " + identity, nil
	}
}
