package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/serving"
	"github.com/evenkeel/evenkeel/serving/recording"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

// sidecarOptions are the flags of the sidecar.
type sidecarOptions struct {
	address         string
	files           serving.Files
	expanderAddress string
	expanderFiles   serving.Files
	backendAddress  string
	backendFiles    serving.Files
	metricsAddress  string
	plaintext       bool
	grace           time.Duration

	expander   string
	priorities string
	balance    bool
	sidecar    sidecar.Options

	kubeconfig     string
	noCluster      bool
	inferReadiness bool
	journalFile    string
	leaderElect    bool
	cluster        cluster.Options
	record         string
	log            logFlags
}

func newSidecar() *cobra.Command {
	o := sidecarOptions{}
	cmd := &cobra.Command{
		Use:   "sidecar --backend-address HOST:PORT",
		Short: "Balance similar node groups for an unmodified Cluster Autoscaler",
		Long: `Stand between an unmodified Cluster Autoscaler and its external gRPC cloud provider, and balance similar node groups
exactly: as its expander, choose the set of node groups and the member to grow; as its provider, grant that member its
share of the split. Cluster Autoscaler comes back at once for the rest.

Start Cluster Autoscaler with --cloud-provider=externalgrpc (its cloud config names --address), --expander=grpc,
--grpc-expander-url and --grpc-expander-cert (for --expander-address), and --balance-similar-node-groups=false.

Which nodes are ready comes from the API server, and so does the journal that lets the books survive a crash: a
ConfigMap that only the leading replica can write. Without access to the API server give --journal-file and
--infer-readiness.`,
		Example: `  evenkeel sidecar --backend-address provider:8086 --expander-cert server.crt --expander-key server.key
  evenkeel sidecar --backend-address 127.0.0.1:8090 --no-cluster --infer-readiness --journal-file journal.json ...`,
		GroupID: groupServers,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.log.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.run(logr.NewContext(cmd.Context(), log), log)
		},
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *sidecarOptions) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.address, "address", "127.0.0.1:8086", "where Cluster Autoscaler finds its cloud provider")
	f.StringVar(&o.files.Cert, "cert", "", "certificate of the provider listener; without one there is no TLS")
	f.StringVar(&o.files.Key, "key", "", "key of --cert")
	f.StringVar(&o.files.CACert, "cacert", "", "authority that clients of the provider listener need a certificate of")
	f.StringVar(&o.expanderAddress, "expander-address", "127.0.0.1:8087", "where Cluster Autoscaler finds its expander")
	f.StringVar(&o.expanderFiles.Cert, "expander-cert", "", "certificate of the expander listener, which Cluster Autoscaler insists on")
	f.StringVar(&o.expanderFiles.Key, "expander-key", "", "key of --expander-cert")
	f.StringVar(&o.backendAddress, "backend-address", "", "the real external cloud provider, host:port")
	f.StringVar(&o.backendFiles.Cert, "backend-cert", "", "client certificate shown to the real provider")
	f.StringVar(&o.backendFiles.Key, "backend-key", "", "key of --backend-cert")
	f.StringVar(&o.backendFiles.CACert, "backend-cacert", "", "certificate the real provider's must be signed by; with it the connection has TLS")
	f.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:8088", "where /healthz, /readyz, /metrics and /status are; empty for nowhere")
	f.BoolVar(&o.plaintext, "allow-plaintext", false, "allow listeners without TLS off loopback")
	f.DurationVar(&o.grace, "grace", serving.DefaultGrace, "how long calls may take to finish at the end")

	f.StringVar(&o.expander, "expander", expander.Default, "strategies that choose between sets, comma-separated: "+strings.Join(expander.Names(), ", "))
	f.StringVar(&o.priorities, "expander-priorities", "", "file with the priorities of the strategy priority: Cluster Autoscaler's ConfigMap, or its key alone")
	f.BoolVar(&o.balance, "balance-similar-node-groups", true, "split between similar node groups")
	addSimilarityFlags(f, &o.sidecar.Similarity)
	f.DurationVar(&o.sidecar.MaxNodeProvisionTime, "max-node-provision-time", sidecar.DefaultMaxNodeProvisionTime, "the value given to Cluster Autoscaler")
	f.DurationVar(&o.sidecar.Backoff.Initial, "initial-node-group-backoff-duration", 0, "how long a member that refused is left alone; 0 means 5m")
	f.DurationVar(&o.sidecar.Backoff.Max, "max-node-group-backoff-duration", 0, "how long at most after repeated refusals; 0 means 30m")
	f.DurationVar(&o.sidecar.Backoff.Reset, "node-group-backoff-reset-timeout", 0, "after how long a refusal is forgotten; 0 means 3h")
	f.DurationVar(&o.sidecar.BackendTimeout, "backend-timeout", sidecar.DefaultBackendTimeout, "how long a call to the real provider may take; Cluster Autoscaler is answered long before")
	f.IntVar(&o.sidecar.Parallel, "backend-parallelism", sidecar.DefaultParallel, "calls to the real provider at the same time while its state is read")
	f.BoolVar(&o.sidecar.DryRun, "dry-run", false, "only tell what would be done")

	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server; empty means from inside the cluster")
	f.BoolVar(&o.noCluster, "no-cluster", false, "do without the API server")
	f.BoolVar(&o.inferReadiness, "infer-readiness", false, "infer which nodes are ready from Cluster Autoscaler's calls instead of watching them")
	f.StringVar(&o.journalFile, "journal-file", "", "keep the journal in this file instead of a ConfigMap")
	f.StringVar(&o.cluster.Namespace, "namespace", cluster.DefaultNamespace, "namespace of the journal and of Cluster Autoscaler's lease")
	f.StringVar(&o.cluster.ConfigMap, "journal-configmap", cluster.DefaultConfigMap, "ConfigMap of the journal")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "whether Cluster Autoscaler elects a leader; only beside the leader is the journal written")
	f.StringVar(&o.cluster.Lease, "leader-elect-resource-name", cluster.DefaultLease, "Cluster Autoscaler's lease")
	f.StringVar(&o.cluster.Identity, "leader-identity", "", "holder of the lease when Cluster Autoscaler beside this leads; empty means the host's name")
	f.StringArrayVar(&o.cluster.StartupTaints, "startup-taint", nil, "taint of nodes that are not ready yet, as given to Cluster Autoscaler; may be repeated")
	f.StringVar(&o.record, "record", "", "append every call to this file, as JSON lines")
	o.log.addTo(f)
}

func (o *sidecarOptions) validate() error {
	switch {
	case o.backendAddress == "":
		return errors.New("no cloud provider to stand in front of (name it with --backend-address)")
	case o.expanderAddress != "" && (o.expanderFiles.Cert == "" || o.expanderFiles.Key == ""):
		return errors.New("the expander needs --expander-cert and --expander-key, Cluster Autoscaler insists on TLS (evenkeel certs makes a pair)")
	case o.noCluster && o.kubeconfig != "":
		return errors.New("--no-cluster and --kubeconfig exclude each other")
	case o.noCluster && !o.inferReadiness:
		return errors.New("--no-cluster needs --infer-readiness: nobody else tells which nodes are ready")
	case o.noCluster && o.journalFile == "":
		return errors.New("--no-cluster needs --journal-file: without a journal nothing is granted in part")
	case o.sidecar.Parallel < 1:
		return fmt.Errorf("invalid --backend-parallelism %d: must be 1 or more", o.sidecar.Parallel)
	}
	for name, d := range map[string]time.Duration{
		"max-node-provision-time": o.sidecar.MaxNodeProvisionTime, "backend-timeout": o.sidecar.BackendTimeout, "grace": o.grace,
	} {
		if d <= 0 {
			return fmt.Errorf("invalid --%s %s: must be positive", name, d)
		}
	}
	return nil
}

// chain makes the strategies.
func (o *sidecarOptions) chain() (expander.Chain, error) {
	names, err := expander.ParseNames(o.expander)
	if err != nil {
		return expander.Chain{}, &usageError{fmt.Errorf("--expander=%s: %w", o.expander, err), "strategies are " + strings.Join(expander.Names(), ", ")}
	}
	var config expander.Config
	if o.priorities != "" {
		data, err := os.ReadFile(o.priorities)
		if err == nil {
			config.Priorities, err = expander.ParsePriorities(data)
		}
		if err != nil {
			return expander.Chain{}, &usageError{fmt.Errorf("--expander-priorities=%s: %w", o.priorities, err), "a map from priorities to regular expressions"}
		}
	}
	chain, err := expander.New(names, config)
	if err != nil {
		return expander.Chain{}, &usageError{fmt.Errorf("--expander=%s: %w", o.expander, err), "see --expander-priorities"}
	}
	return chain, nil
}

// run serves until ctx is done.
func (o *sidecarOptions) run(ctx context.Context, log logr.Logger) (err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := serving.NewMetrics(registry)

	options := o.sidecar
	options.Log, options.Connection, options.Metrics, options.NotBalanced = log, serving.Connection, sidecar.NewMetrics(registry), !o.balance
	if options.Chain, err = o.chain(); err != nil {
		return err
	}
	backend, err := serving.Dial(o.backendAddress, o.backendFiles, clock.RealClock{}, metrics.Backend(&externalgrpcpb.CloudProvider_ServiceDesc))
	if err != nil {
		return fmt.Errorf("--backend-address=%s: %w", o.backendAddress, err)
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	closeWorld, err := o.join(ctx, log, &options)
	if err != nil {
		return err
	}
	defer closeWorld()
	s, err := sidecar.New(externalgrpc.NewClient(backend), options)
	if err != nil {
		return &usageError{err, "see the flags that say which groups are similar"}
	}
	return o.serve(ctx, log, s, registry, metrics)
}

// join gives the sidecar its journal, its sight of the nodes and its events.
func (o *sidecarOptions) join(ctx context.Context, log logr.Logger, options *sidecar.Options) (closer func(), err error) {
	closer = func() {}
	if !o.noCluster {
		config, err := o.restConfig()
		if err != nil {
			return closer, err
		}
		o.cluster.Log = log
		o.cluster.PodName, o.cluster.PodUID, o.cluster.PodNamespace = os.Getenv("POD_NAME"), os.Getenv("POD_UID"), os.Getenv("POD_NAMESPACE")
		if !o.leaderElect {
			o.cluster.Lease = ""
		}
		ctx, cancel := context.WithCancel(ctx)
		c, err := cluster.New(ctx, config, o.cluster)
		if err != nil {
			cancel()
			return closer, err
		}
		closer = func() { cancel(); c.Wait() }
		options.Journal, options.Recorder = c.Journal, c.Recorder
		if !o.inferReadiness {
			options.Nodes = c.Nodes
		}
	}
	if o.journalFile != "" {
		journal, err := cluster.OpenFileJournal(o.journalFile)
		if err != nil {
			closer()
			return func() {}, fmt.Errorf("--journal-file=%s: %w", o.journalFile, err)
		}
		before := closer
		closer = func() { before(); _ = journal.Close() } // nothing is buffered
		options.Journal = journal
	}
	return closer, nil
}

func (o *sidecarOptions) restConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil && o.kubeconfig == "" {
		return nil, &usageError{fmt.Errorf("not inside a cluster: %w", err), "give --kubeconfig, or --no-cluster"}
	}
	if err != nil {
		return nil, &usageError{fmt.Errorf("--kubeconfig=%s: %w", o.kubeconfig, err), "must be a kubeconfig file"}
	}
	return config, nil
}

// serve runs the listeners.
func (o *sidecarOptions) serve(ctx context.Context, log logr.Logger, s *sidecar.Sidecar, registry *prometheus.Registry, metrics *serving.Metrics) (err error) {
	common := serving.Options{Plaintext: o.plaintext, Grace: o.grace, Metrics: metrics}
	if o.record != "" {
		recorder, err := recording.Open(o.record, recording.Options{Report: func(err error) { log.Error(err, "Calls are missing from the recording", "file", o.record) }})
		if err != nil {
			return fmt.Errorf("--record=%s: %w", o.record, err)
		}
		defer func() { err = errors.Join(err, recorder.Close()) }()
		common.GRPC = append(common.GRPC, grpc.ChainUnaryInterceptor(recorder.Intercept))
	}
	provider, err := o.listen(ctx, "provider", o.address, o.files, common)
	if err != nil {
		return err
	}
	defer provider.Stop()
	externalgrpc.NewServer(s).Register(provider)
	running := []interface{ Run(context.Context) error }{provider}
	log.Info("Serving the cloud provider", "address", provider.Address())

	checks := map[string]func() error{"cloud": s.Ready, "provider-certificate": provider.Problem}
	if o.expanderAddress != "" {
		chooser, err := o.listen(ctx, "expander", o.expanderAddress, o.expanderFiles, common)
		if err != nil {
			return err
		}
		defer chooser.Stop()
		grpcexpander.NewServer(s).Register(chooser)
		checks["expander-certificate"] = chooser.Problem
		running = append(running, chooser)
		log.Info("Serving the expander", "address", chooser.Address())
	}
	if o.metricsAddress != "" {
		web, err := serving.ListenHTTP(ctx, o.metricsAddress, serving.HTTPOptions{
			Plaintext: o.plaintext, Ready: checks, Gatherer: registry, Metrics: metrics, Grace: o.grace, Name: "metrics",
		})
		if err != nil {
			return fmt.Errorf("--metrics-address=%s: %w", o.metricsAddress, err)
		}
		defer web.Stop()
		running = append(running, web)
		log.Info("Serving probes, metrics and status", "address", web.Address())
	}
	provider.Health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	all, ctx := errgroup.WithContext(ctx)
	for _, server := range running {
		all.Go(func() error { return server.Run(ctx) })
	}
	err = all.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.grace)
	defer cancel()
	return errors.Join(err, s.Wait(ctx))
}

func (o *sidecarOptions) listen(ctx context.Context, name, address string, files serving.Files, common serving.Options) (*serving.Server, error) {
	common.Name, common.Files = name, files
	server, err := serving.Listen(ctx, address, common)
	if err != nil {
		return nil, &usageError{fmt.Errorf("%s listener on %s: %w", name, address, err), "see the flags for addresses and certificates"}
	}
	return server, nil
}
