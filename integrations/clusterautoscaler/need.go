package clusterautoscaler

import (
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// need is the autoscaler's expander strategy, and remembers what the chosen option needs. Between
// the choice and the split the autoscaler lowers the number to what the quotas leave for the chosen
// group alone, as if the others had no room of their own.
//
// The autoscaler asks and splits in one goroutine, one scale-up after the other.
type need struct {
	strategy expander.Strategy
	best     *expander.Option
}

// learn puts the need around the strategy of an autoscaler that runs, whatever made it. It is
// called before the autoscaler chooses, because that asks for similar groups first.
func (n *need) learn(ctx *ca_context.AutoscalingContext) {
	if _, learns := ctx.ExpanderStrategy.(*need); !learns && ctx.ExpanderStrategy != nil {
		n.strategy, ctx.ExpanderStrategy = ctx.ExpanderStrategy, n
	}
}

// BestOption answers what the strategy answers.
func (n *need) BestOption(options []expander.Option, templates map[string]*framework.NodeInfo) *expander.Option {
	n.best = n.strategy.BestOption(options, templates)
	return n.best
}

// take returns how many nodes are needed if the last choice was this group, else 0, and forgets it:
// it holds for one split. The option is asked only now because its group may have been created, and
// named, after the choice.
func (n *need) take(group string) int {
	best := n.best
	n.best = nil
	if best == nil || best.NodeGroup.Id() != group {
		return 0
	}
	return best.NodeCount
}
