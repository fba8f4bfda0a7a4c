package clusterautoscaler

import (
	"errors"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/linked"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	caerrors "sigs.k8s.io/cluster-autoscaler/pkg/utils/errors"
)

// groupSet is the autoscaler's NodeGroupSetProcessor.
type groupSet struct {
	sets    *sets
	journal *linked.Journal
	quotas  *quotas // nil: none are known
	shift   *linked.ZonalShift[cloudprovider.NodeGroup]
	need    need
	spread  *spread // nil: switched off
}

var _ nodegroupset.NodeGroupSetProcessor = &groupSet{}

// FindSimilarNodeGroups returns the cloud's groups that are similar to the given one: in name
// order, from the one after it on and then from the first. The autoscaler asks it about every group
// that can grow, and about the chosen one again; only the first question of a loop reads templates.
func (g *groupSet) FindSimilarNodeGroups(ctx *ca_context.AutoscalingContext, group cloudprovider.NodeGroup,
	templates map[string]*framework.NodeInfo) ([]cloudprovider.NodeGroup, caerrors.AutoscalerError) {
	g.need.learn(ctx)
	if templates[group.Id()] == nil {
		return nil, caerrors.NewAutoscalerErrorf(caerrors.InternalError, "find groups similar to node group %s: %v", group.Id(),
			linked.ErrNoTemplate)
	}
	return g.shift.Growing(g.sets.Similar(group.Id(), templates, cloudOf(ctx))), nil
}

// BalanceScaleUpBetweenGroups shares new nodes among groups, the first of which is the chosen one.
// Groups that do not change are not in the answer.
func (g *groupSet) BalanceScaleUpBetweenGroups(ctx *ca_context.AutoscalingContext, groups []cloudprovider.NodeGroup, newNodes int) (
	[]nodegroupset.ScaleUpInfo, caerrors.AutoscalerError) {
	up := linked.ScaleUp[cloudprovider.NodeGroup]{Groups: groups, Asked: newNodes, Declared: g.sets.Declared, Lag: g.shift.Lag,
		Deadlines: g.need.deadlines}
	if newNodes > 0 && len(groups) > 0 {
		up.Need = g.need.takeNeed(groups[0].Id())
		up.Planned = g.spread.takePlan()
	}
	if g.quotas != nil {
		up.Limits = func(sized []linked.Sized[cloudprovider.NodeGroup], more int64) (linked.Limits, error) {
			return g.limits(ctx, sized, more)
		}
	}
	grown, err := up.Split(g.journal)
	switch {
	case errors.Is(err, linked.ErrNoSize):
		return nil, caerrors.NewAutoscalerErrorf(caerrors.CloudProviderError, "share new nodes: %v", err)
	case err != nil:
		return nil, caerrors.NewAutoscalerErrorf(caerrors.InternalError, "share new nodes: %v", err)
	}
	infos := make([]nodegroupset.ScaleUpInfo, 0, len(grown))
	for _, one := range grown {
		infos = append(infos, nodegroupset.ScaleUpInfo{Group: one.Group, CurrentSize: one.Size, NewSize: one.NewSize, MaxSize: one.Max})
	}
	return infos, nil
}

// limits are the quotas over the groups, and the room that the cluster has.
func (g *groupSet) limits(ctx *ca_context.AutoscalingContext, sized []linked.Sized[cloudprovider.NodeGroup], more int64) (linked.Limits,
	error) {
	out := linked.Limits{Room: math.MaxInt64}
	nodes, err := nodesOf(ctx)
	if err != nil {
		return out, err
	}
	if ctx.MaxNodesTotal > 0 {
		out.Room = int64(ctx.MaxNodesTotal - len(nodes))
	}
	out.Quotas, err = g.quotas.over(ctx, sized, g.sets.TemplateOf, nodes, more)
	return out, err
}

// nodesOf are the nodes the cluster has and expects, as the autoscaler counts them in a scale-up.
func nodesOf(ctx *ca_context.AutoscalingContext) ([]*v1.Node, error) {
	infos, err := ctx.ClusterSnapshot.ListNodeInfos()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]*v1.Node, len(infos))
	for i, info := range infos {
		nodes[i] = info.Node()
	}
	return nodes, nil
}

// CleanUp has nothing to clean up.
func (g *groupSet) CleanUp() {}
