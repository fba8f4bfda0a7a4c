package topologyspread

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// exact decides a single level: how many nodes each zone gets so that their sum is the fewest, no
// more slots are wasted than may be, and the plan is the best one. It is a dynamic programme over
// the zones; a state is what has been used up of nodes, waste and opened zones. Of states with the
// same nodes and opened zones only those remain that waste less or are better.
func (s *splitSearch) exact(o *outline) {
	if o.opensAll() && len(o.closed) > 0 { // this level is one of those with the same choice of zones
		s.settle(slices.Sorted(slices.Values(o.closed)))
		return
	}
	if o.contiguous() {
		s.decide(o, -1)
		return
	}
	for _, opened := range slices.Backward(o.opened) { // more zones are mostly more even
		if prices := s.pricesOf(o); prices != nil && s.promising(o, opened) {
			s.settle(prices.cheapest(opened))
		}
		if before := s.best; s.promising(o, opened) {
			if s.decide(o, opened); s.best != before {
				s.settle(s.openedBy(s.best))
			}
		}
	}
}

func (s *splitSearch) openedBy(plan *splitPlan) []int {
	var zones []int
	for i := range s.zones {
		if !s.zones[i].active && plan.zones[i] > 0 {
			zones = append(zones, i)
		}
	}
	return zones
}

// settle looks for the best plan of all levels that opens these zones, ascending. That is fast, and
// a good plan rules out many of the levels that are still to be decided.
func (s *splitSearch) settle(zones []int) {
	choice := fmt.Sprint(zones)
	if s.settled[choice] {
		return
	}
	s.settled[choice] = true
	whole := s.problem
	s.problem = whole.opening(func(zone int) bool { _, found := slices.BinarySearch(zones, zone); return found })
	if top := s.highest(); top > 0 {
		s.explore(s.bound(window{1, top}))
	}
	s.problem = whole
}

// choice is a number of nodes for a zone.
type choice struct {
	nodes, waste int64
	opens        bool
	squares      uint64
	sizes        []int64 // of the groups of the zone
}

// stage is a zone with its choices.
type stage struct {
	zone    int
	groups  []group
	choices []*choice
	// What the stages from here on use at least and at most.
	leastNodes, mostNodes, leastWaste int64
}

// state is a choice for every zone so far.
type state struct {
	waste   int64
	squares uint64
	choice  *choice
	before  *state
}

type used struct {
	nodes  int64
	opened int
}

// decide looks for the best plan with so many opened zones; any number if it is negative.
func (s *splitSearch) decide(o *outline, opened int) {
	low, high := s.levels(o, opened)
	stages := s.stages(o, low, high)
	wasteLeft := s.perNode*o.nodes - s.placed
	for i := range s.zones {
		wasteLeft += s.yield(&s.zones[i], s.slots(&s.zones[i], 0), o.to)
	}
	want, limit := opened, opened+1
	if opened < 0 {
		want, limit = o.need, o.need
	}
	beyond := s.limit(o, stages, opened, 2*low+1)
	states := map[used][]*state{{}: {{}}}
	if beyond(0, 0, 0, -1) {
		return
	}
	for i := range stages {
		next := map[used][]*state{}
		for at, list := range states {
			for _, c := range stages[i].choices {
				to := used{at.nodes + c.nodes, at.opened}
				if c.opens {
					to.opened = min(limit, to.opened+1)
				}
				if to.nodes+stages[i].leastNodes > o.nodes || to.nodes+stages[i].mostNodes < o.nodes || opened >= 0 && to.opened > want {
					continue
				}
				for _, before := range list {
					waste, squares := before.waste+c.waste, before.squares+c.squares
					if waste+stages[i].leastWaste <= wasteLeft && !beyond(squares, to.nodes, to.opened, i) {
						next[to] = keep(next[to], &state{waste, squares, c, before}, stages[:i+1])
					}
				}
			}
		}
		states = next
	}
	s.take(states[used{o.nodes, want}], stages)
}

// take makes the best of some final states the plan, if it is better than the best so far.
func (s *splitSearch) take(states []*state, stages []stage) {
	var best *state
	for _, st := range states {
		if best == nil || compareStates(st, best, stages) < 0 {
			best = st
		}
	}
	if best == nil {
		return
	}
	zones := make([]int64, len(s.zones))
	for i := len(stages) - 1; i >= 0; i-- {
		zones[stages[i].zone] = best.choice.nodes
		best = best.before
	}
	if plan := s.planOf(zones); plan.better(s.best) {
		s.best = plan
	}
}

// limit returns a function that reports whether a state after a stage, -1 for none, leads to plans
// that are worse than the best one only. Every node is taken at a price, that of one at the level,
// and what zones cost less or more than that is known.
func (s *splitSearch) limit(o *outline, stages []stage, opened int, price int64) func(squares uint64, nodes int64, zones, stage int) bool {
	if s.best == nil || s.best.nodes > o.nodes || s.best.squares > mostSquares || price > mostSquares/max(1, o.nodes) {
		return func(uint64, int64, int, int) bool { return false }
	}
	dearer := make([][]int64, len(stages)+1) // of the stages from one on, by how many zones they open
	var fixed int64
	var gains []int64 // of zones to open, the best first
	dearer[len(stages)] = []int64{0}
	for i := len(stages) - 1; i >= 0; i-- {
		st := &stages[i]
		stays, opens := int64(math.MaxInt64), int64(math.MaxInt64)
		for _, c := range st.choices {
			if over := int64(c.squares) - price*c.nodes; c.opens {
				opens = min(opens, over)
			} else {
				stays = min(stays, over)
			}
		}
		switch {
		case opened < 0:
			fixed += min(stays, opens)
		default:
			fixed += stays
			if opens != math.MaxInt64 {
				at, _ := slices.BinarySearch(gains, opens-stays)
				gains = slices.Insert(gains, at, opens-stays)
			}
		}
		dearer[i] = append(dearer[i], fixed)
		for _, g := range gains {
			dearer[i] = append(dearer[i], dearer[i][len(dearer[i])-1]+g)
		}
	}
	return func(squares uint64, nodes int64, zones, stage int) bool {
		rest := 0
		if opened >= 0 {
			rest = opened - zones
		}
		bounds := dearer[stage+1]
		return rest >= len(bounds) || int64(squares)+price*(o.nodes-nodes)+bounds[rest] > int64(s.best.squares)
	}
}

// keep adds a state unless one that wastes no more is at least as good, and drops those for which
// it is that one.
func keep(list []*state, st *state, stages []stage) []*state {
	worse := 0
	for _, other := range list {
		c := compareStates(other, st, stages)
		if other.waste <= st.waste && c <= 0 {
			return list
		}
		if st.waste <= other.waste && c >= 0 {
			worse++
		}
	}
	if worse > 0 {
		list = slices.DeleteFunc(list, func(other *state) bool {
			return st.waste <= other.waste && compareStates(other, st, stages) >= 0
		})
	}
	return append(list, st)
}

// compareStates puts the better state first: the smaller squares, then the larger size in the first
// group by name that differs.
func compareStates(a, b *state, stages []stage) int {
	if a.squares != b.squares {
		return cmp.Compare(a.squares, b.squares)
	}
	first, result := -1, 0
	for i := len(stages) - 1; i >= 0 && a != b; i, a, b = i-1, a.before, b.before {
		if a.choice == b.choice {
			continue
		}
		for k, g := range stages[i].groups {
			if x, y := a.choice.sizes[k], b.choice.sizes[k]; x != y {
				if first < 0 || g.rank < first {
					first, result = g.rank, cmp.Compare(y, x)
				}
				break
			}
		}
	}
	return result
}

// stages are the zones with their choices, those with the fewest choices first.
func (s *splitSearch) stages(o *outline, low, high int64) []stage {
	stages := make([]stage, len(s.zones))
	for i := range s.zones {
		z, span := &s.zones[i], &o.spans[i]
		closed := !z.active && o.to > 0
		stages[i].zone, stages[i].groups = i, z.groups
		add := func(n int64) { stages[i].choices = append(stages[i].choices, s.choice(z, n, o.to, closed)) }
		if closed {
			add(0)
			if !slices.Contains(o.closed, i) {
				continue
			}
		}
		b := box{groups: z.groups, least: span.least, most: max(span.least, span.full)}
		for n := b.clamp(reached(b.groups, low)); n <= b.clamp(reached(b.groups, high)); n++ {
			add(n)
		}
		if most := s.greatest(o, span); most > b.most {
			add(most)
		}
	}
	slices.SortStableFunc(stages, func(a, b stage) int { return cmp.Compare(len(a.choices), len(b.choices)) })
	for i := len(stages) - 2; i >= 0; i-- {
		next, st := &stages[i+1], &stages[i]
		least, most, waste := next.choices[0].nodes, next.choices[0].nodes, next.choices[0].waste
		for _, c := range next.choices {
			least, most, waste = min(least, c.nodes), max(most, c.nodes), min(waste, c.waste)
		}
		st.leastNodes, st.mostNodes, st.leastWaste = next.leastNodes+least, next.mostNodes+most, next.leastWaste+waste
	}
	return stages
}

func (s *splitSearch) choice(z *zone, n, level int64, closed bool) *choice {
	c := &choice{nodes: n, opens: closed && n > 0, sizes: levelled(z.groups, n)}
	c.waste = s.perNode*n - s.yield(z, s.slots(z, n), level) + s.yield(z, s.slots(z, 0), level)
	for k, size := range c.sizes {
		c.squares += squares(z.groups[k].size, size)
	}
	return c
}

// levels are the lowest and the highest size that zones are levelled to in the best plan, whichever
// of them are opened and take the node that wastes slots; the others are within one of the size.
//
// Below its bound a zone that is not at its lower bound holds all nodes that are smaller than the
// level. So the level is not higher than where these already are too many, with the fewest taken by
// opened zones, nor lower than where they would be too few with the most.
func (s *splitSearch) levels(o *outline, opened int) (low, high int64) {
	var all []group
	fewest := make([]box, len(s.zones))
	most := make([]box, len(s.zones))
	for i := range s.zones {
		z, span := &s.zones[i], &o.spans[i]
		if !z.active && o.to > 0 && !slices.Contains(o.closed, i) {
			continue
		}
		all = append(all, z.groups...)
		fewest[i] = box{groups: z.groups, least: span.least, most: max(span.least, span.full)}
		most[i] = box{groups: z.groups, least: span.least, most: s.greatest(o, span)}
		if !z.active && o.to > 0 && opened < 0 {
			fewest[i].least = 0
		}
	}
	sum := func(boxes []box, size int64, least bool) int64 {
		total := int64(0)
		var ofClosed []int64
		for i := range boxes {
			n := boxes[i].clamp(reached(boxes[i].groups, size))
			if opened >= 0 && slices.Contains(o.closed, i) {
				ofClosed = append(ofClosed, n)
			} else {
				total += n
			}
		}
		if opened >= 0 {
			slices.Sort(ofClosed)
			if !least {
				slices.Reverse(ofClosed)
			}
			for _, n := range ofClosed[:opened] {
				total += n
			}
		}
		return total
	}
	high = highestSize(all, func(size int64) bool { return sum(fewest, size, true) <= o.nodes }) + 1
	low = highestSize(all, func(size int64) bool { return sum(most, size, false) < o.nodes })
	return low, high
}
