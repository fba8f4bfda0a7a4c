package clusterautoscaler

import (
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	coreoptions "k8s.io/autoscaler/cluster-autoscaler/core/options"
	"k8s.io/autoscaler/cluster-autoscaler/processors/nodeinfosprovider"
)

// chooseTemplates sets where templates come from with the cloud provider of the options, as the autoscaler does when it sees the
// provider under its own name: aws takes resources from the tags of groups, gce takes hints from annotations.
func chooseTemplates(options *coreoptions.AutoscalerOptions) {
	if options.Processors == nil {
		return // nobody has chosen any: a main of its own kind
	}
	expire, force := &options.NodeInfoCacheExpireTime, options.ForceDaemonSets
	switch options.CloudProviderName {
	case cloudprovider.AwsProviderName:
		options.Processors.TemplateNodeInfoProvider = nodeinfosprovider.NewAsgTagResourceNodeInfoProvider(expire, force)
	case cloudprovider.GceProviderName:
		options.Processors.TemplateNodeInfoProvider = nodeinfosprovider.NewAnnotationNodeInfoProvider(expire, force)
	}
}
