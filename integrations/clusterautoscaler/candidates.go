package clusterautoscaler

import (
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/nodegroupset"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
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
	next  nodes.ScaleDownNodeProcessor
	sets  *sets
	clock clock.PassiveClock
}

// scaleDownCandidates is the balancer's order of the nodes to try, around the processor that finds them.
func (b *Balancer) scaleDownCandidates(next nodes.ScaleDownNodeProcessor) nodes.ScaleDownNodeProcessor {
	return &candidateOrder{next: next, sets: b.sets, clock: b.clock}
}

// GetPodDestinationCandidates returns the nodes that may take pods.
func (c *candidateOrder) GetPodDestinationCandidates(ctx *ca_context.AutoscalingContext, all []*v1.Node) ([]*v1.Node, errors.AutoscalerError) {
	return c.next.GetPodDestinationCandidates(ctx, all)
}

// GetScaleDownCandidates returns the nodes that may go, in the order in which to try them. The next processor gets the nodes by name,
// since they come from a map and its sort need not be stable.
func (c *candidateOrder) GetScaleDownCandidates(ctx *ca_context.AutoscalingContext, all []*v1.Node) ([]*v1.Node, errors.AutoscalerError) {
	// The sets are known before the first scale-up, but in the first loop there may be no templates.
	if ctx.TemplateNodeInfoRegistry != nil {
		if templates := ctx.TemplateNodeInfoRegistry.GetNodeInfos(); len(templates) > 0 {
			c.sets.update(ctx, templates)
		}
	}
	byName := slices.SortedFunc(slices.Values(all), func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	candidates, err := c.next.GetScaleDownCandidates(ctx, byName)
	if err != nil {
		return candidates, err
	}
	return c.level(ctx, candidates), nil
}

// CleanUp is called when the autoscaler ends.
func (c *candidateOrder) CleanUp() { c.next.CleanUp() }

// level refills the places of each set with its nodes in the order that keeps it level.
func (c *candidateOrder) level(ctx *ca_context.AutoscalingContext, candidates []*v1.Node) []*v1.Node {
	var status scaledown.ActuationStatus
	if ctx.ScaleDownActuator != nil {
		status = ctx.ScaleDownActuator.CheckStatus()
	}
	fleet := newFleet(ctx, status, c.sets)
	places := c.places(fleet, candidates)
	if len(places) == 0 {
		return candidates
	}
	request := nodegroupset.ShrinkRequest{Groups: fleet.withPartners(), Nodes: nodegroupset.Unlimited, Drains: nodegroupset.Unlimited}
	turns := make([]int, len(places))
	free := map[string][]int{} // set to the places its nodes hold
	for i, p := range places {
		request.Candidates = append(request.Candidates, nodegroupset.ShrinkCandidate{Group: p.group.Name, Overdue: true})
		turns[i] = c.turnOf(ctx, candidates[p.at])
		free[p.group.Set] = append(free[p.group.Set], p.at)
	}
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
		p := places[i]
		left := free[p.group.Set]
		levelled[left[0]], free[p.group.Set] = candidates[p.at], left[1:]
	}
	return levelled
}

// place is where a node of a set stands among the candidates.
type place struct {
	at    int
	group nodegroupset.ShrinkGroup
}

// places are those of nodes in sets, without nodes on their way out, which the planner leaves out too.
func (c *candidateOrder) places(fleet *fleet, candidates []*v1.Node) []place {
	going := map[string]bool{}
	if fleet.status != nil {
		empty, drained := fleet.status.DeletionsInProgress()
		for _, node := range slices.Concat(empty, drained) {
			going[node] = true
		}
	}
	var out []place
	for i, node := range candidates {
		if group, ours := fleet.groupOf(node); ours && group.Set != "" && !going[node.Name] {
			out = append(out, place{i, group})
		}
	}
	return out
}

// turnOf is 0 for a node without pods to move and 1 for others. The autoscaler tries empty nodes first, because one that is tried after
// others may have become the place of their pods: it would then be drained, of which few may be at a time, where it could just go.
func (c *candidateOrder) turnOf(ctx *ca_context.AutoscalingContext, node *v1.Node) int {
	info, err := ctx.ClusterSnapshot.GetNodeInfo(node.Name)
	if err != nil {
		return 1
	}
	move, err := simulator.GetPodsToMove(info, options.NewNodeDeleteOptions(ctx.AutoscalingOptions), nil, nil, nil, c.clock.Now())
	if err != nil || len(move.Pods) > 0 {
		return 1
	}
	return 0
}
