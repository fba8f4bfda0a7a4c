package clusterautoscaler

import (
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"

	apiv1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodes"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/errors"
)

// candidateOrder is the order in which the autoscaler tries whether it can do without a node. A node it can do without is no place for
// the pods of those tried later, so without an order unneeded nodes gather in some groups, and the pods of their sets in the others.
//
// Within each set the nodes change places until they are in the order in which they would keep the set level. Each group's nodes stay
// in the order of the next processor, and so do all nodes that are in no set.
type candidateOrder struct {
	next nodes.ScaleDownNodeProcessor
	sets *sets
}

// scaleDownCandidates is the balancer's order of the nodes to try, around the processor that finds them.
func (b *Balancer) scaleDownCandidates(next nodes.ScaleDownNodeProcessor) nodes.ScaleDownNodeProcessor {
	return &candidateOrder{next: next, sets: b.sets}
}

// GetPodDestinationCandidates returns the nodes that may take pods.
func (c *candidateOrder) GetPodDestinationCandidates(ctx *ca_context.AutoscalingContext, all []*apiv1.Node) ([]*apiv1.Node, errors.AutoscalerError) {
	return c.next.GetPodDestinationCandidates(ctx, all)
}

// GetScaleDownCandidates returns the nodes that may go, in the order in which to try them. The next processor gets the nodes by name,
// since they come from a map and its sort need not be stable.
func (c *candidateOrder) GetScaleDownCandidates(ctx *ca_context.AutoscalingContext, all []*apiv1.Node) ([]*apiv1.Node, errors.AutoscalerError) {
	// The sets are known before the first scale-up, but in the first loop there may be no templates.
	if ctx.TemplateNodeInfoRegistry != nil {
		if templates := ctx.TemplateNodeInfoRegistry.GetNodeInfos(); len(templates) > 0 {
			c.sets.update(ctx, templates)
		}
	}
	byName := slices.SortedFunc(slices.Values(all), func(a, b *apiv1.Node) int { return strings.Compare(a.Name, b.Name) })
	candidates, err := c.next.GetScaleDownCandidates(ctx, byName)
	if err != nil {
		return candidates, err
	}
	return c.level(ctx, candidates), nil
}

// CleanUp is called when the autoscaler ends.
func (c *candidateOrder) CleanUp() { c.next.CleanUp() }

// level refills the places of each set with its nodes in the order that keeps it level.
func (c *candidateOrder) level(ctx *ca_context.AutoscalingContext, candidates []*apiv1.Node) []*apiv1.Node {
	var status scaledown.ActuationStatus
	going := map[string]bool{}
	if ctx.ScaleDownActuator != nil {
		status = ctx.ScaleDownActuator.CheckStatus()
		empty, drained := status.DeletionsInProgress()
		for _, node := range slices.Concat(empty, drained) {
			going[node] = true // the planner leaves it out
		}
	}
	fleet := newFleet(ctx, status, c.sets)
	request := nodegroupset.ShrinkRequest{Nodes: nodegroupset.Unlimited, Drains: nodegroupset.Unlimited}
	var moved []*apiv1.Node          // the candidates of the request
	var turns []int                  // theirs: empty nodes come first
	var sets []string                // theirs
	places := make(map[string][]int) // set to the places its nodes hold
	for i, node := range candidates {
		group, ours := fleet.groupOf(node)
		if !ours || group.Set == "" || going[node.Name] {
			continue
		}
		moved, sets, turns = append(moved, node), append(sets, group.Set), append(turns, turnOf(ctx, node))
		places[group.Set] = append(places[group.Set], i)
		request.Candidates = append(request.Candidates, nodegroupset.ShrinkCandidate{Group: group.Name, Overdue: true})
	}
	if len(moved) == 0 {
		return candidates
	}
	request.Groups = fleet.withPartners()
	result, err := shrinkInTurns(request, turns)
	if err != nil {
		klog.ErrorS(err, "Candidates for scale-down are not put in order")
		return candidates
	}
	order := result.Go
	for _, wait := range result.Waits {
		order = append(order, wait.Candidate)
	}
	levelled := slices.Clone(candidates)
	for _, i := range order {
		free := places[sets[i]]
		levelled[free[0]], places[sets[i]] = moved[i], free[1:]
	}
	return levelled
}

// turnOf is 0 for a node without pods to move and 1 for others. The autoscaler tries empty nodes first, because one that is tried after
// others may have become the place of their pods: it would then be drained, of which few may be at a time, where it could just go.
func turnOf(ctx *ca_context.AutoscalingContext, node *apiv1.Node) int {
	info, err := ctx.ClusterSnapshot.GetNodeInfo(node.Name)
	if err != nil {
		return 1
	}
	move, err := simulator.GetPodsToMove(info, options.NewNodeDeleteOptions(ctx.AutoscalingOptions), nil, nil, nil, time.Now())
	if err != nil || len(move.Pods) > 0 {
		return 1
	}
	return 0
}
