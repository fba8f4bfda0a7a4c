package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
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
	"github.com/evenkeel/evenkeel/sidecar/statuspage"
)

const (
	// maxExpanderCalls bounds the concurrent calls of a connection to the expander: each may hold a
	// message of maximum size. Cluster Autoscaler makes one at a time.
	maxExpanderCalls = 4
	// The minimum interval and the timeout of the calls by which a standby replica checks that the
	// cloud responds.
	standbyInterval, standbyTimeout = 5 * time.Second, 2 * time.Second
	// sidecarMetrics is how the names of the sidecar's own metrics begin.
	sidecarMetrics = "evenkeel_sidecar_"
)

// sidecarOptions are the flags of the sidecar.
type sidecarOptions struct {
	address         string
	files           serving.Files
	expanderAddress string
	expanderFiles   serving.Files
	backendAddress  string
	backendFiles    serving.Files
	pages           pageFlags
	plaintext       plaintextFlag
	grace           time.Duration

	choice  choiceFlags
	balance bool
	sidecar sidecar.Options

	kubeconfig     string
	noCluster      bool
	inferReadiness bool
	journalFile    string
	leaderElect    bool
	cluster        cluster.Options
	record         string // file
	recordEvents   string // file
	replay         string // file
	output         printing.Flags
	shifts         shiftFlags
	log            logFlags
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

// run serves until ctx is done.
func (o *sidecarOptions) run(ctx context.Context, log logr.Logger) (err error) {
	defer collect(seldom)()
	registry, metrics := newRegistry()
	options, err := o.decisions()
	if err != nil {
		return err
	}
	options.Before136 = externalgrpc.Before136
	options.Log, options.Connection = log, serving.Connection
	if options.Metrics, err = sidecar.NewMetrics(registry); err != nil {
		return err
	}
	if o.recordEvents != "" {
		events, err := openEvents(o.recordEvents, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, events.Close()) }()
		options.Record = events.add
	}
	connection, err := serving.Dial(o.backendAddress, o.backendFiles, clock.RealClock{},
		metrics.Backend(&externalgrpcpb.CloudProvider_ServiceDesc))
	if err != nil {
		return &usageError{fmt.Errorf("--backend-address=%s: %w", o.backendAddress, err), "see the flags that begin with --backend"}
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	backend := externalgrpc.NewClient(connection)
	if o.sidecar.NoticePods {
		o.cluster.PodConditions = conditions.NewMetrics(registry, sidecarMetrics)
	}
	w, err := o.join(ctx, log, &options)
	if err != nil {
		return err
	}
	defer w.close()
	s, err := sidecar.New(backend, options)
	if err != nil {
		return &usageError{err, "see the flags that say which groups are similar"}
	}
	stop, err := o.shifts.watch(ctx, w.config, s.Shift)
	if err != nil {
		return err
	}
	defer stop()
	recorded, done, err := o.openRecord(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	common := serving.Options{Plaintext: o.plaintext.allows(providerListener), Grace: o.grace, Metrics: metrics, GRPC: recorded}
	checks := map[string]func() error{"cloud": (&standby{sidecar: s, backend: backend, clock: clock.RealClock{}}).ready}
	if w.problem != nil {
		checks["nodes"] = w.problem
	}
	web := serving.HTTPOptions{
		Plaintext: o.plaintext.allows(metricsListener), Ready: checks, Gatherer: registry, Metrics: metrics, Grace: o.grace,
		Handlers: map[string]http.Handler{"/status": statuspage.New(s.Status)},
	}
	if err := o.pages.guard(&web, w.config, log); err != nil {
		return err
	}
	return o.serve(ctx, log, s, common, web)
}

// decisions are the options that decide.
func (o *sidecarOptions) decisions() (options sidecar.Options, err error) {
	options = o.sidecar
	options.ZonalShift, options.NotBalanced = o.shifts.options(), !o.balance
	err = o.choice.decide(&options)
	return options, err
}

// outside is the connection of a sidecar to its cluster.
type outside struct {
	config  *rest.Config // nil without an API server
	problem func() error // why the nodes are not known; nil if they are inferred
	close   func()
}

// join connects to the cluster, and gives the sidecar its journal, its view of the nodes and its events. What
// it returns must stay open until all calls have ended.
func (o *sidecarOptions) join(ctx context.Context, log logr.Logger, to *sidecar.Options) (*outside, error) {
	w := &outside{close: func() {}}
	if !o.noCluster {
		config, err := restConfig(o.kubeconfig, "give --kubeconfig, or --no-cluster")
		if err != nil {
			return nil, err
		}
		options := o.cluster
		options.Log = log
		options.PodName, options.PodUID, options.PodNamespace = os.Getenv("POD_NAME"), os.Getenv("POD_UID"), os.Getenv("POD_NAMESPACE")
		if !o.leaderElect {
			options.Lease = ""
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c, err := cluster.New(ctx, config, options)
		if err != nil {
			cancel()
			return nil, &usageError{err, "see --kubeconfig"}
		}
		w.config, w.close = config, func() { cancel(); c.Wait() }
		to.Journal, to.Recorder = c.Journal, c.Recorder
		if c.Notices != nil { // nil where the conditions of pods are not written
			to.Notices = c.Notices
		}
		if !o.inferReadiness {
			to.Nodes, w.problem = c.Nodes, c.Nodes.Problem
		}
	}
	if o.journalFile != "" {
		journal, err := openJournal(ctx, o.journalFile)
		if err != nil {
			w.close()
			return nil, &usageError{fmt.Errorf("--journal-file=%s: %w", o.journalFile, err),
				"each sidecar needs a file of its own, in an existing folder"}
		}
		before := w.close
		w.close = func() { before(); _ = journal.Close() } // nothing is buffered
		to.Journal = journal
	}
	return w, nil
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
func (o *sidecarOptions) openRecord(log logr.Logger) (options []grpc.ServerOption, done func() error, err error) {
	if o.record == "" {
		return nil, func() error { return nil }, nil
	}
	recorder, err := recording.Open(o.record, recording.Options{Report: func(err error) {
		log.Error(err,
			"Calls are missing from the recording", "file", o.record)
	}})
	if err != nil {
		return nil, nil, &usageError{fmt.Errorf("--record=%s: %w", o.record, err), "must be a file that can be written"}
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(recorder.Intercept)}, recorder.Close, nil
}

// serve runs the listeners, and waits at shutdown for increases in progress.
func (o *sidecarOptions) serve(ctx context.Context, log logr.Logger, s *sidecar.Sidecar, common serving.Options,
	web serving.HTTPOptions) error {
	provider, err := listen(ctx, "address", o.address, with(common, "provider", o.files, maxProviderRequest))
	if err != nil {
		return err
	}
	defer provider.Stop()
	externalgrpc.NewServer(s).Register(provider)
	provider.Health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	web.Ready["provider-certificate"] = provider.Problem
	servers := []runner{provider}
	addresses := []any{"provider", provider.Address()}
	if o.expanderAddress != "" {
		options := with(common, "expander", o.expanderFiles, grpcexpander.MaxMessage)
		options.GRPC = append(slices.Clone(options.GRPC), grpc.MaxConcurrentStreams(maxExpanderCalls), grpcexpander.Report(s))
		chooser, err := listen(ctx, "expander-address", o.expanderAddress, options)
		if err != nil {
			return err
		}
		defer chooser.Stop()
		grpcexpander.NewServer(s).Register(chooser)
		web.Ready["expander-certificate"] = chooser.Problem
		servers = append(servers, chooser)
		addresses = append(addresses, "expander", chooser.Address())
	}
	pages, err := o.pages.listen(ctx, web)
	if err != nil {
		return err
	}
	defer pages.stop()
	log.Info("Serving Cluster Autoscaler", append(addresses, pages.addresses...)...)
	err = runAll(ctx, append(servers, pages.servers...))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.grace)
	defer cancel()
	if s.Wait(ctx) != nil {
		log.Info("Stopped before the cloud answered an increase, which is in the journal", "grace", o.grace.String())
	}
	return err
}

// with completes the options of a listener.
func with(common serving.Options, name string, files serving.Files, maxRequest int) serving.Options {
	common.Name, common.Files, common.MaxRequest = name, files, maxRequest
	return common
}

func listen(ctx context.Context, flag, address string, options serving.Options) (*serving.Server, error) {
	server, err := serving.Listen(ctx, address, options)
	if err != nil {
		return nil, listenError(flag, address, err)
	}
	return server, nil
}

func listenError(flag, address string, err error) error {
	return &usageError{fmt.Errorf("--%s=%s: %w", flag, address, err), "see the flags for addresses and certificates, and --allow-plaintext"}
}

// standby is a sidecar whose Cluster Autoscaler may be waiting for the leadership and make no
// calls. Then it calls the cloud itself: a standby replica must be ready, or a rollout never ends.
type standby struct {
	sidecar *sidecar.Sidecar
	backend *externalgrpc.Client
	clock   clock.PassiveClock

	mu     sync.Mutex
	looked time.Time
	err    error
}

// ready returns nil if Cluster Autoscaler is served, or could be served.
func (s *standby) ready() error {
	err := s.sidecar.Ready()
	if err == nil || !s.sidecar.Status().LastRefresh.IsZero() {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.Since(s.looked) < standbyInterval {
		return s.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), standbyTimeout)
	defer cancel()
	_, s.err = s.backend.NodeGroups(ctx)
	if s.err != nil {
		s.err = fmt.Errorf("the cloud does not answer: %w", s.err)
	}
	s.looked = s.clock.Now()
	return s.err
}
