package topologyspread

import (
	"cmp"
	"slices"
)

// A plan whose zones all reach a level, and whose yields at that level cover the pods, is feasible;
// and every feasible plan is so at its own level. At a given level a zone yields its slots up to a
// bound, so nodes yield perNode pods each, then one of them the rest, then none. Nodes beyond the
// bound are wasted, and so are the slots of the node that yields the rest.
//
// The search halves the range of levels. For a range it takes the lower bounds of the lowest level
// and the yields of the highest, and levels the fewest nodes within these bounds, whatever is
// wasted: no plan of the range is better. If that plan is feasible, it is the best of the range.
// What remains open at a single level, which zones take the node that wastes slots and which zones
// are opened, is decided exactly, see splitexact.go. Where many zones may be opened, windows are ruled
// out by the price of nodes as well, see splitprice.go.

// window is a range of levels. The level 0 stands alone: it has no lower bounds, and holds for plans
// with too few domains as well.
type window struct{ from, to int64 }

// span is what a zone can do within a window: nodes up to full yield perNode pods each, and if rest
// is not 0, one more yields that many.
type span struct {
	least, full, rest int64
	base              int64 // what the zone yields with the least nodes
}

func (s *span) extra() int64 { return max(0, s.full-s.least) }

func (s *span) partial() bool { return s.rest > 0 && s.least <= s.full }

// outline is the window of all zones. Zones that may be opened, those with the most room first, can
// do the same but for their room.
type outline struct {
	window
	spans  []span // of all zones; a zone that cannot be opened is nil in usable
	closed []int  // zones that may be opened
	need   int    // how many of them must be opened at least
	nodes  int64  // the fewest nodes that cover the pods
	opened []int  // how many zones are opened for that, each number that does
	budget int64  // slots that may be wasted beyond the lower bounds
	prices *prices
}

// contiguous reports whether all numbers of nodes up to the greatest are possible in zones that may
// be opened.
func (o *outline) contiguous() bool {
	return len(o.closed) == 0 || o.spans[o.closed[0]].least <= 1 || len(o.opened) == 1 && o.opened[0] == 0 || o.opensAll()
}

// opensAll reports whether the fewest nodes need all zones that may be opened.
func (o *outline) opensAll() bool { return len(o.opened) == 1 && o.opened[0] == len(o.closed) }

// splitSearch looks for the best plan that places so many pods.
type splitSearch struct {
	*problem
	placed  int64
	best    *splitPlan
	settled map[string]bool // the choices of zones to open that are searched
}

// fewest is the best plan that places so many pods, which is possible.
func (p *problem) fewest(placed int64) *splitPlan {
	if placed == 0 {
		return p.planOf(make([]int64, len(p.zones)))
	}
	return p.fewestOf(p.openings(), placed)
}

// fewestOf is the best plan for some of the openings of a problem.
func (p *problem) fewestOf(openings []*problem, placed int64) *splitPlan {
	s := &splitSearch{problem: p, placed: placed, settled: map[string]bool{}}
	s.explore(s.bound(window{}))
	for _, s.problem = range openings {
		if top := s.highest(); top > 0 {
			s.explore(s.bound(window{1, top}))
		}
	}
	return s.best
}

// maxOpenings is how many zones there may be to open for each choice of them to be searched alone.
const maxOpenings = 6

// openings returns the problem once for each choice of the zones to open, all of them first: which
// zones get nodes is the one thing that a window of levels does not bound well. With many such zones
// it returns the problem as it is.
func (p *problem) openings() []*problem {
	var closed []int
	for i := range p.zones {
		if z := &p.zones[i]; !z.active && z.room > 0 {
			closed = append(closed, i)
		}
	}
	if len(closed) == 0 || len(closed) > maxOpenings {
		return []*problem{p}
	}
	all := make([]*problem, 0, 1<<len(closed))
	opens := make([]bool, len(p.zones))
	for choice := 1<<len(closed) - 1; choice >= 0; choice-- {
		for k, i := range closed {
			opens[i] = choice>>k&1 == 1
		}
		all = append(all, p.opening(func(zone int) bool { return opens[zone] }))
	}
	return all
}

// opening is the problem in which the zones that are not active are opened if they are chosen, and
// get no nodes otherwise.
func (p *problem) opening(chosen func(zone int) bool) *problem {
	one := *p
	one.zones = slices.Clone(p.zones)
	for i := range one.zones {
		switch z := &one.zones[i]; {
		case z.active:
		case chosen(i):
			z.active, z.opened = true, true
		default:
			z.room = 0
		}
	}
	return &one
}

// bounded is a window with a plan that is at least as good as every plan of it, feasible or not.
type bounded struct {
	outline *outline
	plan    *splitPlan
}

func (s *splitSearch) bound(w window) *bounded {
	o := s.outline(w)
	if !s.count(o) || s.best != nil && o.nodes > s.best.nodes {
		return nil
	}
	return &bounded{o, s.planOf(levelBoxes(s.boxes(o), o.nodes))}
}

func (s *splitSearch) explore(b *bounded) {
	if b == nil || !b.plan.better(s.best) {
		return
	}
	if pods, _ := s.placeable(b.plan.zones); pods >= s.placed {
		s.best = b.plan
		return
	}
	o := b.outline
	if !o.contiguous() {
		o.opened = slices.DeleteFunc(o.opened, func(opened int) bool { return !s.promising(o, opened) })
		if len(o.opened) == 0 {
			return
		}
	}
	if o.from == o.to {
		s.exact(o)
		return
	}
	middle := o.from + (o.to-o.from)/2
	low, high := s.bound(window{o.from, middle}), s.bound(window{middle + 1, o.to})
	if low != nil && high != nil && high.plan.better(low.plan) {
		low, high = high, low
	}
	s.explore(low)
	s.explore(high)
}

// promising reports whether a plan with so many opened zones may be better than the best.
func (s *splitSearch) promising(o *outline, opened int) bool {
	if s.best == nil || o.nodes < s.best.nodes {
		return true
	}
	prices := s.pricesOf(o)
	return prices == nil || prices.squares(opened) <= s.best.squares
}

func (p *problem) outline(w window) *outline {
	o := &outline{window: w, spans: make([]span, len(p.zones))}
	active, same := int64(0), w.to
	for i := range p.zones {
		z := &p.zones[i]
		o.spans[i] = p.span(z, w)
		switch {
		case z.active || w.to == 0:
			active++
		case z.room >= o.spans[i].least:
			o.closed = append(o.closed, i)
		default:
			continue
		}
		same = min(same, z.count+p.slots(z, o.spans[i].least))
	}
	// With the same lower bounds zones reach a higher level, which yields no less.
	o.from = max(o.from, same)
	slices.SortStableFunc(o.closed, func(i, j int) int { return cmp.Compare(p.zones[j].room, p.zones[i].room) })
	if w.to > 0 {
		o.need = int(max(0, min(p.minDomains, MaxCount)-active))
	}
	return o
}

func (p *problem) span(z *zone, w window) span {
	var s span
	if w.from > 0 {
		s.least = max(0, (w.from-z.count-z.free+p.perNode-1)/p.perNode)
		if !z.active || z.opened {
			s.least = max(1, s.least)
		}
	}
	bound := max(0, w.to+p.skew-z.count)
	if more := bound - z.free; more > 0 {
		s.full, s.rest = more/p.perNode, more%p.perNode
	}
	if s.full >= z.room {
		s.full, s.rest = z.room, 0
	}
	s.base = min(bound, p.slots(z, s.least))
	return s
}

// count works out the fewest nodes of a window and in how many opened zones they can be. It reports
// whether the pods can be covered at all. Of zones that can be opened those with the most room serve
// best.
func (s *splitSearch) count(o *outline) bool {
	base, least, full := int64(0), int64(0), int64(0)
	var rests []int64 // of active zones, the largest first
	for i := range s.zones {
		z, span := &s.zones[i], &o.spans[i]
		if !z.active && o.to > 0 {
			continue
		}
		if z.room < span.least {
			return false
		}
		base, least, full = base+span.base, least+span.least, full+span.extra()
		if span.partial() {
			rests = append(rests, span.rest)
		}
	}
	slices.SortFunc(rests, func(a, b int64) int { return cmp.Compare(b, a) })
	partials := int64(0) // of opened zones
	for opened := 0; opened <= len(o.closed); opened++ {
		if opened > 0 {
			span := &o.spans[o.closed[opened-1]]
			base, least, full = base+span.base, least+span.least, full+span.extra()
			if span.partial() {
				partials++
			}
		}
		if opened < o.need {
			continue
		}
		rest := int64(0)
		if partials > 0 {
			rest = o.spans[o.closed[0]].rest
		}
		extra, enough := s.extra(s.placed-base, full, rests, partials, rest)
		if !enough {
			continue
		}
		nodes := least + extra
		if o.opened == nil || nodes < o.nodes {
			o.nodes, o.opened, o.budget = nodes, nil, 0
		}
		if nodes == o.nodes {
			o.opened = append(o.opened, opened)
			o.budget = max(o.budget, base+s.perNode*extra-s.placed)
		}
	}
	return o.opened != nil
}

// extra is the fewest nodes that yield so many pods: full ones first, then those that yield the
// largest rests, some of which are alike.
func (s *splitSearch) extra(pods, full int64, rests []int64, alike, rest int64) (nodes int64, enough bool) {
	if pods <= 0 {
		return 0, true
	}
	if nodes = (pods + s.perNode - 1) / s.perNode; nodes <= full {
		return nodes, true
	}
	pods, nodes = pods-s.perNode*full, full
	take := func(n, each int64) {
		n = min(n, (max(0, pods)+each-1)/each)
		nodes, pods = nodes+n, pods-n*each
	}
	for _, r := range rests {
		if alike > 0 && rest >= r {
			take(alike, rest)
			alike = 0
		}
		take(1, r)
	}
	if alike > 0 {
		take(alike, rest)
	}
	return nodes, pods <= 0
}

// most is the greatest number of nodes that may be of use: the one that wastes slots included, if
// the budget allows for it.
func (s *splitSearch) greatest(o *outline, span *span) int64 {
	n := max(span.least, span.full)
	if span.partial() && s.perNode-span.rest <= o.budget {
		n++
	}
	return n
}

// boxes are the bounds of the zones, as if all numbers of nodes were possible in zones that may be
// opened.
func (s *splitSearch) boxes(o *outline) []box {
	boxes := make([]box, len(s.zones))
	for i := range s.zones {
		boxes[i] = box{groups: s.zones[i].groups}
		if s.zones[i].active || o.to == 0 {
			boxes[i].least, boxes[i].most = o.spans[i].least, s.greatest(o, &o.spans[i])
		}
	}
	if o.opened[len(o.opened)-1] > 0 {
		for _, i := range o.closed {
			boxes[i].most = s.greatest(o, &o.spans[i])
			if o.opensAll() {
				boxes[i].least = o.spans[i].least
			}
		}
	}
	return boxes
}
