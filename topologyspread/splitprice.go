package topologyspread

import (
	"cmp"
	"slices"
	"sort"
)

// mostSquares is the most that is reckoned with: sums of it still fit into 64 bits.
const mostSquares = 1 << 60

// prices bound how good the plans of an outline can be that open so many zones. Every node is bought
// at a price, that of one at a size, and each zone takes as many as serve it best at that price: so
// the zones can be judged one by one. No plan is better at any price (a Lagrangian relaxation), and
// at the price at which the zones take about as many nodes as there are, few plans are much worse.
type prices struct {
	nodes          int64
	active, closed []offer
	low, high      int64 // the sizes to look at
	known          map[int64]sales
}

// offer is a zone with the growth of its squares at its bounds, -1 if not worked out yet.
type offer struct {
	box
	zone            int
	atLeast, atMost int64
}

// sales are the nodes taken at a price, and what they cost beyond it, by how many zones are opened:
// the first of these.
type sales struct {
	nodes, over []int64
	zones       []int
}

// pricesOf returns nil if the sums might not fit into 64 bits.
func (s *splitSearch) pricesOf(o *outline) *prices {
	if o.prices == nil {
		o.prices = s.prices(o)
	}
	return o.prices
}

func (s *splitSearch) prices(o *outline) *prices {
	p := &prices{nodes: o.nodes, low: MaxCount, known: map[int64]sales{}}
	for _, g := range s.groups {
		p.low, p.high = min(p.low, g.size), max(p.high, min(g.top, g.size+o.nodes))
	}
	if 2*p.high+1 > mostSquares/int64(len(s.groups))/(o.nodes+1) {
		return nil
	}
	offer := func(i int) offer {
		span := &o.spans[i]
		return offer{box{groups: s.zones[i].groups, least: span.least, most: s.greatest(o, span)}, i, -1, -1}
	}
	for i := range s.zones {
		if s.zones[i].active || o.to == 0 {
			p.active = append(p.active, offer(i))
		}
	}
	for _, i := range o.closed {
		p.closed = append(p.closed, offer(i))
	}
	return p
}

// size is the highest one at whose price the zones take no more nodes than there are.
func (p *prices) size(opened int) int64 {
	return p.low + int64(sort.Search(int(p.high-p.low), func(i int) bool {
		return p.at(p.low + 1 + int64(i)).nodes[opened] > p.nodes
	}))
}

// cheapest are the zones, ascending, that serve best among so many opened ones.
func (p *prices) cheapest(opened int) []int {
	zones := slices.Clone(p.at(p.size(opened)).zones[:opened])
	slices.Sort(zones)
	return zones
}

// squares is at most the least growth of the squares with so many opened zones.
func (p *prices) squares(opened int) uint64 {
	size := p.size(opened)
	return uint64(max(0, price(size)*p.nodes+p.at(size).over[opened]))
}

// price is by how much a node more raises the square of a size.
func price(size int64) int64 { return 2*size + 1 }

func (p *prices) at(size int64) sales {
	if known, ok := p.known[size]; ok {
		return known
	}
	var nodes, over int64
	for i := range p.active {
		n, more := p.active[i].at(size)
		nodes, over = nodes+n, over+more
	}
	type sale struct {
		nodes, over int64
		zone        int
	}
	opened := make([]sale, len(p.closed))
	for i := range p.closed {
		opened[i].nodes, opened[i].over = p.closed[i].at(size)
		opened[i].zone = p.closed[i].zone
	}
	slices.SortFunc(opened, func(a, b sale) int { return cmp.Or(cmp.Compare(a.over, b.over), cmp.Compare(a.zone, b.zone)) })
	out := sales{nodes: []int64{nodes}, over: []int64{over}}
	for _, sale := range opened {
		nodes, over = nodes+sale.nodes, over+sale.over
		out.nodes, out.over, out.zones = append(out.nodes, nodes), append(out.over, over), append(out.zones, sale.zone)
	}
	p.known[size] = out
	return out
}

// at is how many nodes serve the zone best at the price of a size, and what they cost beyond it.
func (z *offer) at(size int64) (nodes, over int64) {
	nodes = reached(z.groups, size)
	grown := int64(0)
	switch {
	case nodes < z.least:
		nodes, grown = z.least, z.grown(z.least, &z.atLeast)
	case nodes > z.most:
		nodes, grown = z.most, z.grown(z.most, &z.atMost)
	default:
		for _, g := range z.groups {
			grown += int64(squares(g.size, max(g.size, min(size, g.top))))
		}
	}
	return nodes, grown - price(size)*nodes
}

func (z *offer) grown(nodes int64, known *int64) int64 {
	if *known < 0 {
		*known = 0
		for k, size := range levelled(z.groups, nodes) {
			*known += int64(squares(z.groups[k].size, size))
		}
	}
	return *known
}
