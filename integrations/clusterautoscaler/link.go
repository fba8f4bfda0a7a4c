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

// givenProvider is the name under which the provider of LinkProvider is registered, after the prefix.
const givenProvider = "given"

// current is the balancer of the last Link, since the autoscaler's register of providers is one for the process and Handler may be
// served before there is a balancer.
var current atomic.Pointer[Balancer]

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
	name := strings.TrimPrefix(options.CloudProviderName, linkedPrefix)
	build, known := builder.GetCloudProviderBuilder(name)
	if !known {
		return fmt.Errorf("invalid argument %q for --cloud-provider: is no cloud provider of this build; it has %s. "+
			"One that is made by hand is linked by LinkProvider",
			name, cmp.Or(strings.Join(builder.AvailableCloudProviders(), ", "), "none"))
	}
	return link(options, name, func(options *coreoptions.AutoscalerOptions, discovery cloudprovider.NodeGroupDiscoveryOptions,
		limiter *cloudprovider.ResourceLimiter, informers informers.SharedInformerFactory) cloudprovider.CloudProvider {
		options.CloudProviderName = name
		return build(options, discovery, limiter, informers)
	}, nil)
}

// LinkProvider is Link for an autoscaler whose cloud provider is made by hand. Leave the provider out of
// builder.WithCloudProvider then: the autoscaler gets it by its name, as any other. With
// --balance-similar-node-groups off it only does that.
func LinkProvider(options *config.AutoscalingOptions, provider cloudprovider.CloudProvider) error {
	if provider == nil {
		return errors.New("link evenkeel: there is no cloud provider; make it before LinkProvider is called")
	}
	if err := Validate(*options); err != nil {
		return err
	}
	return link(options, givenProvider, func(options *coreoptions.AutoscalerOptions, _ cloudprovider.NodeGroupDiscoveryOptions,
		_ *cloudprovider.ResourceLimiter, _ informers.SharedInformerFactory) cloudprovider.CloudProvider {
		options.CloudProviderName = current.Load().given.Name()
		return current.Load().given
	}, provider)
}

// link makes the options name a provider whose function builds the real one, and installs a new balancer beside it. Given is the
// provider that was made by hand, if it was.
func link(options *config.AutoscalingOptions, name string, build builder.CloudProviderBuilder, given cloudprovider.CloudProvider) error {
	b, err := New(*options, flagOptions())
	if err != nil {
		return err
	}
	b.given = given
	current.Store(b)
	options.CloudProviderName = linkedPrefix + name
	if _, registered := builder.GetCloudProviderBuilder(options.CloudProviderName); !registered {
		builder.RegisterCloudProvider(options.CloudProviderName,
			func(options *coreoptions.AutoscalerOptions, discovery cloudprovider.NodeGroupDiscoveryOptions,
				limiter *cloudprovider.ResourceLimiter, informers informers.SharedInformerFactory) cloudprovider.CloudProvider {
				provider := build(options, discovery, limiter, informers)
				if provider == nil {
					return nil
				}
				options.CloudProvider = provider
				if err := current.Load().install(options); err != nil {
					klog.ErrorS(err, "The conditions of pods are not written")
				}
				return provider
			})
	}
	if b.enabled {
		warnOnce.Do(func() { go warnUnlessInstalled(loopHasRun, time.Tick(warnEvery)) })
	}
	return nil
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
			klog.Warning("evenkeel is linked but not installed, and balances nothing: the autoscaler was given a cloud provider " +
				"by WithCloudProvider. " +
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
