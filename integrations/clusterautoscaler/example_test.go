package clusterautoscaler_test

import (
	"fmt"

	"k8s.io/client-go/informers"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/builder"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"

	clusterautoscaler "github.com/evenkeel/evenkeel/integrations/clusterautoscaler"
)

// Link stands between the parsing of the flags and the building of the autoscaler. From the options
// it takes which cloud provider to build and how to compare node groups.
func ExampleLink() {
	builder.RegisterCloudProvider("examplecloud", func(*coreoptions.AutoscalerOptions, cloudprovider.NodeGroupDiscoveryOptions,
		*cloudprovider.ResourceLimiter, informers.SharedInformerFactory) cloudprovider.CloudProvider {
		return nil // importing a real provider's package registers it
	})
	options := config.AutoscalingOptions{
		CloudProviderName: "examplecloud", BalanceSimilarNodeGroups: true,
		NodeGroupSetRatios: config.NewDefaultNodeGroupDifferenceRatios(),
	}
	fmt.Println(clusterautoscaler.Link(&options), options.CloudProviderName)

	options.NodeGroupSetRatios.MaxCapacityMemoryDifferenceRatio = -0.15
	fmt.Println(clusterautoscaler.Link(&options))
	// Output:
	// <nil> evenkeel-examplecloud
	// invalid argument "-0.15" for --memory-difference-ratio: must be between 0 and 1
}
