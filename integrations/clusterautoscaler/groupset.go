package clusterautoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	engine "github.com/evenkeel/evenkeel/nodegroupset"

	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	caerrors "sigs.k8s.io/cluster-autoscaler/pkg/utils/errors"
)

// groupSet is the autoscaler's NodeGroupSetProcessor.
type groupSet struct {
	sets    *sets
	journal *journal
	quotas  *quotas // nil: none are known
	need    need
}

var _ nodegroupset.NodeGroupSetProcessor = &groupSet{}

// FindSimilarNodeGroups returns the cloud's groups that are similar to the given one, in name order. The autoscaler asks it about
// every group that can grow, and about the chosen one again; only the first question of a loop reads templates.
func (g *groupSet) FindSimilarNodeGroups(ctx *ca_context.AutoscalingContext, group cloudprovider.NodeGroup,
	templates map[string]*framework.NodeInfo) ([]cloudprovider.NodeGroup, caerrors.AutoscalerError) {
	g.need.learn(ctx)
	if templates[group.Id()] == nil {
		return nil, caerrors.NewAutoscalerErrorf(caerrors.InternalError, "find groups similar to node group %s: %v", group.Id(), errNoTemplate)
	}
	return g.sets.similar(ctx, group.Id(), templates), nil
}

// BalanceScaleUpBetweenGroups shares new nodes among groups, the first of which is the chosen one. Groups that do not change are not in
// the answer.
func (g *groupSet) BalanceScaleUpBetweenGroups(ctx *ca_context.AutoscalingContext, groups []cloudprovider.NodeGroup, newNodes int) (
	[]nodegroupset.ScaleUpInfo, caerrors.AutoscalerError) {
	if len(groups) == 0 {
		return nil, caerrors.NewAutoscalerError(caerrors.InternalError, "share new nodes: there is no node group to give them to")
	}
	sized, failed := readSizes(groups)
	if len(sized) == 0 {
		first := groups[0].Id()
		return nil, caerrors.NewAutoscalerErrorf(caerrors.CloudProviderError, "share new nodes: the size of no node group is known; %s: %s", first, failed[first])
	}
	if newNodes <= 0 {
		return []nodegroupset.ScaleUpInfo{}, nil
	}
	d := splitDecision{Chosen: groups[0].Id(), Need: newNodes, Asked: newNodes, Failed: failed}
	d.Need = max(newNodes, g.need.take(d.Chosen))
	request := g.request(ctx, sized, d)
	result, err := engine.Split(request)
	if err != nil {
		return nil, caerrors.NewAutoscalerErrorf(caerrors.InternalError, "share new nodes: %v", err)
	}
	d.Unplaced, d.Groups, d.Quotas = int(result.Unplaced), result.Groups, boundBy(result)
	g.journal.split(d)
	klog.V(1).InfoS("Scale-up is shared", "chosen", d.Chosen, "need", d.Need, "asked", d.Asked, "unplaced", d.Unplaced, "groups", d.Groups, "quotas", d.Quotas)
	return growing(sized, result, d.Chosen), nil
}

// request asks the engine to share what the autoscaler asked for. Where the pods need more than that, only limits of the whole cluster
// and of the chosen group came between; when all of them are known the whole need is shared under all of them.
func (g *groupSet) request(ctx *ca_context.AutoscalingContext, sized []sizedGroup, d splitDecision) engine.SplitRequest {
	request := engine.SplitRequest{Nodes: int64(d.Asked), Chosen: d.Chosen}
	if _, failed := d.Failed[d.Chosen]; failed {
		request.Chosen = ""
	}
	for _, group := range sized {
		request.Groups = append(request.Groups, group.Group)
	}
	if g.quotas == nil || len(sized) == 1 { // one group alone has been given what its quotas leave
		return request
	}
	nodes, err := nodesOf(ctx)
	if err == nil {
		request.Caps, err = g.caps(ctx, sized, nodes, int64(d.Need))
	}
	if err != nil {
		klog.ErrorS(err, "A scale-up is shared as if there were no quotas; the autoscaler cuts what exceeds one")
		return request
	}
	wanted := d.Need
	if ctx.MaxNodesTotal > 0 {
		wanted = min(wanted, ctx.MaxNodesTotal-len(nodes))
	}
	request.Nodes = int64(max(d.Asked, wanted))
	return request
}

func (g *groupSet) caps(ctx *ca_context.AutoscalingContext, sized []sizedGroup, nodes []*v1.Node, more int64) ([]engine.Cap, error) {
	templates := make([]*v1.Node, len(sized))
	for k, group := range sized {
		info := g.sets.templateOf(group.Name)
		if info == nil || info.Node() == nil {
			return nil, fmt.Errorf("node group %s %w", group.Name, errNoTemplate)
		}
		templates[k] = info.Node()
	}
	return g.quotas.caps(ctx, sized, templates, nodes, more)
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

// boundBy names the quotas that kept nodes from groups.
func boundBy(result engine.SplitResult) []string {
	var names []string
	for _, row := range result.Groups {
		if row.Reason == engine.HeldByQuota {
			names = append(names, row.Detail)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CleanUp has nothing to clean up.
func (g *groupSet) CleanUp() {}

// sizedGroup is a group of the cloud and its size.
type sizedGroup struct {
	cloudprovider.NodeGroup
	engine.Group
}

// readSizes asks the cloud for sizes. A group without a usable one is left out; the others go on. A group's minimum is no concern of
// a split: the autoscaler raises groups to it by --enforce-node-group-min-size.
func readSizes(groups []cloudprovider.NodeGroup) (sized []sizedGroup, failed map[string]string) {
	failed = map[string]string{}
	for _, group := range groups {
		size, err := group.TargetSize()
		most := group.MaxSize()
		switch {
		case err != nil:
		case size < 0 || size > engine.MaxSize:
			err = fmt.Errorf("target size %d is not between 0 and %d", size, engine.MaxSize)
		case most < 0 || most > engine.MaxSize:
			err = fmt.Errorf("max size %d is not between 0 and %d", most, engine.MaxSize)
		}
		if err != nil {
			failed[group.Id()] = err.Error()
			continue
		}
		sized = append(sized, sizedGroup{group, engine.Group{Name: group.Id(), Size: int64(size), Max: int64(most)}})
	}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		klog.InfoS("Node group is left out of a scale-up", "nodeGroup", id, "reason", failed[id])
	}
	return sized, failed
}

// growing are the groups that get nodes: the chosen one first, then by name.
func growing(sized []sizedGroup, result engine.SplitResult, chosen string) []nodegroupset.ScaleUpInfo {
	infos := []nodegroupset.ScaleUpInfo{}
	for i, row := range result.Groups {
		if row.NewSize != row.Size {
			infos = append(infos, nodegroupset.ScaleUpInfo{
				Group: sized[i].NodeGroup, CurrentSize: int(row.Size), NewSize: int(row.NewSize), MaxSize: int(sized[i].Max),
			})
		}
	}
	slices.SortFunc(infos, func(a, b nodegroupset.ScaleUpInfo) int { return chosenFirst(chosen, a.Group.Id(), b.Group.Id()) })
	return infos
}

// chosenFirst orders names, the chosen one before all others.
func chosenFirst(chosen, a, b string) int {
	switch {
	case a == b:
		return 0
	case a == chosen:
		return -1
	case b == chosen:
		return 1
	}
	return cmp.Compare(a, b)
}
