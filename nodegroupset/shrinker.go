package nodegroupset

import (
	"cmp"
	"slices"
)

// shrinker takes candidate after candidate, until no set has one that may go.
type shrinker struct {
	candidates    []ShrinkCandidate
	groups        []shrinkGroup
	groupOf       []*shrinkGroup // of each candidate
	sets          []*shrinkSet
	open          []*shrinkSet // those with a candidate that may go
	nodes, drains int64        // that may go yet
	going         []int        // candidates that go
	gone          []bool       // by candidate
}

// shrinkGroup is a group and its candidates that have not gone.
type shrinkGroup struct {
	ShrinkGroup
	set     *shrinkSet
	queue   []int // its candidates from the first on that may go
	overdue []int // its overdue ones, likewise
}

// shrinkSet is a set and its groups.
type shrinkSet struct {
	groups []*shrinkGroup
	terms  *Terms // nil: the groups are kept level
	// ahead is the group that others wait for. It is blocked when it has nothing to
	// give. It stays so: what goes now are overdue candidates only.
	ahead   *shrinkGroup
	blocked bool
	next    int // the candidate to go next
}

// join puts the groups into their sets.
func (s *shrinker) join(terms map[string]*Terms) {
	byName := map[string]*shrinkSet{}
	for i := range s.groups {
		g := &s.groups[i]
		if g.set = byName[g.Set]; g.set == nil {
			g.set = &shrinkSet{}
			s.sets = append(s.sets, g.set)
			if g.Set != "" {
				g.set.terms = terms[g.Set].unlessLevel()
				byName[g.Set] = g.set
			}
		}
		g.set.groups = append(g.set.groups, g)
	}
}

func (s *shrinker) run() {
	s.begin()
	for s.nodes > 0 && len(s.open) > 0 {
		set := slices.MinFunc(s.open, func(a, b *shrinkSet) int { return a.next - b.next })
		s.remove(set.next)
		switch {
		case s.candidates[set.next].Drain && s.drains == 0:
			s.begin() // what has pods to move is barred from now on, in all sets
		case !s.advance(set):
			s.open = slices.DeleteFunc(s.open, func(other *shrinkSet) bool { return other == set })
		}
	}
}

// begin finds the candidates that go next in all sets.
func (s *shrinker) begin() {
	s.open = slices.DeleteFunc(slices.Clone(s.sets), func(set *shrinkSet) bool { return !s.advance(set) })
}

// remove lets a candidate go.
func (s *shrinker) remove(candidate int) {
	s.going = append(s.going, candidate)
	s.gone[candidate] = true
	s.nodes--
	if s.candidates[candidate].Drain {
		s.drains--
	}
	s.groupOf[candidate].Size--
}

// skip brings a queue to the first candidate that may go.
func (s *shrinker) skip(queue []int) []int {
	for len(queue) > 0 && (s.gone[queue[0]] || s.drains == 0 && s.candidates[queue[0]].Drain) {
		queue = queue[1:]
	}
	return queue
}

// advance finds the candidate of a set that goes next, if there is one.
func (s *shrinker) advance(set *shrinkSet) bool {
	for _, g := range set.groups {
		g.queue, g.overdue = s.skip(g.queue), s.skip(g.overdue)
	}
	if !set.blocked {
		if set.ahead = s.first(set, (*shrinkGroup).canShrink); set.ahead == nil {
			return false
		}
		set.blocked = len(set.ahead.queue) == 0
	}
	first := set.ahead
	if set.blocked {
		first = s.first(set, func(g *shrinkGroup) bool { return g.canShrink() && len(g.overdue) > 0 })
	}
	if first == nil {
		return false
	}
	set.next = set.waiting(first)[0]
	return true
}

// waiting are the candidates of a group that may go as long as the set is in its present state.
func (set *shrinkSet) waiting(g *shrinkGroup) []int {
	if set.blocked {
		return g.overdue
	}
	return g.queue
}

// first is the group of a set that shrinks next, or else keeps others from it, of those that may;
// nil if none may.
func (s *shrinker) first(set *shrinkSet, may func(*shrinkGroup) bool) *shrinkGroup {
	losers := set.terms.losers(set.groups, may)
	if len(losers) == 0 {
		return nil
	}
	return slices.MinFunc(losers, func(a, b *shrinkGroup) int {
		if by := set.terms.compare(a, b); by != 0 {
			return by
		}
		return cmp.Or(
			s.effort(set.waiting(a))-s.effort(set.waiting(b)),
			min(1, len(b.overdue))-min(1, len(a.overdue)),
			cmp.Compare(b.Name, a.Name),
		)
	})
}

// effort orders groups that stand alike by their next candidates: one without pods to move, one with
// some, none.
func (s *shrinker) effort(queue []int) int {
	switch {
	case len(queue) == 0:
		return 2
	case s.candidates[queue[0]].Drain:
		return 1
	}
	return 0
}

// result adds why the others wait.
func (s *shrinker) result() ShrinkResult {
	out := ShrinkResult{Go: s.going}
	if left := len(s.candidates) - len(s.going); left > 0 {
		out.Waits = make([]ShrinkWait, 0, left)
	}
	for i, g := range s.groupOf {
		if s.gone[i] {
			continue
		}
		wait := ShrinkWait{Candidate: i, Reason: ReasonWaitsForLimit}
		if !g.canShrink() {
			wait.Reason = ReasonAtMin
		} else if first := g.set.ahead; g.waitsFor(first) && !s.candidates[i].Overdue {
			wait.Reason, wait.Behind = ReasonWaitsForLevel, first.Name
		}
		out.Waits = append(out.Waits, wait)
	}
	return out
}

func (g *shrinkGroup) waitsFor(first *shrinkGroup) bool {
	if g.set.terms != nil {
		return g != first
	}
	return g.Size < first.Size
}
