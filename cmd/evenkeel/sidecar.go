package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/serving/recording"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

const (
	// The minimum interval and the timeout of the calls by which a standby replica checks that the
	// cloud responds.
	standbyInterval, standbyTimeout = 5 * time.Second, 2 * time.Second
	// sidecarMetrics is how the names of the sidecar's own metrics begin.
	sidecarMetrics = "evenkeel_sidecar_"
)

// sidecarOptions are the flags of the sidecar.
type sidecarOptions struct {
	autoscalerServer
	expanderAddress string
	expanderFiles   serving.Files
	backendAddress  string
	backendFiles    serving.Files
	balance         bool
	inferReadiness  bool
	journalFile     string
	leaderElect     bool
	record          string // file
	replay          string // file
	output          printing.Flags
}

func newSidecar() *cobra.Command {
	o := sidecarOptions{}
	cmd := &cobra.Command{
		Use:   "sidecar --backend-address HOST:PORT",
		Short: "Balance similar node groups for an unmodified Cluster Autoscaler",
		Long: `Run between an unmodified Cluster Autoscaler and its external gRPC cloud provider, and balance similar node groups
exactly: as its expander, choose the set of node groups and the member to grow; as its provider, grant that member its
share of the split. Cluster Autoscaler asks for the rest at once.

Start Cluster Autoscaler with --cloud-provider=externalgrpc (its cloud config names --address), --expander=grpc,
--grpc-expander-url and --grpc-expander-cert (for --expander-address). Its own --balance-similar-node-groups may stay on.

The readiness of nodes is read from the API server, which also stores the journal that keeps the state through a crash: a
ConfigMap that only the leading replica can write. Without access to the API server give --journal-file and
--infer-readiness.

With --replay nothing is served: the events in a file of --record-events are decided again, by the flags that are given
now. The exit code is 1 if something is decided otherwise.`,
		Example: `  evenkeel sidecar --backend-address provider:8086 --expander-cert server.crt --expander-key server.key
  evenkeel sidecar --backend-address 127.0.0.1:8090 --no-cluster --infer-readiness --journal-file journal.json ...
  evenkeel sidecar --replay events.jsonl`,
		GroupID: groupServers,
		Args:    noArguments,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.validate(cmd.Flags()) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.replay != "" {
				return o.runReplay(cmd)
			}
			return o.log.serving(o.run)(cmd, args)
		},
	}
	o.addTo(cmd.Flags())
	o.output.AddTo(cmd, printing.Table, printing.JSON, printing.YAML)
	return cmd
}

// run serves until ctx is done, and waits at shutdown for increases in progress.
func (o *sidecarOptions) run(ctx context.Context, log logr.Logger) error {
	return o.session(log, seldom, func(s *session) (err error) {
		s.options.Before136, s.options.Connection = externalgrpc.Before136, serving.Connection
		if s.options.Metrics, err = sidecar.NewMetrics(s.registry); err != nil {
			return err
		}
		connection, err := serving.Dial(o.backendAddress, o.backendFiles, clock.RealClock{},
			s.metrics.Backend(&externalgrpcpb.CloudProvider_ServiceDesc))
		if err != nil {
			return &usageError{fmt.Errorf("--backend-address=%s: %w", o.backendAddress, err), "see the flags that begin with --backend"}
		}
		s.closeLater(connection.Close)
		if err := o.join(ctx, s); err != nil {
			return err
		}
		backend := externalgrpc.NewClient(connection)
		balancer, err := sidecar.New(backend, s.options)
		if err != nil {
			return &usageError{err, "see the flags that say which groups are similar"}
		}
		if err := s.follow(ctx, balancer.Shift); err != nil {
			return err
		}
		recorded, err := o.openRecord(s)
		if err != nil {
			return err
		}
		s.ready["cloud"] = (&standby{sidecar: balancer, backend: backend, clock: clock.RealClock{}}).ready
		return o.serve(ctx, s, balancer, recorded)
	})
}

// join connects to the cluster, and gives the sidecar its journal, its view of the nodes and its events.
func (o *sidecarOptions) join(ctx context.Context, s *session) error {
	to := &s.options
	if err := s.join(ctx, func(ctx context.Context, config *rest.Config, options cluster.Options) (func(), error) {
		if to.NoticePods {
			options.PodConditions = conditions.NewMetrics(s.registry, sidecarMetrics)
		}
		if !o.leaderElect {
			options.Lease = ""
		}
		c, err := cluster.New(ctx, config, options)
		if err != nil {
			return nil, err
		}
		to.Journal, to.Recorder = c.Journal, c.Recorder
		if c.Notices != nil { // nil where the conditions of pods are not written
			to.Notices = c.Notices
		}
		if !o.inferReadiness {
			to.Nodes, s.ready["nodes"] = c.Nodes, c.Nodes.Problem
		}
		return c.Wait, nil
	}); err != nil || o.journalFile == "" {
		return err
	}
	journal, err := openJournal(ctx, o.journalFile)
	if err != nil {
		return &usageError{fmt.Errorf("--journal-file=%s: %w", o.journalFile, err),
			"each sidecar needs a file of its own, in an existing folder"}
	}
	s.closeLater(func() error { _ = journal.Close(); return nil }) // nothing is buffered
	to.Journal = journal
	return nil
}

// openJournal opens a journal and makes sure that it can be read.
func openJournal(ctx context.Context, path string) (*cluster.FileJournal, error) {
	journal, err := cluster.OpenFileJournal(path)
	if err != nil {
		return nil, err
	}
	if _, err := journal.Load(ctx); err != nil {
		_ = journal.Close() // nothing was written
		return nil, err
	}
	return journal, nil
}

// openRecord opens the recording of calls, if there is one.
func (o *sidecarOptions) openRecord(s *session) ([]grpc.ServerOption, error) {
	if o.record == "" {
		return nil, nil
	}
	recorder, err := recording.Open(o.record, recording.Options{Report: func(err error) {
		s.log.Error(err, "Calls are missing from the recording", "file", o.record)
	}})
	if err != nil {
		return nil, &usageError{fmt.Errorf("--record=%s: %w", o.record, err), "must be a file that can be written"}
	}
	s.closeLater(recorder.Close)
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(recorder.Intercept)}, nil
}

func (o *sidecarOptions) serve(ctx context.Context, s *session, balancer *sidecar.Sidecar, recorded []grpc.ServerOption) error {
	web, err := s.web("sidecar", balancer.Status)
	if err != nil {
		return err
	}
	provider, err := s.listen(ctx, "address", o.address, serving.Options{
		Name: "provider", Files: o.files, MaxRequest: maxProviderRequest, Plaintext: o.plaintext.allows(providerListener), GRPC: recorded,
	})
	if err != nil {
		return err
	}
	externalgrpc.NewServer(balancer).Register(provider)
	provider.Health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	if o.expanderAddress != "" {
		options := serving.Options{Files: o.expanderFiles, GRPC: append(slices.Clone(recorded), grpcexpander.Report(balancer))}
		if err := s.expand(ctx, "expander-address", o.expanderAddress, options, balancer); err != nil {
			return err
		}
	}
	err = s.serve(ctx, web)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.grace)
	defer cancel()
	if balancer.Wait(ctx) != nil {
		s.log.Info("Stopped before the cloud answered an increase, which is in the journal", "grace", o.grace.String())
	}
	return err
}

// standby is a sidecar whose Cluster Autoscaler may be waiting for the leadership and make no
// calls. Then it calls the cloud itself: a standby replica must be ready, or a rollout never ends.
type standby struct {
	sidecar *sidecar.Sidecar
	backend *externalgrpc.Client
	clock   clock.PassiveClock

	mu      sync.Mutex
	checked time.Time
	err     error
}

// ready returns nil if Cluster Autoscaler is served, or could be served.
func (s *standby) ready() error {
	err := s.sidecar.Ready()
	if err == nil || !s.sidecar.Status().LastRefresh.IsZero() {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.Since(s.checked) < standbyInterval {
		return s.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), standbyTimeout)
	defer cancel()
	_, s.err = s.backend.NodeGroups(ctx)
	if s.err != nil {
		s.err = fmt.Errorf("the cloud does not answer: %w", s.err)
	}
	s.checked = s.clock.Now()
	return s.err
}
