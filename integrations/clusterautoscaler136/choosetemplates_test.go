package clusterautoscaler

import (
	"reflect"
	"testing"

	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider/builder"
	testprovider "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/test"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	coreoptions "k8s.io/autoscaler/cluster-autoscaler/core/options"
	"k8s.io/autoscaler/cluster-autoscaler/processors"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodeinfosprovider"
	"k8s.io/client-go/informers"
)

// A linked provider gets its templates from where it would get them under its own name.
func TestLinkedTemplatesAreThoseOfTheProvider(t *testing.T) {
	byDefault := processors.DefaultProcessors(config.AutoscalingOptions{}).TemplateNodeInfoProvider
	for name, want := range map[string]nodeinfosprovider.TemplateNodeInfoProvider{
		cloudprovider.AwsProviderName:   &nodeinfosprovider.AsgTagResourceNodeInfoProvider{},
		cloudprovider.GceProviderName:   &nodeinfosprovider.AnnotationNodeInfoProvider{},
		cloudprovider.AzureProviderName: byDefault,
	} {
		t.Run(name, func(t *testing.T) {
			var seen nodeinfosprovider.TemplateNodeInfoProvider
			builder.RegisterCloudProvider(name, func(o *coreoptions.AutoscalerOptions, _ cloudprovider.NodeGroupDiscoveryOptions,
				_ *cloudprovider.ResourceLimiter, _ informers.SharedInformerFactory) cloudprovider.CloudProvider {
				seen = o.Processors.TemplateNodeInfoProvider
				return testprovider.NewTestCloudProviderBuilder().Build()
			})
			o := config.AutoscalingOptions{
				CloudProviderName: name, BalanceSimilarNodeGroups: true, NodeGroupSetRatios: config.NewDefaultNodeGroupDifferenceRatios(),
			}
			if err := Link(&o); err != nil {
				t.Fatal(err)
			}
			opts := &coreoptions.AutoscalerOptions{AutoscalingOptions: o, Processors: processors.DefaultProcessors(o)}
			builder.NewCloudProvider(opts, nil)
			got := opts.Processors.TemplateNodeInfoProvider
			if reflect.TypeOf(got) != reflect.TypeOf(want) {
				t.Errorf("templates come from a %T, want a %T", got, want)
			}
			if seen != got {
				t.Errorf("the provider saw a %T and could not have chosen for itself", seen)
			}
		})
	}
}

// A main that makes the processors later chooses where templates come from by itself.
func TestNoTemplatesAreChosenWithoutProcessors(t *testing.T) {
	opts := &coreoptions.AutoscalerOptions{AutoscalingOptions: config.AutoscalingOptions{CloudProviderName: cloudprovider.AwsProviderName}}
	if chooseTemplates(opts); opts.Processors != nil {
		t.Errorf("there are processors: %+v", opts.Processors)
	}
}
