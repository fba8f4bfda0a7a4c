package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
	"github.com/evenkeel/evenkeel/sidecar/statuspage"
)

// expanderOptions are the flags of the expander alone.
type expanderOptions struct {
	address string
	files   serving.Files
	pages   pageFlags
	// plaintext is of the pages: the expander itself is never without TLS.
	plaintext    plaintextFlag
	grace        time.Duration
	choice       choiceFlags
	decisions    sidecar.Options
	kubeconfig   string
	noCluster    bool
	countNodes   bool
	cluster      cluster.Options
	recordEvents string // file
	shifts       shiftFlags
	log          logFlags
}

func newExpander() *cobra.Command {
	o := expanderOptions{}
	cmd := &cobra.Command{
		Use:   "expander --cert FILE --key FILE",
		Short: "Balance similar node groups for an unmodified Cluster Autoscaler of any cloud",
		Long: `Answer an unmodified Cluster Autoscaler as its expander, whatever its cloud provider is: choose the set of node groups by
the strategies of --expander, and in it the member that is furthest below its share. Nothing else changes: Cluster
Autoscaler orders nodes by itself, and keeps its own account of what is on its way and what has failed.

Start Cluster Autoscaler with --expander=grpc, --grpc-expander-url and --grpc-expander-cert (for --address),
--balance-similar-node-groups=false, and --max-nodes-per-scaleup=1, or a few nodes more in large fleets: groups end within
as many nodes of the exact split. Each increase takes a loop, so before 1.35 it needs --frequent-loops-enabled too. Without
this server Cluster Autoscaler goes on, and chooses a group by chance.

The sizes of the groups are read from the status that Cluster Autoscaler writes to a ConfigMap.`,
		Example: `  evenkeel expander --cert server.crt --key server.key
  evenkeel expander --cert server.crt --key server.key --expander least-waste --namespace cluster-autoscaler`,
		GroupID: groupServers,
		Args:    noArguments,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.validate(cmd.Flags()) },
		RunE:    o.log.serving(o.run),
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *expanderOptions) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.address, "address", "127.0.0.1:8087", "address of the expander for Cluster Autoscaler")
	addCertificate(f, &o.files, "", "certificate of the expander, required by Cluster Autoscaler", "")
	o.pages.addTo(f, "127.0.0.1:8088", "/healthz, /readyz, /metrics and /status")
	o.plaintext.addTo(f)
	f.DurationVar(&o.grace, "grace", serving.DefaultGrace, "how long calls in progress may take to finish at shutdown")
	o.choice.addTo(f)
	addSimilarityFlags(f, &o.decisions.Similarity)
	f.DurationVar(&o.decisions.MaxNodeProvisionTime, "max-node-provision-time", cloudprovider.DefaultMaxNodeProvisionTime,
		"the value passed to Cluster Autoscaler")
	f.BoolVar(&o.decisions.DryRun, "dry-run", false,
		"only report what would be chosen, and leave the choice to the next expander of Cluster Autoscaler")
	o.shifts.addTo(f)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file for the API server; empty means in-cluster configuration")
	f.BoolVar(&o.noCluster, "no-cluster", false, "do not use the API server: sizes are those of the answers since the start")
	f.BoolVar(&o.countNodes, "count-nodes", false,
		"watch the nodes, and count those of each group by their labels while there is no status; needs to list and watch nodes")
	f.StringVar(&o.cluster.Namespace, "namespace", cluster.DefaultNamespace,
		"namespace of Cluster Autoscaler's status: the value of its --namespace")
	f.StringVar(&o.cluster.ConfigMap, "status-config-map-name", autoscalerstatus.ConfigMap,
		"ConfigMap of Cluster Autoscaler's status: the value of its --status-config-map-name")
	f.StringVar(&o.recordEvents, "record-events", "", "append everything that is decided about to this file, as JSON lines")
	o.log.addTo(f)
}

func (o *expanderOptions) validate(f *pflag.FlagSet) error {
	o.shifts.namespace = o.cluster.Namespace
	return cmp.Or(
		refuse(o.files.Cert == "" || o.files.Key == "",
			"the expander needs --cert and --key, because Cluster Autoscaler requires TLS (evenkeel certs makes a pair)"),
		refuse(slices.Contains(strings.Split(o.choice.expander, ","), "price"),
			"--expander=%s: prices are known to Cluster Autoscaler only: give it --expander=price,grpc, and leave price out here",
			o.choice.expander),
		refuse(o.noCluster && o.kubeconfig != "", "--no-cluster and --kubeconfig exclude each other"),
		refuse(o.noCluster && o.countNodes, "--count-nodes needs a cluster: without one there are no nodes to count"),
		refuse(o.noCluster && o.shifts.configMap != "", "--zonal-shift-configmap needs a cluster: give --zonal-shift-file with --no-cluster"),
		checkAddress("address", o.address), checkFiles("", o.files), o.pages.validate(), o.shifts.validate(),
		positive(f, "max-node-provision-time", "grace"),
	)
}

// run serves until ctx is done.
func (o *expanderOptions) run(ctx context.Context, log logr.Logger) (err error) {
	defer collect(50)() // it keeps little, and is asked once for each increase
	registry, metrics := newRegistry()
	options := o.decisions
	options.ZonalShift, options.Log = o.shifts.options(), log
	if err := o.choice.decide(&options); err != nil {
		return err
	}
	if options.Metrics, err = sidecar.NewExpanderMetrics(registry); err != nil {
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
	beside, err := o.join(ctx, log)
	if err != nil {
		return err
	}
	defer beside.close()
	options.Recorder = beside.recorder
	e, err := sidecar.NewExpander(beside.nodes, options)
	if err != nil {
		return &usageError{err, "see the flags that say which groups are similar"}
	}
	beside.watch(e)
	stop, err := o.shifts.watch(ctx, beside.config, e.Shift)
	if err != nil {
		return err
	}
	defer stop()
	web := serving.HTTPOptions{
		Plaintext: o.plaintext.allows(metricsListener), Gatherer: registry, Metrics: metrics, Grace: o.grace, Ready: map[string]func() error{},
	}
	if err := o.pages.guard(&web, beside.config, log); err != nil {
		return err
	}
	return o.serve(ctx, log, e, serving.Options{Grace: o.grace, Metrics: metrics}, web)
}

// surroundings are the connection of an expander to its cluster.
type surroundings struct {
	config   *rest.Config // nil without a cluster
	recorder sidecar.Recorder
	nodes    sidecar.ExpanderNodes   // nil unless they are counted
	watch    func(*sidecar.Expander) // begins to report the status of Cluster Autoscaler
	close    func()
}

// join connects to the cluster. What it returns is closed when all calls have ended.
func (o *expanderOptions) join(ctx context.Context, log logr.Logger) (*surroundings, error) {
	if o.noCluster {
		return &surroundings{watch: func(*sidecar.Expander) {}, close: func() {}}, nil
	}
	config, err := restConfig(o.kubeconfig, "give --kubeconfig, or --no-cluster")
	if err != nil {
		return nil, err
	}
	options := o.cluster
	options.Log = log
	options.PodName, options.PodUID, options.PodNamespace = os.Getenv("POD_NAME"), os.Getenv("POD_UID"), os.Getenv("POD_NAMESPACE")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b, err := cluster.NewBeside(ctx, config, options, o.countNodes)
	if err != nil {
		cancel()
		return nil, &usageError{err, "see --kubeconfig"}
	}
	return &surroundings{
		config: config, recorder: b.Recorder, nodes: b.Nodes,
		watch: func(e *sidecar.Expander) { b.WatchStatus(ctx, e.Sizes) },
		close: func() { cancel(); b.Wait() },
	}, nil
}

// serve runs the listeners.
func (o *expanderOptions) serve(ctx context.Context, log logr.Logger, e *sidecar.Expander, common serving.Options,
	web serving.HTTPOptions) error {
	options := with(common, "expander", o.files, grpcexpander.MaxMessage)
	options.GRPC = []grpc.ServerOption{grpc.MaxConcurrentStreams(maxExpanderCalls)}
	server, err := listen(ctx, "address", o.address, options)
	if err != nil {
		return err
	}
	defer server.Stop()
	grpcexpander.NewServer(e).Register(server)
	web.Ready["expander-certificate"] = server.Problem
	web.Handlers = map[string]http.Handler{"/status": statuspage.New(e.Status)}
	pages, err := o.pages.listen(ctx, web)
	if err != nil {
		return err
	}
	defer pages.stop()
	log.Info("Serving Cluster Autoscaler", append([]any{"expander", server.Address()}, pages.addresses...)...)
	return runAll(ctx, append([]runner{server}, pages.servers...))
}
