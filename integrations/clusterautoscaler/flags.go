package clusterautoscaler

import (
	"github.com/spf13/pflag"

	"github.com/evenkeel/evenkeel/internal/linked"

	"sigs.k8s.io/cluster-autoscaler/pkg/config"
)

// ownFlags are evenkeel's own. As with the autoscaler's, to import the package is to have them.
var ownFlags = func() *linked.OwnFlags {
	var own linked.OwnFlags
	own.Add(pflag.CommandLine)
	return &own
}()

// flagOptions are the options the flags were set to.
func flagOptions() Options {
	return Options{
		MaxBalanceDeferral: ownFlags.MaxBalanceDeferral, DisabledLabelPacks: ownFlags.DisabledLabelPacks,
		NodeGroupPolicies: ownFlags.NodeGroupPolicies, DisableSpreadSplit: !ownFlags.SpreadAwareSplit, PodConditions: ownFlags.PodConditions,
	}
}

// flagsOf are all flags that say how evenkeel balances.
func flagsOf(options config.AutoscalingOptions, o Options) linked.Flags {
	ratios := options.NodeGroupSetRatios
	return linked.Flags{
		IgnoreLabels: options.BalancingExtraIgnoredLabels, Labels: options.BalancingLabels,
		MemoryRatio:      ratios.MaxCapacityMemoryDifferenceRatio,
		AllocatableRatio: ratios.MaxAllocatableDifferenceRatio,
		FreeRatio:        ratios.MaxFreeDifferenceRatio,
		OwnFlags: linked.OwnFlags{MaxBalanceDeferral: o.MaxBalanceDeferral, DisabledLabelPacks: o.DisabledLabelPacks,
			NodeGroupPolicies: o.NodeGroupPolicies},
	}
}
