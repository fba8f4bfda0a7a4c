package nodegroupset

import (
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// Unlimited is a limit of a ShrinkRequest that holds nothing back.
const Unlimited = math.MaxInt32

// ShrinkRequest asks which of the nodes that are not needed go now.
type ShrinkRequest struct {
	Groups     []ShrinkGroup
	Candidates []ShrinkCandidate // in the caller's order of preference
	Nodes      int64             // how many may go in all, 0 or more
	Drains     int64             // how many of them may have pods to move, 0 or more
	// Terms are how the groups of a set share nodes, by set. The groups of a set
	// without terms are kept level.
	Terms map[string]*Terms
}

// ShrinkGroup is a node group as it stands. Groups with the same Set are kept
// level with each other; a group without one is levelled with none. Size is the
// target size less the nodes on their way out. Size and Min are 0..MaxSize; a
// group at its min or below cannot shrink.
type ShrinkGroup struct {
	Name, Set string
	Size, Min int64
}

// ShrinkCandidate is a node that is not needed.
type ShrinkCandidate struct {
	Group   string
	Drain   bool // it has pods to move, so it counts against Drains too
	Overdue bool // it has waited long enough: it may go although its set becomes uneven
}

// ShrinkReason says why a candidate does not go now.
type ShrinkReason string

const (
	ReasonWaitsForLevel ShrinkReason = "level" // a larger group of its set has to shrink first
	ReasonWaitsForLimit ShrinkReason = "limit" // Nodes or Drains is used up
	ReasonAtMin         ShrinkReason = "min"   // its group is at its min
)

// ShrinkWait is a candidate that does not go now.
type ShrinkWait struct {
	Candidate int // its position in the request
	Reason    ShrinkReason
	Behind    string // for ReasonWaitsForLevel, the larger group that has to shrink first
}

// ShrinkResult is the answer of Shrink. Every candidate is in one of the lists.
type ShrinkResult struct {
	Go    []int        // positions of the candidates that go, in this order
	Waits []ShrinkWait // all others, by position
}

// canShrink reports whether the group is above its minimum.
func (g *shrinkGroup) canShrink() bool { return g.Size > g.Min }

// ShrinksFirst returns the position of the group from which Shrink takes a node first if all are of
// one set with these terms and have equal candidates; -1 if none can shrink. It is for callers that
// do not choose the nodes themselves. Without terms the set stays level as long as no group gets
// smaller than that one will be then.
func ShrinksFirst(groups []ShrinkGroup, terms *Terms) int {
	all := make([]*shrinkGroup, len(groups))
	for i := range groups {
		all[i] = &shrinkGroup{ShrinkGroup: groups[i]}
	}
	terms = terms.unlessLevel()
	losers := terms.losers(all, (*shrinkGroup).canShrink)
	if len(losers) == 0 {
		return -1
	}
	return slices.Index(all, slices.MinFunc(losers, terms.lastOf))
}

// Shrink chooses which nodes go so that the groups of a set stay level. It is the
// mirror of Split: a candidate goes when its group is among the largest of its
// set, where nodes that go count as gone, and groups that cannot shrink do not
// count. Among equally large groups comes first the one whose next candidate has
// no pods to move, then one with an overdue candidate, then the last by name.
//
// When nothing in a set can go so, because a largest group has no candidate left,
// the overdue candidates of the set may, those of its largest group first. In a set
// with terms that group takes the place of the largest whose node the terms leave out
// first of a set with one node less. Between
// sets, the one whose next candidate stands first in the request is served first.
// Within a group the order of the request holds; once Drains is used up,
// candidates with pods to move are passed over.
//
// With every candidate overdue and no limits, Go is the order in which to
// consider them. The order of the groups does not matter. An impossible request
// is refused with an *apportion.InvalidError.
func Shrink(request ShrinkRequest) (ShrinkResult, error) {
	s, err := newShrinker(request)
	if err != nil {
		return ShrinkResult{}, err
	}
	s.run()
	return s.result(), nil
}

// newShrinker refuses what cannot be answered, and finds the candidates of each
// group and the groups of each set.
func newShrinker(request ShrinkRequest) (*shrinker, error) {
	if request.Nodes < 0 {
		return nil, apportion.Invalid("nodes", request.Nodes, notNegative)
	}
	if request.Drains < 0 {
		return nil, apportion.Invalid("drains", request.Drains, notNegative)
	}
	s := &shrinker{
		candidates: request.Candidates, nodes: request.Nodes, drains: request.Drains,
		groups: make([]shrinkGroup, len(request.Groups)), groupOf: make([]*shrinkGroup, len(request.Candidates)),
		gone: make([]bool, len(request.Candidates)),
	}
	byName := make(map[string]*shrinkGroup, len(request.Groups))
	for i := range request.Groups {
		g := &request.Groups[i]
		if err := checkGroup(i, g.Name, bounded{"size", g.Size, MaxSize}, bounded{"min", g.Min, MaxSize}); err != nil {
			return nil, err
		}
		if byName[g.Name] != nil {
			return nil, apportion.Invalid(fmt.Sprintf("groups[%d].name", i), g.Name, "is listed twice")
		}
		s.groups[i] = shrinkGroup{ShrinkGroup: *g}
		byName[g.Name] = &s.groups[i]
	}
	for i := range request.Candidates {
		name := request.Candidates[i].Group
		group := byName[name]
		if group == nil {
			return nil, apportion.Invalid(fmt.Sprintf("candidates[%d].group", i), name, "is none of the groups")
		}
		s.groupOf[i] = group
		group.queue = append(group.queue, i)
		if request.Candidates[i].Overdue {
			group.overdue = append(group.overdue, i)
		}
	}
	s.join(request.Terms)
	return s, nil
}
