package clusterautoscaler

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/nodegroupset"

	v1 "k8s.io/api/core/v1"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/budgets"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodes"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator"
	kubeutil "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/taints"
)

// scaleDown is the autoscaler's ScaleDownSetProcessor, the one that has the last word on which
// nodes go.
type scaleDown struct {
	nodes.ScaleDownSetProcessor
	sets *sets
	down *linked.ScaleDown
}

// installScaleDown puts the balancer's scale-down around what is there. Processors that filter
// candidates must be registered before, as cloud providers do, since the autoscaler's own cannot be
// distinguished from ours afterwards.
func (b *Balancer) installScaleDown(p *processors.AutoscalingProcessors) {
	if p.ScaleDownNodeProcessor == nil {
		p.ScaleDownNodeProcessor = nodes.NewPreFilteringScaleDownNodeProcessor()
	}
	if p.ScaleDownSetProcessor == nil {
		p.ScaleDownSetProcessor = nodes.NewAtomicResizeFilteringProcessor()
	}
	p.ScaleDownNodeProcessor = b.scaleDownCandidates(p.ScaleDownNodeProcessor)
	p.ScaleDownSetProcessor = b.scaleDownSet(p.ScaleDownSetProcessor)
}

// scaleDownSet is the balancer's word on which nodes go, around the processor that had it.
func (b *Balancer) scaleDownSet(next nodes.ScaleDownSetProcessor) nodes.ScaleDownSetProcessor {
	return &scaleDown{ScaleDownSetProcessor: next, sets: b.sets, down: linked.NewScaleDown(b.maxDeferral, b.journal)}
}

// FilterUnremovableNodes divides the candidates into those that go, in that order, and those that
// do not. The next processor is asked first, because a node that it keeps must neither count as
// gone nor be waited for. The groups it is there to keep whole, those that are all or nothing, are
// not touched afterwards.
func (s *scaleDown) FilterUnremovableNodes(ctx *ca_context.AutoscalingContext, down *nodes.ScaleDownContext,
	candidates []simulator.NodeToBeRemoved) ([]simulator.NodeToBeRemoved, []simulator.UnremovableNode) {
	offered := s.inOrder(ctx, candidates)
	s.down.Offer(offered.read)
	removable, unremovable := s.ScaleDownSetProcessor.FilterUnremovableNodes(ctx, down, s.inOrder(ctx, candidates).nodes)
	left := s.inOrder(ctx, removable)
	decision := linked.Round[ca.NodeGroup]{
		Cloud: cloudOf(ctx), Deletions: down.ActuationStatus, SetOf: s.sets.SetOf, TermsOf: s.sets.TermsOf, Nodes: left.read,
		Limits: func(others []int) (int, int) { return limits(ctx, down.ActuationStatus, left.of(others)) },
	}.Decide(s.down)
	for _, wait := range decision.Waits {
		unremovable = append(unremovable, simulator.UnremovableNode{Node: left.nodes[wait.Candidate].Node,
			Reason: unremovableReason(wait.Reason)})
	}
	return left.of(decision.Go), unremovable
}

// ordered are nodes that may go, in order.
type ordered struct {
	nodes []simulator.NodeToBeRemoved
	read  []linked.Removable // of each
}

func (o ordered) of(positions []int) []simulator.NodeToBeRemoved {
	out := make([]simulator.NodeToBeRemoved, 0, len(positions))
	for _, i := range positions {
		out = append(out, o.nodes[i])
	}
	return out
}

// inOrder sorts candidates, which come from a map.
func (s *scaleDown) inOrder(ctx *ca_context.AutoscalingContext, candidates []simulator.NodeToBeRemoved) ordered {
	type pair struct {
		node simulator.NodeToBeRemoved
		read linked.Removable
	}
	pairs := make([]pair, 0, len(candidates))
	for _, node := range candidates {
		pairs = append(pairs, pair{node, removable(ctx, node)})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return s.down.Compare(a.read, b.read) })
	var out ordered
	for _, p := range pairs {
		out.nodes, out.read = append(out.nodes, p.node), append(out.read, p.read)
	}
	return out
}

// removable is what is read of a node that may go. The autoscaler's taint of a node it does not
// need says since when that is so.
func removable(ctx *ca_context.AutoscalingContext, node simulator.NodeToBeRemoved) linked.Removable {
	ready, _, err := kubeutil.GetReadinessState(node.Node)
	out := linked.Removable{
		Node: node.Node, Drain: needsDrain(node), Risky: node.IsRisky, OnCompletion: len(node.OnCompletionPods) > 0,
		Unready: err == nil && !ready,
	}
	if unneeded, err := taints.GetDeletionCandidateTime(node.Node); err == nil && unneeded != nil {
		out.Due = unneeded.Add(ctx.NodeGroupDefaults.ScaleDownUnneededTime)
	}
	return out
}

func needsDrain(node simulator.NodeToBeRemoved) bool { return len(node.PodsToReschedule) > 0 }

// unremovableReason is the autoscaler's closest word for a reason to wait: the group has given as
// many nodes as it may for now. It sets none of the autoscaler's timers back.
func unremovableReason(reason nodegroupset.ShrinkReason) simulator.UnremovableReason {
	if reason == nodegroupset.ReasonAtMin {
		return simulator.NodeGroupMinSizeReached
	}
	return simulator.NodeGroupMaxDeletionCountReached
}

// limits are what the autoscaler's crop will leave where these other nodes go: it takes groups that
// are all or nothing first. The crop must not cut afterwards, because it takes the nodes group by
// group.
func limits(ctx *ca_context.AutoscalingContext, status scaledown.ActuationStatus, others []simulator.NodeToBeRemoved) (left, drains int) {
	empty, drained := status.DeletionsInProgress()
	left, drains = ctx.MaxScaleDownParallelism-len(empty)-len(drained), ctx.MaxDrainParallelism-len(drained)
	if len(others) == 0 {
		return left, drains
	}
	var emptyOthers, drainOthers []*v1.Node
	for _, node := range others {
		switch {
		case len(node.OnCompletionPods) > 0:
		case needsDrain(node):
			drainOthers = append(drainOthers, node.Node)
		default:
			emptyOthers = append(emptyOthers, node.Node)
		}
	}
	emptyFirst, drainFirst := budgets.NewScaleDownBudgetProcessor(ctx).CropNodes(status, emptyOthers, drainOthers)
	return left - count(emptyFirst) - count(drainFirst), drains - count(drainFirst)
}

func count(views []*budgets.NodeGroupView) int {
	n := 0
	for _, view := range views {
		n += len(view.Nodes)
	}
	return n
}
