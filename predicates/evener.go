package predicates

import (
	"math"
	"sort"
)

// evener places pods of a kind that have spread constraints on the nodes of Moves.
// It is a spreader that follows what others change.
type evener struct {
	*spreader
	m     *Moves
	r     *row
	seen  int // changes that are counted
	lanes map[*track]*lane
	of    []*lane // of the nodes; nil if one lacks a key
	at    []int   // of the nodes, their positions in the lanes
	held  []int   // by node, pods that the constraint over hostnames counts
}

// lane is the nodes that lie in the same domains.
type lane struct {
	site  *site
	nodes []int
	first int // those before it take no pods
}

func (m *Moves) evenerOf(r *row) *evener {
	if r.even != nil {
		r.even.catchUp()
		return r.even
	}
	m.even = true
	e := &evener{
		spreader: m.base.newSpreader(r.k, m.bulkOf(r), nil), m: m, r: r, seen: len(m.booked),
		lanes: map[*track]*lane{}, of: make([]*lane, len(m.states)), at: make([]int, len(m.states)), held: make([]int, len(m.states)),
	}
	for node, st := range m.states {
		e.count(st, 1)
		at := e.site(st.shape)
		if !at.Keyed {
			continue
		}
		e.held[node] = e.onHost(st)
		l := e.lanes[at.track]
		if l == nil {
			l = &lane{site: at}
			e.lanes[at.track] = l
		}
		e.of[node], e.at[node] = l, len(l.nodes)
		l.nodes = append(l.nodes, node)
	}
	r.even = e
	return e
}

// catchUp takes over what has changed.
func (e *evener) catchUp() {
	for _, c := range e.m.booked[e.seen:] {
		if c.of != nil {
			e.came(c)
			continue
		}
		if c.from != c.to {
			e.uncount(c.from)
			e.count(c.to, 1)
			e.held[c.node] = e.onHost(c.to)
		}
		if l := e.of[c.node]; l != nil {
			l.first = min(l.first, e.at[c.node])
		}
	}
	e.seen = len(e.m.booked)
}

// came counts pods that came to a node.
func (e *evener) came(c seat) {
	at := e.site(c.to.shape)
	for i, t := range e.counts.Counters {
		if !at.Included[i] || !e.countsOf(c.of)[i] {
			continue
		}
		t.More(at.Domains[i], e.held[c.node], c.n)
		if t.PerNode {
			e.held[c.node] += c.n
		}
	}
}

// onHost is how many pods on a node the constraint over hostnames counts.
func (e *evener) onHost(st *state) int {
	if i := e.hostAt(e.site(st.shape)); i >= 0 {
		return e.spreader.held(st, i)
	}
	return 0
}

// uncount takes a node out of the counts.
func (e *evener) uncount(st *state) {
	at := e.site(st.shape)
	for i, t := range e.counts.Counters {
		if at.Included[i] {
			t.Remove(at.Domains[i], e.spreader.held(st, i))
		}
	}
}

// spread places pods where the constraints let them.
func (m *Moves) spread(r *row, count int) []Placement {
	e := m.evenerOf(r)
	placed := tally{}
	for lo, more := 0, true; more && count > 0; {
		hi := 0 // the closed node behind those that are looked at; 0: not known yet
		for count > 0 {
			node := e.find(lo)
			if more = node >= 0; !more {
				break
			}
			if hi == 0 {
				lo, hi = m.between(node)
			}
			if node >= hi {
				break
			}
			m.seat(r, node, 1)
			e.catchUp()
			placed[node]++
			count--
		}
		lo = hi
	}
	if len(placed) > 0 {
		m.base.noteRepeller(r.k.repels)
	}
	return placed.placements()
}

// between are the open nodes lo..hi, hi exclusive, among which a node is.
func (m *Moves) between(node int) (lo, hi int) {
	for lo = node; lo > 0 && !m.closed[lo-1]; {
		lo--
	}
	for hi = node; hi < len(m.closed) && !m.closed[hi]; {
		hi++
	}
	return lo, hi
}

// find returns the first node from lo on that takes one more pod, or -1.
func (e *evener) find(lo int) int {
	best := math.MaxInt
	for _, l := range e.lanes {
		if !e.counts.Open(&l.site.Site) {
			continue
		}
		at := l.first
		if at < len(l.nodes) && l.nodes[at] < lo {
			at = sort.SearchInts(l.nodes, lo)
		}
		for ; at < len(l.nodes) && l.nodes[at] < best; at++ {
			node := l.nodes[at]
			if e.overHost != nil && !e.overHost.Allows(e.held[node]) {
				continue // as long as so many other nodes have fewer
			}
			if e.m.room(e.r, node) > 0 {
				best = node
			} else if at == l.first {
				l.first++
			}
		}
	}
	if best == math.MaxInt {
		return -1
	}
	return best
}
