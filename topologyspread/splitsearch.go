package topologyspread

import (
	"cmp"
	"slices"
)

// A plan whose zones all reach a level, and whose yields at that level cover the pods, is feasible;
// and every feasible plan is so at its own level. At a given level a zone yields its slots up to a
// bound, so nodes yield perNode pods each, then one of them the rest, then none. The slots beyond the
// rest are wasted: with 3 pods per node a zone that may take 7 pods yields 3, 3 and 1, and wastes 2.
//
// The search is a branch and bound over parts: ranges of levels with bounds for the new nodes of each
// zone. For a part it takes the lower bounds of the lowest level and the yields of the highest, and
// levels the fewest nodes that cover the pods within these bounds, whatever is wasted: no plan of the
// part is better. If that plan is feasible, it is the best of the part. Else the part is divided by
// what the plan does wrong, see [splitSearch.divide].

// part is some of the plans: those of the levels from one to another in which each zone gets so many
// nodes. The level 0 stands alone: it has no lower bounds, and holds for plans with too few domains
// as well. At other levels a zone that is not active is open if it gets one node at least, closed if
// it gets none, and undecided otherwise.
type part struct {
	from, to int64
	nodes    []bounds // of each zone
}

type bounds struct{ least, most int64 }

// span is what a zone can do within a part: nodes up to full yield perNode pods each, and if rest is
// not 0, one more yields that many. What is said of an undecided zone holds once it is open.
type span struct {
	least, full, rest int64
	base              int64 // what the zone yields with the least nodes
	undecided         bool
}

// partial reports whether there is a node that yields the rest.
func (s *span) partial() bool { return s.rest > 0 && s.least <= s.full }

// bounded is a part with a plan that is at least as good as every plan of it, feasible or not.
type bounded struct {
	part
	spans []span // of each zone
	plan  *splitPlan
}

// splitSearch looks for the best plan that places so many pods.
type splitSearch struct {
	*problem
	placed int64
	best   *splitPlan
}

// fewest is the best plan that places so many pods, which is possible.
func (p *problem) fewest(placed int64) *splitPlan {
	if placed == 0 {
		return p.planOf(make([]int64, len(p.zones)))
	}
	all := make([]bounds, len(p.zones))
	for i := range p.zones {
		all[i].most = p.zones[i].room
	}
	s := &splitSearch{problem: p, placed: placed}
	s.search(all)
	return s.best
}

// search looks at the plans of all levels.
func (s *splitSearch) search(nodes []bounds) {
	s.explore(s.bound(part{nodes: nodes}))
	if top := s.highest(); top > 0 {
		s.explore(s.bound(part{1, top, nodes}))
	}
}

func (s *splitSearch) explore(b *bounded) {
	if b == nil || !b.plan.better(s.best) {
		return
	}
	if pods, _ := s.placeable(b.plan.zones); pods >= s.placed {
		s.best = b.plan
		return
	}
	first, second := s.divide(b)
	one, other := s.bound(first), s.bound(second)
	if one != nil && other != nil && other.plan.better(one.plan) {
		one, other = other, one
	}
	s.explore(one)
	s.explore(other)
}

// bound returns nil for a part without a plan that is better than the best one.
func (s *splitSearch) bound(p part) *bounded {
	b := &bounded{part: p, spans: make([]span, len(s.zones))}
	same := p.to
	var undecided []int
	for i := range s.zones {
		z, of := &s.zones[i], &b.spans[i]
		if *of = s.span(z, &p, p.nodes[i]); of.least > p.nodes[i].most {
			return nil
		}
		if of.undecided {
			undecided = append(undecided, i)
		}
		if z.active || of.least > 0 {
			same = min(same, z.count+s.slots(z, of.least))
		}
	}
	// With the same lower bounds zones reach a higher level, which yields no less.
	b.from = max(b.from, same)
	slices.SortStableFunc(undecided, func(i, j int) int { return cmp.Compare(p.nodes[j].most, p.nodes[i].most) })
	choices := s.choices(b, undecided)
	if len(choices) == 0 {
		return nil
	}
	b.plan = s.planOf(levelBoxes(s.boxes(b, undecided, choices), choices[0].nodes))
	return b
}

// span may have more least nodes than the part allows for, which then has no plan.
func (s *splitSearch) span(z *zone, p *part, nodes bounds) (of span) {
	of.least = nodes.least
	if p.to > 0 {
		reach := max(0, (p.from-z.count-z.free+s.perNode-1)/s.perNode)
		if !z.active {
			reach = max(1, reach)
		}
		if of.undecided = !z.active && nodes.least == 0 && nodes.most >= reach; z.active || nodes.least > 0 || of.undecided {
			of.least = max(of.least, reach)
		} else {
			nodes.most = 0 // it cannot be opened
		}
	}
	yields := max(0, p.to+s.skew-z.count)
	if more := yields - z.free; more > 0 {
		of.full, of.rest = more/s.perNode, more%s.perNode
	}
	if of.full >= nodes.most {
		of.full, of.rest = nodes.most, 0
	}
	of.base = min(yields, s.slots(z, of.least))
	return of
}

// choice is a number of undecided zones to open, with the fewest nodes that cover the pods then and how
// many slots of these may be wasted.
type choice struct {
	opened        int
	nodes, wasted int64
}

// choices are those with the fewest nodes, in ascending order, if these are no more than the best plan
// has. Of the undecided zones those with the most room, which come first, serve best.
func (s *splitSearch) choices(b *bounded, undecided []int) (choices []choice) {
	missing, least, full, domains := s.placed, int64(0), int64(0), int64(0)
	var rests []int64 // the largest first
	add := func(of *span) {
		missing, least, full = missing-of.base, least+of.least, full+max(0, of.full-of.least)
		if of.partial() {
			at, _ := slices.BinarySearchFunc(rests, of.rest, func(a, b int64) int { return cmp.Compare(b, a) })
			rests = slices.Insert(rests, at, of.rest)
		}
	}
	for i := range b.spans {
		if of := &b.spans[i]; !of.undecided {
			add(of)
			if s.zones[i].active || of.least > 0 {
				domains++
			}
		}
	}
	for opened := 0; opened <= len(undecided); opened++ {
		if opened > 0 {
			add(&b.spans[undecided[opened-1]])
		}
		extra, enough := s.extra(missing, full, rests)
		c := choice{opened, least + extra, s.perNode*extra - missing}
		switch {
		case !enough || b.to > 0 && domains+int64(opened) < s.minDomains:
		case len(choices) > 0 && c.nodes > choices[0].nodes || s.best != nil && c.nodes > s.best.nodes:
		case len(choices) > 0 && c.nodes < choices[0].nodes:
			choices = append(choices[:0], c)
		default:
			choices = append(choices, c)
		}
	}
	return choices
}

// extra is the fewest nodes that yield so many pods: full ones first, then those that yield the
// largest rests.
func (s *splitSearch) extra(pods, full int64, rests []int64) (nodes int64, enough bool) {
	nodes = min(full, max(0, pods+s.perNode-1)/s.perNode)
	pods -= s.perNode * nodes
	for _, rest := range rests {
		if pods > 0 {
			pods, nodes = pods-rest, nodes+1
		}
	}
	return nodes, pods <= 0
}

// boxes are the bounds of the zones, as if all numbers of nodes were possible in undecided ones. A node
// that yields a rest is within them if it alone does not waste too much.
func (s *splitSearch) boxes(b *bounded, undecided []int, choices []choice) []box {
	wasted := int64(0)
	for _, c := range choices {
		wasted = max(wasted, c.wasted)
	}
	boxes := make([]box, len(b.spans))
	for i := range b.spans {
		of := &b.spans[i]
		boxes[i] = box{groups: s.zones[i].groups, least: of.least, most: max(of.least, of.full)}
		if of.partial() && s.perNode-of.rest <= wasted {
			boxes[i].most++
		}
		if of.undecided && choices[0].opened < len(undecided) {
			boxes[i].least = 0
		}
		if of.undecided && choices[len(choices)-1].opened == 0 {
			boxes[i].most = 0
		}
	}
	return boxes
}

// divide divides a part by what is wrong with its plan, so that neither half has that plan:
//   - an undecided zone gets some nodes, but too few to reach the lowest level. Whether it is opened is
//     decided, unless the range of levels is wider than the skew: then the level matters more;
//   - too few domains are active. Whether the best of the undecided zones is opened is decided;
//   - the levels differ, so the range is halved;
//   - what is left is that too many slots are wasted. Whether the zone that wastes most may do so is
//     decided.
func (s *splitSearch) divide(b *bounded) (one, other part) {
	open, short, next, wasteful := s.faults(b)
	switch {
	case short >= 0 && b.to-b.from < s.skew:
		return s.opening(b, short)
	case b.to > 0 && b.from == b.to && open < s.minDomains:
		return s.opening(b, next)
	case b.from < b.to:
		one, other = b.part, b.part
		one.to = b.from + (b.to-b.from)/2
		other.from = one.to + 1
		return one, other
	default:
		n, within := b.plan.zones[wasteful], b.nodes[wasteful]
		return b.with(wasteful, bounds{within.least, n - 1}), b.with(wasteful, bounds{n, within.most})
	}
}

// faults are how many domains the plan of a part opens, the undecided zone that gets most of those with
// too few nodes, the one to open next of those with none, and the zone that wastes most; -1 if there
// is none.
func (s *splitSearch) faults(b *bounded) (open int64, short, next, wasteful int) {
	short, next, wasteful = -1, -1, -1
	for i := range b.spans {
		of, n := &b.spans[i], b.plan.zones[i]
		if s.zones[i].active || n > 0 {
			open++
		}
		switch {
		case of.undecided && n == 0:
			if next < 0 || s.dominates(i, next, b) {
				next = i
			}
		case of.undecided && n < of.least:
			if short < 0 || n > b.plan.zones[short] {
				short = i
			}
		case n > max(of.least, of.full) && (wasteful < 0 || of.rest < b.spans[wasteful].rest):
			wasteful = i
		}
	}
	return open, short, next, wasteful
}

// with is the part in which a zone has other bounds.
func (p part) with(zone int, nodes bounds) part {
	p.nodes = slices.Clone(p.nodes)
	p.nodes[zone] = nodes
	return p
}

// opening divides a part by whether an undecided zone is opened. Zones that dominate it are opened as
// well then, and those that it dominates stay closed with it.
func (s *splitSearch) opening(b *bounded, zone int) (opened, closed part) {
	opened, closed = b.with(zone, bounds{1, b.nodes[zone].most}), b.with(zone, bounds{})
	for i := range b.spans {
		switch {
		case !b.spans[i].undecided || i == zone:
		case s.dominates(i, zone, b):
			opened.nodes[i].least = 1
		case s.dominates(zone, i, b):
			closed.nodes[i] = bounds{}
		}
	}
	return opened, closed
}

// dominates reports whether one of two undecided zones is opened before the other in any case: with
// as many nodes it is more even, or as even and its groups come first. That is so if each group of
// the other has a counterpart that is no larger and has room for as many nodes as are of use. An
// empty group that may have 9 nodes dominates one of 5 that may have 10, where no zone needs more
// than 5 nodes.
func (s *splitSearch) dominates(one, other int, b *bounded) bool {
	groups, others := s.zones[one].bySize, s.zones[other].bySize
	if len(groups) < len(others) {
		return false
	}
	useful, first := (b.to+s.skew+s.perNode-1)/s.perNode, true
	for i, g := range others {
		if groups[i].size > g.size || groups[i].top < min(g.top, g.size+useful) {
			return false
		}
		first = first && (groups[i].size < g.size || groups[i].rank < g.rank)
	}
	least := b.spans[other].least
	return first || grown(s.zones[one].groups, least) < grown(s.zones[other].groups, least)
}

// grown is by how much n more nodes raise the squares of groups.
func grown(groups []group, n int64) (sum uint64) {
	for k, size := range levelled(groups, n) {
		sum += squares(groups[k].size, size)
	}
	return sum
}
