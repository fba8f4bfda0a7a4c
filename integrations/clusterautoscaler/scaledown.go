package clusterautoscaler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/nodegroupset"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/budgets"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodes"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator"
	kubeutil "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/taints"
)

// triedFor is how long a node that was to go, and is still there, comes after all others.
const triedFor = time.Hour

// scaleDown is the processor that has the last word on which nodes go: of those the autoscaler may remove now it lets go the ones
// that keep the sets level, as many as may go at once, and defers the others. It removes nothing the autoscaler would not.
//
// A deferred node stays unneeded and is looked at again in the next round. For balance none is deferred longer than
// --max-balance-deferral, and none that is not ready; with 0 only the order is left.
type scaleDown struct {
	next    nodes.ScaleDownSetProcessor
	sets    *sets
	journal *journal
	clock   clock.PassiveClock

	deferred *deferral.Waits
	tried    map[string]time.Time // node to when it was to go last
	started  time.Time            // what nodes waited for before is known from their taints only
}

// installScaleDown puts the balancer's scale-down around what is there. Processors that filter candidates are to be registered before,
// as cloud providers do, since the autoscaler's own can not be told from ours afterwards.
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
	return &scaleDown{next: next, sets: b.sets, journal: b.journal, clock: b.clock,
		deferred: deferral.New(b.maxDeferral), tried: map[string]time.Time{}, started: b.clock.Now()}
}

// FilterUnremovableNodes divides the candidates into those that go, in that order, and those that do not. The next processor is asked
// first, because a node that it keeps must neither count as gone nor be waited for. The groups it is there to keep whole, those that
// are all or nothing, are not touched afterwards.
func (s *scaleDown) FilterUnremovableNodes(ctx *ca_context.AutoscalingContext, down *nodes.ScaleDownContext,
	candidates []simulator.NodeToBeRemoved) ([]simulator.NodeToBeRemoved, []simulator.UnremovableNode) {
	now := s.clock.Now()
	s.observe(candidates, now)
	removable, unremovable := s.next.FilterUnremovableNodes(ctx, down, s.inOrder(candidates))
	r := s.newRound(ctx, down.ActuationStatus, s.inOrder(removable))
	result, err := shrinkInTurns(r.request(s, now), s.turns(r.candidates))
	if err != nil {
		klog.ErrorS(err, "Scale-down is not balanced")
		return append(r.candidates, r.others...), unremovable
	}
	going := make([]simulator.NodeToBeRemoved, 0, len(result.Go)+len(r.others))
	for _, i := range result.Go {
		s.tried[r.candidates[i].Node.Name] = now
		going = append(going, r.candidates[i])
		r.spend(i)
	}
	began := map[string]bool{}
	for i := range result.Waits {
		wait := &result.Waits[i]
		node := r.candidates[wait.Candidate].Node
		if wait.Reason == nodegroupset.WaitsForLevel {
			if !r.allows(wait.Candidate) {
				wait.Reason, wait.Behind = nodegroupset.WaitsForLimit, "" // balance costs it nothing
			} else if s.deferred.Defer(node.Name, s.waitsSince(ctx, node, now), now) {
				began[node.Name] = true
			}
		}
		unremovable = append(unremovable, simulator.UnremovableNode{Node: node, Reason: unremovableReason(wait.Reason)})
	}
	s.report(r, result, began, now)
	return append(going, r.others...), unremovable
}

// CleanUp is called when the autoscaler ends.
func (s *scaleDown) CleanUp() { s.next.CleanUp() }

// unremovableReason is the autoscaler's closest word for a reason to wait: the group has given as many nodes as it may for now. It sets
// none of the autoscaler's timers back.
func unremovableReason(reason nodegroupset.ShrinkReason) simulator.UnremovableReason {
	if reason == nodegroupset.HeldByMin {
		return simulator.NodeGroupMinSizeReached
	}
	return simulator.NodeGroupMaxDeletionCountReached
}

// observe takes in the candidates, and drops attempts of long ago.
func (s *scaleDown) observe(candidates []simulator.NodeToBeRemoved, now time.Time) {
	offered := make([]string, 0, len(candidates))
	for _, c := range candidates {
		offered = append(offered, c.Node.Name)
	}
	s.deferred.Offer(offered, now)
	maps.DeleteFunc(s.tried, func(_ string, at time.Time) bool { return now.Sub(at) >= triedFor })
}

// inOrder sorts candidates, which come from a map: first those that were not tried lately, then those without pods to move, then
// those that are no risk, then by name.
func (s *scaleDown) inOrder(candidates []simulator.NodeToBeRemoved) []simulator.NodeToBeRemoved {
	rank := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(slices.Values(candidates), func(a, b simulator.NodeToBeRemoved) int {
		return cmp.Or(
			s.tried[a.Node.Name].Compare(s.tried[b.Node.Name]),
			cmp.Compare(rank(needsDrain(a)), rank(needsDrain(b))),
			cmp.Compare(rank(a.IsRisky), rank(b.IsRisky)),
			cmp.Compare(a.Node.Name, b.Node.Name))
	})
}

func needsDrain(node simulator.NodeToBeRemoved) bool { return len(node.PodsToReschedule) > 0 }

// turns puts nodes that were tried lately behind all others. Else one whose pods refuse to move would be chosen again and again while
// the others starve, which the autoscaler's random order prevents.
func (s *scaleDown) turns(candidates []simulator.NodeToBeRemoved) []int {
	turns := make([]int, len(candidates))
	for i, c := range candidates {
		if !s.tried[c.Node.Name].IsZero() {
			turns[i] = 1
		}
	}
	return turns
}

// round is one decision: the candidates that are to be ordered, and the others.
type round struct {
	fleet         *fleet
	candidates    []simulator.NodeToBeRemoved
	groups        []nodegroupset.ShrinkGroup // of each candidate
	others        []simulator.NodeToBeRemoved
	nodes, drains int64 // how many candidates may go
}

func (s *scaleDown) newRound(ctx *ca_context.AutoscalingContext, status scaledown.ActuationStatus, removable []simulator.NodeToBeRemoved) *round {
	r := &round{fleet: newFleet(ctx, status, s.sets)}
	for _, node := range removable {
		group, ours := r.fleet.groupOf(node.Node)
		// The autoscaler keeps nodes whose pods are to be run to completion, but only after this.
		if !ours || len(node.OnCompletionPods) > 0 {
			r.others = append(r.others, node)
			continue
		}
		r.candidates = append(r.candidates, node)
		r.groups = append(r.groups, group)
	}
	r.limit()
	return r
}

// limit leaves for the candidates what the autoscaler's crop will: it takes groups that are all or nothing first. The crop must not cut
// afterwards, because it takes the nodes group by group.
func (r *round) limit() {
	ctx := r.fleet.ctx
	empty, drained := r.fleet.status.DeletionsInProgress()
	nodes, drains := ctx.MaxScaleDownParallelism-len(empty)-len(drained), ctx.MaxDrainParallelism-len(drained)
	if len(r.others) > 0 {
		var emptyOthers, drainOthers []*v1.Node
		for _, node := range r.others {
			switch {
			case len(node.OnCompletionPods) > 0:
			case needsDrain(node):
				drainOthers = append(drainOthers, node.Node)
			default:
				emptyOthers = append(emptyOthers, node.Node)
			}
		}
		emptyFirst, drainFirst := budgets.NewScaleDownBudgetProcessor(ctx).CropNodes(r.fleet.status, emptyOthers, drainOthers)
		nodes -= count(emptyFirst) + count(drainFirst)
		drains -= count(drainFirst)
	}
	r.nodes, r.drains = inBounds(nodes), inBounds(drains)
}

func count(views []*budgets.NodeGroupView) int {
	n := 0
	for _, view := range views {
		n += len(view.Nodes)
	}
	return n
}

// spend counts a candidate that goes.
func (r *round) spend(candidate int) {
	r.nodes--
	if needsDrain(r.candidates[candidate]) {
		r.drains--
	}
}

// allows is whether the limits would let one more candidate go.
func (r *round) allows(candidate int) bool {
	return r.nodes > 0 && (r.drains > 0 || !needsDrain(r.candidates[candidate]))
}

func (r *round) request(s *scaleDown, now time.Time) nodegroupset.ShrinkRequest {
	request := nodegroupset.ShrinkRequest{Groups: r.fleet.withPartners(), Nodes: r.nodes, Drains: r.drains}
	for i, node := range r.candidates {
		request.Candidates = append(request.Candidates, nodegroupset.ShrinkCandidate{
			Group: r.groups[i].Name, Drain: needsDrain(node), Overdue: s.overdue(node.Node, now)})
	}
	return request
}

// overdue reports whether a node need not wait for balance: it has waited as long as it may, or it is not ready, so that its set is no
// more level with it than without it.
func (s *scaleDown) overdue(node *v1.Node, now time.Time) bool {
	ready, _, err := kubeutil.GetReadinessState(node)
	return s.deferred.Overdue(node.Name, now) || err == nil && !ready
}

// waitsSince is when the wait for balance begins of a node that is deferred for the first time. The autoscaler's taint of a node it does not
// need says since when that is so; if it could have gone before this autoscaler was started, the one before may have deferred it.
func (s *scaleDown) waitsSince(ctx *ca_context.AutoscalingContext, node *v1.Node, now time.Time) time.Time {
	unneeded, err := taints.GetDeletionCandidateTime(node)
	if err != nil || unneeded == nil {
		return now
	}
	if due := unneeded.Add(ctx.NodeGroupDefaults.ScaleDownUnneededTime); due.Before(s.started) {
		return due
	}
	return now
}

// report tells the journal and the log what was decided.
func (s *scaleDown) report(r *round, result nodegroupset.ShrinkResult, began map[string]bool, now time.Time) {
	decide := func(i int, reason, behind string) nodeDecision {
		node := r.candidates[i].Node.Name
		return nodeDecision{Node: node, Group: r.groups[i].Name, Set: r.groups[i].Set, Reason: reason, Behind: behind,
			Since: s.deferred.Since(node), Began: began[node]}
	}
	var decision shrinkDecision
	for _, i := range result.Go {
		reason := ""
		if node := r.candidates[i].Node; !s.deferred.Since(node.Name).IsZero() && s.deferred.Overdue(node.Name, now) {
			reason = reasonOverdue
		}
		decision.Removed = append(decision.Removed, decide(i, reason, ""))
	}
	for _, wait := range result.Waits {
		d := decide(wait.Candidate, string(wait.Reason), wait.Behind)
		klog.V(2).InfoS("Node may be removed but waits", "node", d.Node, "nodeGroup", d.Group, "reason", d.Reason, "behind", d.Behind)
		decision.Waiting = append(decision.Waiting, d)
	}
	s.journal.shrunk(decision)
}
