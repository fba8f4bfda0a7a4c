package nodegroupset

import (
	"container/heap"
	"slices"
)

// shrinker takes candidate after candidate, until no set has one that may go.
type shrinker struct {
	candidates    []ShrinkCandidate
	groups        []shrinkGroup
	groupOf       []*shrinkGroup // of each candidate
	sets          []*shrinkSet
	open          ranking[*shrinkSet] // those with a candidate that may go
	nodes, drains int64               // that may go yet
	going         []int               // candidates that go
	gone          []bool              // by candidate
}

// shrinkGroup is a group and its candidates that have not gone.
type shrinkGroup struct {
	ShrinkGroup
	set   *shrinkSet
	count int   // of its candidates
	lates int   // of those overdue
	queue []int // its candidates from the first on that may go
	late  []int // its overdue ones, likewise
	drain bool  // whether the first of queue has pods to move
}

// shrinkSet is a set and those of its groups that can shrink.
type shrinkSet struct {
	groups ranking[*shrinkGroup]
	// blocker is the largest group when it has nothing to give. It stays so: what
	// goes now are overdue candidates only.
	blocker *shrinkGroup
	next    int // the candidate to go next

	terms   *Terms // nil: the groups are kept level, by the order of the ranking
	members []*ShrinkGroup
	byGroup map[*ShrinkGroup]*shrinkGroup
}

// ranking is a heap whose order can change.
type ranking[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (r *ranking[T]) Len() int           { return len(r.items) }
func (r *ranking[T]) Less(i, j int) bool { return r.before(r.items[i], r.items[j]) }
func (r *ranking[T]) Swap(i, j int)      { r.items[i], r.items[j] = r.items[j], r.items[i] }
func (r *ranking[T]) Push(item any)      { r.items = append(r.items, item.(T)) }

func (r *ranking[T]) Pop() any {
	last := len(r.items) - 1
	item := r.items[last]
	r.items = r.items[:last]
	return item
}

// queue hands the candidates that were counted to their groups.
func (s *shrinker) queue() {
	s.gone = make([]bool, len(s.candidates))
	slots := make([]int, 2*len(s.candidates))
	for i := range s.groups {
		g := &s.groups[i]
		g.queue, slots = slots[:0:g.count], slots[g.count:]
		g.late, slots = slots[:0:g.lates], slots[g.lates:]
	}
	for i, g := range s.groupOf {
		g.queue = append(g.queue, i)
		if s.candidates[i].Overdue {
			g.late = append(g.late, i)
		}
	}
}

// join puts the groups into their sets.
func (s *shrinker) join(terms map[string]*Terms) {
	byName := map[string]*shrinkSet{}
	for i := range s.groups {
		g := &s.groups[i]
		if g.set = byName[g.Set]; g.set == nil {
			g.set = &shrinkSet{}
			s.sets = append(s.sets, g.set)
			if of := terms[g.Set]; g.Set != "" && !of.Level() {
				g.set.terms, g.set.byGroup = of, map[*ShrinkGroup]*shrinkGroup{}
			}
			if g.Set != "" {
				byName[g.Set] = g.set
			}
		}
		if g.set.terms != nil {
			g.set.members = append(g.set.members, &g.ShrinkGroup)
			g.set.byGroup[&g.ShrinkGroup] = g
		}
		if g.canShrink() {
			g.set.groups.items = append(g.set.groups.items, g)
		}
	}
}

func (s *shrinker) run() {
	s.rank()
	for s.nodes > 0 && s.open.Len() > 0 {
		set := s.open.items[0]
		s.take(set)
		if s.candidates[set.next].Drain && s.drains == 0 {
			s.rank() // what has pods to move is barred from now on, in all sets
			continue
		}
		if s.advance(set) {
			heap.Fix(&s.open, 0)
		} else {
			heap.Pop(&s.open)
		}
	}
}

// rank puts all groups and sets in order.
func (s *shrinker) rank() {
	s.open = ranking[*shrinkSet]{s.open.items[:0], func(a, b *shrinkSet) bool { return a.next < b.next }}
	for _, set := range s.sets {
		for _, g := range set.groups.items {
			s.settle(g)
		}
		s.order(set)
		if s.advance(set) {
			s.open.items = append(s.open.items, set)
		}
	}
	heap.Init(&s.open)
}

// order ranks the groups of a set. Under terms each node that goes may change the
// order, so that the first is looked for every time.
func (s *shrinker) order(set *shrinkSet) {
	switch {
	case set.terms != nil:
		return
	case set.blocker != nil:
		set.groups.before = s.byLateness
	default:
		set.groups.before = byLevel
	}
	heap.Init(&set.groups)
}

// take lets the next candidate of a set go.
func (s *shrinker) take(set *shrinkSet) {
	g := s.groupOf[set.next]
	s.going = append(s.going, set.next)
	s.gone[set.next] = true
	s.nodes--
	if s.candidates[set.next].Drain {
		s.drains--
	}
	g.Size--
	s.settle(g)
	if set.terms != nil {
		return
	}
	if !g.canShrink() {
		heap.Pop(&set.groups)
	} else {
		heap.Fix(&set.groups, 0)
	}
}

// settle brings the queues of a group to the first candidates that may go.
func (s *shrinker) settle(g *shrinkGroup) {
	g.queue, g.late = s.skip(g.queue), s.skip(g.late)
	g.drain = len(g.queue) > 0 && s.candidates[g.queue[0]].Drain
}

func (s *shrinker) skip(queue []int) []int {
	for len(queue) > 0 && (s.gone[queue[0]] || s.drains == 0 && s.candidates[queue[0]].Drain) {
		queue = queue[1:]
	}
	return queue
}

// advance finds the candidate of a set that goes next, if there is one.
func (s *shrinker) advance(set *shrinkSet) bool {
	first := s.first(set)
	if first == nil {
		return false
	}
	if set.blocker == nil {
		if len(first.queue) > 0 {
			set.next = first.queue[0]
			return true
		}
		set.blocker = first
		s.order(set)
		first = s.first(set)
	}
	if first != nil && len(first.late) > 0 {
		set.next = first.late[0]
		return true
	}
	return false
}

// first is the group of a set that shrinks next; nil if none can.
func (s *shrinker) first(set *shrinkSet) *shrinkGroup {
	if set.terms == nil {
		if set.groups.Len() == 0 {
			return nil
		}
		return set.groups.items[0]
	}
	losers := set.terms.losers(set.members, func(g *ShrinkGroup) bool {
		return g.canShrink() && (set.blocker == nil || len(set.byGroup[g].late) > 0)
	})
	if len(losers) == 0 {
		return nil
	}
	return set.byGroup[slices.MinFunc(losers, func(a, b *ShrinkGroup) int {
		if by := set.terms.compare(a, b); by != 0 {
			return by
		}
		if byCandidates(set.byGroup[a], set.byGroup[b]) {
			return -1
		}
		return 1
	})]
}

// byLevel puts the group first that shrinks next, or else keeps others from it.
func byLevel(a, b *shrinkGroup) bool {
	if a.Size != b.Size {
		return a.Size > b.Size
	}
	return byCandidates(a, b)
}

// byCandidates puts the group first that shrinks next of those that stand alike.
func byCandidates(a, b *shrinkGroup) bool {
	switch {
	case len(a.queue) == 0 || len(b.queue) == 0:
		if (len(a.queue) == 0) != (len(b.queue) == 0) {
			return len(b.queue) == 0
		}
	case a.drain != b.drain:
		return b.drain
	case (len(a.late) > 0) != (len(b.late) > 0):
		return len(a.late) > 0
	}
	return a.Name > b.Name
}

// byLateness puts the group first whose overdue candidate goes next.
func (s *shrinker) byLateness(a, b *shrinkGroup) bool {
	switch {
	case len(a.late) == 0 || len(b.late) == 0:
		return len(a.late) > len(b.late)
	case a.Size != b.Size:
		return a.Size > b.Size
	}
	if first, second := s.candidates[a.late[0]].Drain, s.candidates[b.late[0]].Drain; first != second {
		return second
	}
	return a.Name > b.Name
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
		} else if first := s.ahead(g.set); s.waitsFor(g, first) && !s.candidates[i].Overdue {
			wait.Reason, wait.Behind = ReasonWaitsForLevel, first.Name
		}
		out.Waits = append(out.Waits, wait)
	}
	return out
}

// ahead is the group of a set that others wait for.
func (s *shrinker) ahead(set *shrinkSet) *shrinkGroup {
	if set.blocker != nil {
		return set.blocker
	}
	return s.first(set)
}

func (s *shrinker) waitsFor(g, first *shrinkGroup) bool {
	if g.set.terms != nil {
		return g != first
	}
	return g.Size < first.Size
}
