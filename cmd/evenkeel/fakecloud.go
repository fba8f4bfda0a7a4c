package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/fakecloud"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// Calls to the API server per second: thousands of nodes take a minute, and the server stays
// available to other clients.
const fakeCloudQPS, fakeCloudBurst = 200, 400

type fakeCloudOptions struct {
	config, address, metricsAddress string
	files                           serving.Files
	plaintext                       plaintextFlag
	kubeconfig                      string
	deleteNodes                     bool
	maxFileSize                     fileSize
	log                             logFlags
}

func newFakeCloud() *cobra.Command {
	o := fakeCloudOptions{address: "127.0.0.1:8086", maxFileSize: fileSize(document.DefaultMaxSize)}
	cmd := &cobra.Command{
		Use:   "fake-cloud --config FILE",
		Short: "Serve a cloud in memory to Cluster Autoscaler",
		Long: `Serve the cloud of a Scenario, as evenkeel simulate plays it, over the protocol of Cluster Autoscaler's external cloud
provider: its node groups, boot times, quotas and faults, in real time from the start of the server. What the scenario says
about pods and the autoscaler has no effect.

With --kubeconfig the cloud's nodes are created and deleted as Node objects in that cluster; kwok can simulate their kubelets.

The cloud keeps no state: after a restart it begins with the sizes of the file.`,
		Example: `  evenkeel fake-cloud --config configs/fleets/three-zones.yaml
  evenkeel fake-cloud --config fleet.yaml --kubeconfig ~/.kube/config --metrics-address 127.0.0.1:8087
  evenkeel fake-cloud --config fleet.yaml --address :8086 --cert server.crt --key server.key --cacert ca.crt`,
		GroupID: groupServers,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "f", "", "file with the Scenario, - for standard input")
	f.Var(&o.maxFileSize, "max-file-size", "refuse larger files")
	f.StringVar(&o.address, "address", o.address, "where to serve the protocol, host:port; port 0 is any free port")
	addCertificate(f, &o.files, "", "certificate for Cluster Autoscaler; without it there is no TLS",
		"require a client certificate signed by this authority")
	o.plaintext.addTo(f, providerListener, metricsListener)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster for the Node objects; without it there are none")
	f.BoolVar(&o.deleteNodes, "delete-nodes-on-exit", false, "delete the Node objects at shutdown")
	f.StringVar(&o.metricsAddress, "metrics-address", "", "where to serve /healthz, /readyz and /metrics, host:port; empty to disable")
	o.log.addTo(f)
	return cmd
}

func (o *fakeCloudOptions) validate() error {
	return cmp.Or(
		refuse(o.config == "", "no scenario given (name a file with --config)"),
		checkAddress("address", o.address), checkOptional("metrics-address", o.metricsAddress),
		refuse(o.deleteNodes && o.kubeconfig == "", "--delete-nodes-on-exit needs --kubeconfig"),
		checkFiles("", o.files),
	)
}

// run serves until the command's context is done.
func (o *fakeCloudOptions) run(cmd *cobra.Command) error {
	log, err := o.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	setup, err := o.load(inputsOf(cmd), log)
	if err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	cloud, err := fake.New(setup.Cloud, clock.RealClock{})
	if err != nil {
		return err
	}
	var keeper *fakecloud.Keeper
	if client != nil {
		keeper = fakecloud.NewKeeper(client, registering{cloud, setup}, setup.Name, fakecloud.KeeperOptions{DeleteOnExit: o.deleteNodes})
	}
	ctx := klog.NewContext(cmd.Context(), log)
	var servers listeners
	defer servers.stop()
	if err := o.listen(ctx, cloud, keeper, log, &servers); err != nil {
		return err
	}
	if keeper != nil {
		servers.servers = append(servers.servers, runnerFunc(func(ctx context.Context) error { keeper.Run(ctx); return nil }))
	}
	return servers.run(ctx)
}

// listen opens the listeners. keeper is nil if there are no Node objects.
func (o *fakeCloudOptions) listen(ctx context.Context, cloud *fake.Cloud, keeper *fakecloud.Keeper, log logr.Logger, to *listeners) error {
	registry, metrics := newRegistry()
	ready := map[string]func() error{}
	var changed func()
	if keeper != nil {
		changed, ready["api-server"] = keeper.Changed, keeper.Problem
	}
	provider, err := to.grpc(ctx, "address", o.address, serving.Options{
		Files: o.files, Plaintext: o.plaintext.allows(providerListener), Metrics: metrics, MaxRequest: maxProviderRequest,
	})
	if err != nil {
		return err
	}
	fakecloud.Watch(cloud, changed, log)
	externalgrpc.NewServer(cloud).Register(provider)
	log.Info("Serving the cloud provider", "address", provider.Address())
	if o.metricsAddress == "" {
		return nil
	}
	ready["certificate"] = provider.Problem
	web, err := to.http(ctx, "metrics-address", o.metricsAddress, serving.HTTPOptions{
		Plaintext: o.plaintext.allows(metricsListener), Ready: ready, Gatherer: registry, Name: "metrics",
	})
	if err == nil {
		log.Info("Serving probes and metrics", "address", web.Address())
	}
	return err
}

// load reads the scenario, and logs which parts have no effect.
func (o *fakeCloudOptions) load(in inputs, log logr.Logger) (*simulate.Setup, error) {
	docs, err := document.ReadFiles([]string{o.config}, in.open, document.Options{Kinds: simulate.Kinds(), MaxSize: int64(o.maxFileSize)})
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, &usageError{fmt.Errorf("%s holds %d scenarios", o.config, len(docs)), "a cloud needs one: put it into a file of its own"}
	}
	doc := &docs[0]
	if scenario, ok := doc.Object.(*v1alpha1.Scenario); ok {
		if ignored := fakecloud.KeepCloud(scenario); len(ignored) > 0 {
			log.Info("Ignored fields that do not concern a cloud", "fields", strings.Join(ignored, " "))
		}
	}
	setup, err := simulate.Load(doc, simulate.Files{Open: in.beside(doc.File)})
	if err != nil {
		return nil, err
	}
	if o.kubeconfig == "" {
		return setup, nil
	}
	if len(setup.Nodes) > 0 {
		log.Info("Ignored nodes that belong to no node group", "nodes", len(setup.Nodes))
	}
	if err := doc.Invalid(fakecloud.CheckNames(setup.Name, setup.Cloud.Groups)); err != nil {
		return nil, err
	}
	return setup, nil
}

// client is nil where no cluster is named.
func (o *fakeCloudOptions) client() (kubernetes.Interface, error) {
	if o.kubeconfig == "" {
		return nil, nil
	}
	config, err := restConfig(o.kubeconfig, "give --kubeconfig")
	if err != nil {
		return nil, err
	}
	config = rest.AddUserAgent(config, "evenkeel-fake-cloud")
	config.QPS, config.Burst = fakeCloudQPS, fakeCloudBurst
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--kubeconfig=%s: %w", o.kubeconfig, err), "must be a kubeconfig file"}
	}
	return client, nil
}

// registering is a cloud whose registered nodes differ from the template as the scenario says.
type registering struct {
	*fake.Cloud
	setup *simulate.Setup
}

func (r registering) RegisteredNodes() []*v1.Node { return r.setup.RegisteredNodes(r.Cloud) }
