package clusterautoscaler

import (
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/internal/linked"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
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
	strategy  expander.Strategy
	best      *expander.Option
	shift     *linked.ZonalShift[cloudprovider.NodeGroup]
	sets      *sets
	spread    *spread                                    // nil: switched off
	deadlines *linked.Deadlines[cloudprovider.NodeGroup] // of declared sets
	ctx       *ca_context.AutoscalingContext             // of the loop
}

// learn puts the need around the strategy of an autoscaler that runs, whatever made it. It is
// called before the autoscaler chooses, because that asks for similar groups first.
func (n *need) learn(ctx *ca_context.AutoscalingContext) {
	n.ctx = ctx
	if _, learns := ctx.ExpanderStrategy.(*need); !learns && ctx.ExpanderStrategy != nil {
		n.strategy, ctx.ExpanderStrategy = ctx.ExpanderStrategy, n
	}
}

// BestOption answers what the strategy answers of the options in zones that are not shifted away. Where
// that leaves none, the pods wait.
func (n *need) BestOption(options []expander.Option, templates map[string]*framework.NodeInfo) *expander.Option {
	n.look(templates)
	var open []expander.Option
	for i := range options {
		if why := n.shift.Away(options[i].NodeGroup.Id()); why == "" {
			open = append(open, options[i])
		} else {
			klog.V(1).InfoS("Node group does not grow", "nodeGroup", options[i].NodeGroup.Id(), "reason", why, "pods", len(options[i].Pods))
		}
	}
	if n.best = nil; len(open) > 0 {
		n.best = n.spread.widened(n.ctx, open, n.strategy.BestOption(open, templates), templates)
	}
	return n.best
}

// look finds out which zones are shifted away now.
func (n *need) look(templates map[string]*framework.NodeInfo) {
	nodes, err := nodesOf(n.ctx)
	if err != nil {
		klog.ErrorS(err, "It is not known which zones are shifted away; what held in the last loop still does")
		return
	}
	n.shift.Look(nodes, cloudOf(n.ctx), labelsOf(templates))
	n.deadlines.Look(nodes, cloudOf(n.ctx))
}

// labelsOf returns the labels of a group's template.
func labelsOf(templates map[string]*framework.NodeInfo) func(group string) map[string]string {
	return func(group string) map[string]string {
		if template := templates[group]; template != nil && template.Node() != nil {
			return template.Node().Labels
		}
		return nil
	}
}

// takeNeed returns how many nodes are needed if the last choice was this group, else 0, and forgets it:
// it holds for one split. The option is asked only now because its group may have been created, and
// named, after the choice.
func (n *need) takeNeed(group string) int {
	best := n.best
	n.best = nil
	if best == nil || best.NodeGroup.Id() != group {
		return 0
	}
	return best.NodeCount
}
