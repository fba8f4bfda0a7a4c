// Package fakeprovider lets Cluster Autoscaler (CA) scale a cloud that is only in memory, for
// trying it out without a bill.
//
// Where it is imported there is a provider name more: with --cloud-provider=evenkeel-fake, --cloud-config names the Scenario that
// says what the cloud is and what will go wrong in it, the same file as for evenkeel fake-cloud. The cloud's nodes appear in the
// cluster that CA runs for, as Node objects that kwok keeps alive.
//
// The cloud has no memory: with every process it begins as the file says. Nothing here decides
// about sizes.
package fakeprovider

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler/provider"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/fakecloud"
	"github.com/evenkeel/evenkeel/internal/simulate"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/builder"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	kubeutil "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
)

// Name is the provider's name in --cloud-provider.
const Name = "evenkeel-fake"

// Calls of the API server a second: CA's own few are not enough for a fleet.
const qps, burst = 200, 400

// CA's providers are registered by importing them, and so is this one.
func init() { builder.RegisterCloudProvider(Name, build) } //nolint:gochecknoinits // see above

// build ends the process where the cloud cannot be had: CA's builder functions have no other way to
// say so.
func build(opts *coreoptions.AutoscalerOptions, _ ca.NodeGroupDiscoveryOptions, limits *ca.ResourceLimiter, _ informers.SharedInformerFactory) ca.CloudProvider {
	config := rest.CopyConfig(kubeutil.GetKubeConfig(opts.KubeClientOpts))
	config.QPS, config.Burst = qps, burst
	client, err := kubernetes.NewForConfig(config)
	if err == nil {
		var cloud *Cloud
		if cloud, err = Open(opts.CloudConfig, client, provider.Options{Name: Name, Limits: limits}); err == nil {
			return cloud
		}
	}
	klog.ErrorS(err, "The fake cloud cannot be opened", "cloudConfig", opts.CloudConfig)
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	return nil
}

// Cloud is a cloud in memory as CA's cloud provider, with its Node objects kept in an API server.
type Cloud struct {
	*provider.Provider
	stop func()
}

// Open starts the cloud that a file describes, in real time, and keeps its nodes in the API server
// of the client until Cleanup. The file is a Scenario, of which only what is about the cloud
// counts; files it names lie beside it.
func Open(file string, client kubernetes.Interface, o provider.Options) (*Cloud, error) {
	setup, err := load(file)
	if err != nil {
		return nil, err
	}
	cloud, err := fake.New(setup.Cloud, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	logger := klog.Background()
	keeper := fakecloud.NewKeeper(client, registering{cloud, setup}, setup.Name, fakecloud.KeeperOptions{})
	fakecloud.Watch(cloud, keeper.Changed, logger)
	shown, err := provider.New(cloud, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	return &Cloud{Provider: shown, stop: func() {
		cancel()
		running.Wait()
	}}, nil
}

// Cleanup ends the keeping of nodes. The Node objects stay, to be taken over by the next process.
func (c *Cloud) Cleanup() error {
	c.stop()
	return c.Provider.Cleanup()
}

// load reads the scenario of a cloud.
func load(file string) (*simulate.Setup, error) {
	if file == "" {
		return nil, fmt.Errorf("no scenario given (name its file with --cloud-config)")
	}
	docs, err := document.ReadFiles([]string{file}, document.Stdin(strings.NewReader("")), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s holds %d scenarios (a cloud is one of them: give it a file of its own)", file, len(docs))
	}
	if scenario, ok := docs[0].Object.(*v1alpha1.Scenario); ok {
		if ignored := fakecloud.KeepCloud(scenario); len(ignored) > 0 {
			klog.InfoS("Ignored what does not concern a cloud", "fields", strings.Join(ignored, " "))
		}
	}
	setup, err := simulate.Load(&docs[0], simulate.Files{Open: beside(file)})
	if err != nil {
		return nil, err
	}
	if errs := fakecloud.CheckNames(setup.Name, setup.Cloud.Groups); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", file, errs.ToAggregate())
	}
	return setup, nil
}

// beside opens files that are named relative to the folder of another.
func beside(file string) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		return os.Open(name)
	}
}

// registering is a cloud whose nodes look as the scenario says once they register.
type registering struct {
	*fake.Cloud
	setup *simulate.Setup
}

func (r registering) RegisteredNodes() []*v1.Node { return r.setup.RegisteredNodes(r.Cloud) }
