package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

// expanderOptions are the flags of the expander alone. Of the listeners only the pages may be without TLS.
type expanderOptions struct {
	autoscalerServer
	countNodes bool
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
	o.autoscalerServer.addTo(f, metricsListener)
	f.BoolVar(&o.options.DryRun, "dry-run", false,
		"only report what would be chosen, and leave the choice to the next expander of Cluster Autoscaler")
	f.BoolVar(&o.noCluster, "no-cluster", false, "do not use the API server: sizes are those of the answers since the start")
	f.BoolVar(&o.countNodes, "count-nodes", false,
		"watch the nodes, and count those of each group by their labels while there is no status; needs to list and watch nodes")
	f.StringVar(&o.cluster.Namespace, "namespace", cluster.DefaultNamespace,
		"namespace of Cluster Autoscaler's status: the value of its --namespace")
	f.StringVar(&o.cluster.ConfigMap, "status-config-map-name", autoscalerstatus.ConfigMap,
		"ConfigMap of Cluster Autoscaler's status: the value of its --status-config-map-name")
	f.StringVar(&o.recordEvents, "record-events", "", "append everything that is decided about to this file, as JSON lines")
}

func (o *expanderOptions) validate(f *pflag.FlagSet) error {
	o.shifts.namespace = o.cluster.Namespace
	return cmp.Or(
		refuse(o.files.Cert == "" || o.files.Key == "",
			"the expander needs --cert and --key, because Cluster Autoscaler requires TLS (evenkeel certs makes a pair)"),
		refuse(slices.Contains(strings.Split(o.choice.expander, ","), "price"),
			"--expander=%s: prices are known to Cluster Autoscaler only: give it --expander=price,grpc, and leave price out here",
			o.choice.expander),
		refuse(o.noCluster && o.kubeconfig != "", "--no-cluster and --kubeconfig cannot be combined"),
		refuse(o.noCluster && o.countNodes, "--count-nodes needs a cluster: without one there are no nodes to count"),
		refuse(o.noCluster && o.shifts.configMap != "", "--zonal-shift-configmap needs a cluster: give --zonal-shift-file with --no-cluster"),
		checkAddress("address", o.address), checkFiles("", o.files), o.pages.validate(), o.shifts.validate(),
		positive(f, "max-node-provision-time", "grace"),
	)
}

// run serves until ctx is done.
func (o *expanderOptions) run(ctx context.Context, log logr.Logger) error {
	const collected = 50 // it keeps little, and is asked once for each increase
	return o.session(log, collected, func(s *session) (err error) {
		if s.options.Metrics, err = sidecar.NewExpanderMetrics(s.registry); err != nil {
			return err
		}
		var nodes sidecar.ExpanderNodes // nil unless they are counted
		watch := func(*sidecar.Expander) {}
		if err := s.join(ctx, func(ctx context.Context, config *rest.Config, options cluster.Options) (func(), error) {
			b, err := cluster.NewBeside(ctx, config, options, o.countNodes)
			if err != nil {
				return nil, err
			}
			s.options.Recorder, nodes = b.Recorder, b.Nodes
			watch = func(e *sidecar.Expander) { b.WatchStatus(ctx, e.Sizes) }
			return b.Wait, nil
		}); err != nil {
			return err
		}
		e, err := sidecar.NewExpander(nodes, s.options)
		if err != nil {
			return &usageError{err, "see the flags that say which groups are similar"}
		}
		watch(e)
		if err := s.follow(ctx, e.Shift); err != nil {
			return err
		}
		web, err := s.web("expander", e.Status)
		if err != nil {
			return err
		}
		if err := s.expand(ctx, "address", o.address, serving.Options{Files: o.files}, e); err != nil {
			return err
		}
		return s.serve(ctx, web)
	})
}
