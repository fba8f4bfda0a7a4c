package clusterautoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
}

var _ nodegroupset.NodeGroupSetProcessor = &groupSet{}

// FindSimilarNodeGroups returns the cloud's groups that are similar to the given one, in name order. The autoscaler asks it about
// every group that can grow, and about the chosen one again; only the first question of a loop reads templates.
func (g *groupSet) FindSimilarNodeGroups(ctx *ca_context.AutoscalingContext, group cloudprovider.NodeGroup,
	templates map[string]*framework.NodeInfo) ([]cloudprovider.NodeGroup, caerrors.AutoscalerError) {
	if templates[group.Id()] == nil {
		return nil, caerrors.NewAutoscalerErrorf(caerrors.InternalError, "find groups similar to node group %s: %v", group.Id(), errNoTemplate)
	}
	return g.sets.similar(ctx, group.Id(), templates), nil
}

// BalanceScaleUpBetweenGroups shares new nodes among groups, the first of which is the chosen one. Groups that do not change are not in
// the answer.
func (g *groupSet) BalanceScaleUpBetweenGroups(_ *ca_context.AutoscalingContext, groups []cloudprovider.NodeGroup, newNodes int) (
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
		return nil, nil
	}
	request := engine.SplitRequest{Nodes: int64(newNodes)}
	for _, group := range sized {
		request.Groups = append(request.Groups, group.Group)
	}
	if sized[0].Name == groups[0].Id() {
		request.Chosen = sized[0].Name
	}
	result, err := engine.Split(request)
	if err != nil {
		return nil, caerrors.NewAutoscalerErrorf(caerrors.InternalError, "share new nodes: %v", err)
	}
	g.tell(splitDecision{Chosen: groups[0].Id(), Need: newNodes, Asked: newNodes, Unplaced: int(result.Unplaced), Groups: result.Groups, Failed: failed})
	return growing(sized, result, request.Chosen), nil
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
	var infos []nodegroupset.ScaleUpInfo
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

// tell logs a decision and hands it to the journal.
func (g *groupSet) tell(d splitDecision) {
	g.journal.split(d)
	klog.V(1).InfoS("Scale-up is shared", "chosen", d.Chosen, "need", d.Need, "asked", d.Asked, "unplaced", d.Unplaced, "groups", d.Groups, "quotas", d.Quotas)
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
