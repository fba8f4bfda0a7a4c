package clusterautoscaler

import (
	"fmt"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/informers"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/builder"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
)

// linkedPrefix makes the name under which a provider is registered once more, with evenkeel around it.
const linkedPrefix = "evenkeel-"

// providers are, by the names Link has registered, the names of the providers behind them.
var providers = map[string]string{}

// linked is the balancer of the last Link, for what is set up before it or has no other way to it.
var linked atomic.Pointer[Balancer]

// Link makes the autoscaler that is built from the options balance similar node groups with evenkeel. Call it after the flags are
// parsed and before the autoscaler is built. It honours evenkeel's own flags, which the import of the package adds.
//
// The autoscaler has no setter for processors, but the function that builds a cloud provider may set them. So Link registers
// another name for the provider of the options, whose function builds the real provider and then installs the balancer, and
// changes options.CloudProviderName to it until then.
//
// With --balance-similar-node-groups off Link does nothing. Options that cannot be used are refused with an error that names the
// flag. Link is not safe for concurrent use, as the autoscaler's register of providers is not.
func Link(options *config.AutoscalingOptions) error {
	if !options.BalanceSimilarNodeGroups {
		return nil
	}
	name := options.CloudProviderName
	if behind, linkedBefore := providers[name]; linkedBefore {
		name = behind
	}
	if _, known := builder.GetCloudProviderBuilder(name); !known {
		return fmt.Errorf("invalid argument %q for --cloud-provider: is no cloud provider of this build; it has %s",
			name, strings.Join(builder.AvailableCloudProviders(), ", "))
	}
	b, err := New(*options, flagOptions())
	if err != nil {
		return err
	}
	linked.Store(b)
	options.CloudProviderName = linkedPrefix + name
	if _, linkedBefore := providers[options.CloudProviderName]; !linkedBefore {
		providers[options.CloudProviderName] = name
		builder.RegisterCloudProvider(options.CloudProviderName, linkedProvider(name))
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
		options.CloudProvider = provider
		linked.Load().install(options)
		return provider
	}
}
