package clusterautoscaler

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"

	"k8s.io/client-go/informers"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/builder"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
)

// linkedPrefix makes the name under which a provider is registered once more, with evenkeel around
// it.
const linkedPrefix = "evenkeel-"

// providers are, by the names Link has registered, the names of the providers behind them.
var providers = map[string]string{}

// current is the balancer of the last Link, for what is set up before it or has no other way to it.
var current atomic.Pointer[Balancer]

// given is the provider of the last LinkProvider.
var given atomic.Pointer[cloudprovider.CloudProvider]

// givenProvider is the name under which it is registered.
const givenProvider = linkedPrefix + "given"

// Validate refuses options and flags that Link would refuse, with the same error. An autoscaler
// that elects a leader before it links calls it as soon as the flags are parsed, so that a replica
// with a wrong flag ends at once and does not wait for the lease first.
func Validate(options config.AutoscalingOptions) error {
	if !options.BalanceSimilarNodeGroups {
		return nil
	}
	_, err := New(options, flagOptions())
	return err
}

// Link makes the autoscaler that is built from the options balance similar node groups with
// evenkeel. Call it after the flags are parsed and before the autoscaler is built. It honours
// evenkeel's own flags, which the import of the package adds.
//
// The autoscaler has no setter for processors, but the function that builds a cloud provider may
// set them. So Link registers another name for the provider of the options, whose function builds
// the real provider and then installs the balancer, and changes options.CloudProviderName to it
// until then. An autoscaler that is handed a provider never calls that function: use LinkProvider
// for it. When such a one runs all the same, a warning is logged after its first loop.
//
// With --balance-similar-node-groups off Link does nothing. Options that cannot be used are refused
// with an error that names the flag. Link is not safe for concurrent use, as the autoscaler's
// register of providers is not.
func Link(options *config.AutoscalingOptions) error {
	if !options.BalanceSimilarNodeGroups {
		return nil
	}
	name := options.CloudProviderName
	if behind, linkedBefore := providers[name]; linkedBefore {
		name = behind
	}
	if _, known := builder.GetCloudProviderBuilder(name); !known {
		return fmt.Errorf("invalid argument %q for --cloud-provider: is no cloud provider of this build; it has %s. One that is made by hand is linked by LinkProvider",
			name, cmp.Or(strings.Join(builder.AvailableCloudProviders(), ", "), "none"))
	}
	return link(options, linkedPrefix+name, name, linkedProvider(name))
}

// LinkProvider is Link for an autoscaler whose cloud provider is made by hand. Leave the provider out of builder.WithCloudProvider then: the autoscaler
// gets it by its name, as any other. With --balance-similar-node-groups off it only does that.
func LinkProvider(options *config.AutoscalingOptions, provider cloudprovider.CloudProvider) error {
	if provider == nil {
		return errors.New("link evenkeel: there is no cloud provider; make it before LinkProvider is called")
	}
	if err := Validate(*options); err != nil {
		return err
	}
	given.Store(&provider)
	return link(options, givenProvider, provider.Name(), func(options *coreoptions.AutoscalerOptions, _ cloudprovider.NodeGroupDiscoveryOptions,
		_ *cloudprovider.ResourceLimiter, _ informers.SharedInformerFactory) cloudprovider.CloudProvider {
		provider := *given.Load()
		options.CloudProviderName = provider.Name()
		install(options, provider)
		return provider
	})
}

// link makes the options name a provider whose function installs a new balancer; behind is what the
// provider is called otherwise.
func link(options *config.AutoscalingOptions, name, behind string, build builder.CloudProviderBuilder) error {
	b, err := New(*options, flagOptions())
	if err != nil {
		return err
	}
	current.Store(b)
	options.CloudProviderName = name
	if _, registered := providers[name]; !registered {
		providers[name] = behind
		builder.RegisterCloudProvider(name, build)
	}
	if b.enabled {
		warnOnce.Do(func() { go warnUnlessInstalled(loopHasRun, time.Tick(warnEvery)) })
	}
	return nil
}

// linkedProvider builds the provider of that name and installs the linked balancer beside it.
func linkedProvider(name string) builder.CloudProviderBuilder {
	return func(options *coreoptions.AutoscalerOptions, discovery cloudprovider.NodeGroupDiscoveryOptions,
		limiter *cloudprovider.ResourceLimiter, informers informers.SharedInformerFactory) cloudprovider.CloudProvider {
		options.CloudProviderName = name
		build, known := builder.GetCloudProviderBuilder(name)
		if !known {
			return nil // Link has seen it, and providers are never unregistered
		}
		provider := build(options, discovery, limiter, informers)
		if provider == nil {
			return nil
		}
		install(options, provider)
		return provider
	}
}

// install puts the linked balancer beside the provider.
func install(options *coreoptions.AutoscalerOptions, provider cloudprovider.CloudProvider) {
	options.CloudProvider = provider
	if err := current.Load().install(options); err != nil {
		klog.ErrorS(err, "The conditions of pods are not written")
	}
}

// Handler serves the page of the linked balancer, which may be linked after the call. Where none
// is, the answer is 404.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b := current.Load(); b != nil {
			b.ServeHTTP(w, r)
			return
		}
		http.Error(w, "evenkeel balances nothing here: --balance-similar-node-groups is off", http.StatusNotFound)
	})
}

// warnEvery is how often it is looked whether the autoscaler has run without the balancer.
const warnEvery = 10 * time.Second

var warnOnce sync.Once

// warnUnlessInstalled waits until the balancer is installed, or the autoscaler has run a loop
// without it, which it logs and returns.
func warnUnlessInstalled(hasRun func() bool, ticks <-chan time.Time) (warned bool) {
	for range ticks {
		ran := hasRun() // asked first: a loop may begin as soon as the balancer is installed
		if current.Load().installed.Load() {
			return false
		}
		if ran {
			klog.Warning("evenkeel is linked but not installed, and balances nothing: the autoscaler was given a cloud provider by WithCloudProvider. " +
				"Call LinkProvider with that provider instead of Link, and leave WithCloudProvider out")
			return true
		}
	}
	return false
}

// loopHasRun reports whether the autoscaler's own metrics tell of a loop.
func loopHasRun() bool {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil && len(families) == 0 {
		return false
	}
	return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == lastActivity && len(f.GetMetric()) > 0 })
}

// lastActivity is the autoscaler's metric of when a part of a loop was last begun.
const lastActivity = "cluster_autoscaler_last_activity"
