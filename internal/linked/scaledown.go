package linked

import (
	"cmp"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// triedFor is how long a node that was to go, and is still there, comes after all others.
const triedFor = time.Hour

// ScaleDown has the last word on which nodes go: of those the autoscaler may remove now it lets go
// the ones that keep the sets level, as many as may go at once, and defers the others. It removes
// nothing the autoscaler would not.
//
// A deferred node stays unneeded and is looked at again in the next round. For balance none is
// deferred longer than the limit, and none that is not ready; with 0 only the order is left. It is
// not safe for concurrent use.
type ScaleDown struct {
	journal  *Journal
	clock    clock.PassiveClock
	deferred *deferral.Waits
	tried    map[string]time.Time // node to when it was to go last
	started  time.Time            // what nodes waited for before is known from their taints only
}

// NewScaleDown returns a scale-down without memory that defers no node longer than the limit.
func NewScaleDown(limit time.Duration, journal *Journal) *ScaleDown {
	return &ScaleDown{journal: journal, clock: journal.clock, deferred: deferral.New(limit), tried: map[string]time.Time{},
		started: journal.clock.Now()}
}

// Removable is a node that the autoscaler may remove now.
type Removable struct {
	Node         *v1.Node
	Drain        bool // it has pods to move
	Risky        bool
	OnCompletion bool // it has pods that are run to completion: the autoscaler keeps such nodes, but only afterwards
	Unready      bool
	// Due is when it could have gone first, as far as its taint tells; zero where it does not.
	Due time.Time
}

// Offer takes in which nodes may be removed now, and drops attempts of long ago.
func (s *ScaleDown) Offer(nodes []Removable) {
	now := s.clock.Now()
	offered := make([]string, 0, len(nodes))
	for i := range nodes {
		offered = append(offered, nodes[i].Node.Name)
	}
	s.deferred.Offer(offered, now)
	maps.DeleteFunc(s.tried, func(_ string, at time.Time) bool { return now.Sub(at) >= triedFor })
}

// Compare orders nodes: first those that were not tried lately, then those without pods to move,
// then those that are no risk, then by name.
func (s *ScaleDown) Compare(a, b Removable) int {
	rank := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(
		s.tried[a.Node.Name].Compare(s.tried[b.Node.Name]),
		cmp.Compare(rank(a.Drain), rank(b.Drain)),
		cmp.Compare(rank(a.Risky), rank(b.Risky)),
		cmp.Compare(a.Node.Name, b.Node.Name))
}

// Round is one decision.
type Round[G NodeGroup] struct {
	Cloud     Cloud[G]
	Deletions Deletions
	SetOf     func(group string) string
	TermsOf   func(group string) *nodegroupset.Terms // nil where no sets are declared
	Nodes     []Removable                            // in the order of Compare
	// Limits are how many nodes may go now, and how many of them may have pods to move, where the
	// others go that are not decided here: their positions are given.
	Limits func(others []int) (nodes, drains int)
}

// round is one decision on its way.
type round struct {
	nodes         []Removable
	groups        []nodegroupset.ShrinkGroup // of each of ours
	ours, others  []int                      // positions among nodes
	limit, drains int64                      // how many of ours may go yet
}

// Decide says which nodes go now, in that order, and of the others why not, by their positions.
func (request Round[G]) Decide(s *ScaleDown) nodegroupset.ShrinkResult {
	now := s.clock.Now()
	fleet := newFleet(request.Cloud, request.Deletions, request.SetOf, request.TermsOf)
	r := divide(fleet, request)
	asked := r.request(fleet.withPartners(), s.overdue(now))
	asked.Terms = fleet.termsBySet()
	result, err := shrinkInTurns(asked, s.later(r))
	if err != nil {
		klog.ErrorS(err, "Scale-down is not balanced")
		return nodegroupset.ShrinkResult{Go: append(r.ours, r.others...)}
	}
	var out nodegroupset.ShrinkResult
	for _, i := range result.Go {
		s.tried[r.node(i).Node.Name] = now
		out.Go = append(out.Go, r.ours[i])
		r.spend(i)
	}
	out.Go = append(out.Go, r.others...)
	began := map[string]bool{}
	for i := range result.Waits {
		wait := &result.Waits[i]
		node := r.node(wait.Candidate)
		if wait.Reason == nodegroupset.ReasonWaitsForLevel {
			if !r.allows(wait.Candidate) {
				wait.Reason, wait.Behind = nodegroupset.ReasonWaitsForLimit, "" // balance costs it nothing
			} else if s.deferred.Defer(node.Node.Name, s.waitsSince(node, now), now) {
				began[node.Node.Name] = true
			}
		}
		out.Waits = append(out.Waits, nodegroupset.ShrinkWait{Candidate: r.ours[wait.Candidate], Reason: wait.Reason, Behind: wait.Behind})
	}
	s.report(r, result, began, now)
	return out
}

// divide finds the nodes that are decided here, and what the limits leave for them.
func divide[G NodeGroup](fleet *fleet[G], request Round[G]) *round {
	r := &round{nodes: request.Nodes}
	for i := range request.Nodes {
		group, ours := fleet.groupOf(request.Nodes[i].Node)
		if !ours || request.Nodes[i].OnCompletion {
			r.others = append(r.others, i)
			continue
		}
		r.ours = append(r.ours, i)
		r.groups = append(r.groups, group)
	}
	nodes, drains := request.Limits(r.others)
	r.limit, r.drains = inBounds(nodes), inBounds(drains)
	return r
}

func (r *round) node(i int) *Removable { return &r.nodes[r.ours[i]] }

// spend counts a node that goes.
func (r *round) spend(i int) {
	r.limit--
	if r.node(i).Drain {
		r.drains--
	}
}

// allows reports whether the limits would let one more node go.
func (r *round) allows(i int) bool { return r.limit > 0 && (r.drains > 0 || !r.node(i).Drain) }

// request asks which go. Nodes whose wait has ended need not keep their sets level, nor does one
// that is not ready: its set is no more level with it than without it.
func (r *round) request(groups []nodegroupset.ShrinkGroup, overdue func(*Removable) bool) nodegroupset.ShrinkRequest {
	request := nodegroupset.ShrinkRequest{Groups: groups, Nodes: r.limit, Drains: r.drains}
	for i := range r.ours {
		node := r.node(i)
		request.Candidates = append(request.Candidates, nodegroupset.ShrinkCandidate{
			Group: r.groups[i].Name, Drain: node.Drain, Overdue: node.Unready || overdue(node)})
	}
	return request
}

func (s *ScaleDown) overdue(now time.Time) func(*Removable) bool {
	return func(node *Removable) bool { return s.deferred.Overdue(node.Node.Name, now) }
}

// later puts nodes that were tried lately behind all others. Else one whose pods refuse to move
// would be chosen again and again while the others starve, which the autoscaler's random order
// prevents.
func (s *ScaleDown) later(r *round) []bool {
	later := make([]bool, len(r.ours))
	for i := range later {
		later[i] = !s.tried[r.node(i).Node.Name].IsZero()
	}
	return later
}

// waitsSince is when the wait for balance begins of a node that is deferred for the first time. If
// it could have gone before this autoscaler was started, the one before may have deferred it.
func (s *ScaleDown) waitsSince(node *Removable, now time.Time) time.Time {
	if !node.Due.IsZero() && node.Due.Before(s.started) {
		return node.Due
	}
	return now
}

// report writes the decision to the journal and the log.
func (s *ScaleDown) report(r *round, result nodegroupset.ShrinkResult, began map[string]bool, now time.Time) {
	decide := func(i int, reason, behind string) nodeDecision {
		node := r.node(i).Node.Name
		return nodeDecision{Node: node, Group: r.groups[i].Name, Set: r.groups[i].Set, Reason: reason, Behind: behind,
			Since: s.deferred.Since(node), Began: began[node]}
	}
	var decision shrinkDecision
	for _, i := range result.Go {
		reason := ""
		if node := r.node(i).Node; !s.deferred.Since(node.Name).IsZero() && s.deferred.Overdue(node.Name, now) {
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
