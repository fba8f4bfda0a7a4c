package clusterautoscaler

import (
	"strings"

	"k8s.io/klog/v2"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander/factory"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// need is an expander strategy that remembers what the chosen option needs. Between the choice and the split the autoscaler lowers
// the number to what the quotas leave for the chosen group alone, as if the others had no room of their own.
//
// The autoscaler asks and splits in one goroutine, one scale-up after the other.
type need struct {
	strategy expander.Strategy
	best     *expander.Option
}

// BestOption answers what the strategy answers.
func (n *need) BestOption(options []expander.Option, templates map[string]*framework.NodeInfo) *expander.Option {
	n.best = n.strategy.BestOption(options, templates)
	return n.best
}

// take returns how many nodes are needed if the last choice was this group, else 0, and forgets it: it holds for one split. The
// option is asked only now because its group may have been created, and named, after the choice.
func (n *need) take(group string) int {
	best := n.best
	n.best = nil
	if best == nil || best.NodeGroup.Id() != group {
		return 0
	}
	return best.NodeCount
}

// learnNeed puts a need around the strategy of the options, which is made as the autoscaler would if there is none. It returns nil
// where it cannot be made; the autoscaler then says why when it tries.
func learnNeed(options *coreoptions.AutoscalerOptions) *need {
	if options.ExpanderStrategy == nil {
		if options.AutoscalingKubeClients == nil {
			return nil // with them the autoscaler makes the strategy
		}
		expanders := factory.NewFactory()
		expanders.RegisterDefaultExpanders(options.CloudProvider, options.AutoscalingKubeClients, options.KubeClient,
			options.ConfigNamespace, options.GRPCExpanderCert, options.GRPCExpanderURL)
		strategy, err := expanders.Build(strings.Split(options.ExpanderNames, ","))
		if err != nil {
			klog.V(2).InfoS("The need of a scale-up beyond the quotas of the chosen group is not learnt", "reason", err.Error())
			return nil
		}
		options.ExpanderStrategy = strategy
	}
	n := &need{strategy: options.ExpanderStrategy}
	options.ExpanderStrategy = n
	return n
}
