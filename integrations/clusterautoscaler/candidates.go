package clusterautoscaler

import (
	"github.com/evenkeel/evenkeel/internal/linked"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodes"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/errors"
)

// candidateOrder is the autoscaler's ScaleDownNodeProcessor: the one that was there, and its nodes
// in evenkeel's order.
type candidateOrder struct {
	nodes.ScaleDownNodeProcessor
	sets      *sets
	clock     clock.PassiveClock
	shift     *linked.ZonalShift[ca.NodeGroup]
	deadlines *linked.Deadlines[ca.NodeGroup]
}

// scaleDownCandidates is the balancer's order of the nodes to try, around the processor that finds
// them.
func (b *Balancer) scaleDownCandidates(next nodes.ScaleDownNodeProcessor) nodes.ScaleDownNodeProcessor {
	return &candidateOrder{ScaleDownNodeProcessor: next, sets: b.sets, clock: b.clock, shift: b.shift, deadlines: b.groupSet.need.deadlines}
}

// GetScaleDownCandidates returns the nodes that may go, in the order in which to try them. The next
// processor gets the nodes by name, since they come from a map and its sort need not be stable.
func (c *candidateOrder) GetScaleDownCandidates(ctx *ca_context.AutoscalingContext, all []*v1.Node) ([]*v1.Node, errors.AutoscalerError) {
	// The sets are known before the first scale-up, but in the first loop there may be no
	// templates.
	if ctx.TemplateNodeInfoRegistry != nil {
		if templates := ctx.TemplateNodeInfoRegistry.GetNodeInfos(); len(templates) > 0 {
			c.sets.Update(templates, cloudOf(ctx))
			c.shift.Look(all, cloudOf(ctx), labelsOf(templates))
			c.deadlines.Look(all, cloudOf(ctx))
		}
	}
	candidates, err := c.ScaleDownNodeProcessor.GetScaleDownCandidates(ctx, linked.ByName(all))
	if err != nil {
		return candidates, err
	}
	order := linked.Candidates[ca.NodeGroup]{
		Cloud: cloudOf(ctx), SetOf: c.sets.SetOf, TermsOf: c.sets.TermsOf, Moves: func(node *v1.Node) bool { return c.moves(ctx, node) },
	}
	if ctx.ScaleDownActuator != nil {
		order.Deletions = ctx.ScaleDownActuator.CheckStatus()
	}
	return order.Order(c.shift.Removable(candidates, cloudOf(ctx))), nil
}

// moves reports whether a node has pods to move, as the autoscaler sees it.
func (c *candidateOrder) moves(ctx *ca_context.AutoscalingContext, node *v1.Node) bool {
	info, err := ctx.ClusterSnapshot.GetNodeInfo(node.Name)
	if err != nil {
		return true
	}
	move, err := simulator.GetPodsToMove(info, options.NewNodeDeleteOptions(ctx.AutoscalingOptions), nil, nil, nil, c.clock.Now())
	return err != nil || len(move.Pods) > 0
}
