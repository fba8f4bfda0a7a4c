package predicates

import (
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Moving is what Moves starts from.
type Moving struct {
	Nodes []Node
	// Closed nodes take no pods; as many as Nodes.
	Closed []bool
	// Pods has one of each kind of pods that may be placed.
	Pods []*v1.Pod
	// Gone returns what pods see of a node that was removed. It is asked only where
	// that matters to a pod. Nil leaves such nodes as they were, but for taking pods.
	Gone func(node int) Node
}

// Move is a number of pods of a kind that find their place on a node.
type Move struct {
	Kind, Node int // positions in Moving
	Pods       int
}

// Moves is a what-if cluster from which nodes are removed, one after the other. It
// places pods as Cluster does, first fit in the order of the nodes, first on the
// nodes up to the first closed one, then on those up to the next, and so on. A
// removal that fails leaves no trace. It remembers for each kind of pods where to
// go on looking, so that a pod costs little beside what changes.
//
// It shares its Checker's lock.
type Moves struct {
	base    *Cluster // all but the states of the nodes
	closed  []bool
	removed []bool
	gone    func(int) Node
	states  []*state
	rows    []row
	unseen  []int  // removed nodes that look as they were
	going   int    // the node that is being removed; below zero: none
	booked  []seat // changes since the start
	even    bool   // some row counts by them
	trial   []undo // changes since the last removal began
}

// row is a kind of pods.
type row struct {
	k     *kind
	bulk  *bulk
	first int // nodes before it take none
	even  *evener
}

// seat is a change on a node: pods that came, or another state altogether.
type seat struct {
	node     int
	of       *resident // nil: another state
	n        int
	from, to *state
}

// undo takes back one change.
type undo struct {
	row   *row // nil: of a node
	first int
	node  int
	st    *state
}

// Moves makes a what-if cluster for pods that move. It returns ErrNilObject for a nil
// node or pod.
func (c *Checker) Moves(of Moving) (*Moves, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.cluster(of.Nodes)
	m := &Moves{
		base: s, closed: slices.Clone(of.Closed), removed: make([]bool, s.len), gone: of.Gone, going: -1, rows: make([]row, len(of.Pods)),
	}
	for i, pod := range of.Pods {
		k, err := s.kind(pod)
		if err != nil {
			return nil, err
		}
		m.rows[i].k = k
	}
	if s.err != nil {
		return nil, s.err
	}
	m.states = make([]*state, 0, s.len)
	for _, seg := range s.segments {
		for range seg.n {
			m.states = append(m.states, seg.st)
		}
	}
	return m, nil
}

// Place puts pods of these kinds, those of one kind next to each other, on open
// nodes, as far as they fit.
func (m *Moves) Place(kinds []int) ([]Move, error) {
	m.base.lock()
	defer m.base.unlock()
	m.trial = m.trial[:0]
	return m.place(kinds)
}

// Remove closes a node and puts its pods, given by their kinds, on other open nodes.
// It reports whether all of them find a place; otherwise nothing has changed.
func (m *Moves) Remove(node int, kinds []int) ([]Move, bool, error) {
	if node < 0 || node >= len(m.states) {
		return nil, false, fmt.Errorf("node %d of %d: %w", node, len(m.states), ErrRange)
	}
	m.base.lock()
	defer m.base.unlock()
	wasClosed, origin := m.closed[node], m.base.origins[node].node
	repellers, claims := m.base.repellers, m.base.trial
	m.trial, m.closed[node] = m.trial[:0], true
	if m.gone != nil && !m.removed[node] {
		m.going, m.unseen = node, append(m.unseen, node)
	}
	moves, err := m.place(kinds)
	m.going = -1
	if err != nil {
		return nil, false, err
	}
	pods := 0
	for _, move := range moves {
		pods += move.Pods
	}
	if pods == len(kinds) {
		m.removed[node] = true
		return moves, true, nil
	}
	m.takeBack()
	m.closed[node] = wasClosed
	m.base.origins[node].node, m.base.repellers, m.base.trial = origin, repellers, claims
	if last := len(m.unseen) - 1; last >= 0 && m.unseen[last] == node && !m.removed[node] {
		m.unseen = m.unseen[:last]
	}
	m.note(seat{node: node, from: m.states[node], to: m.states[node]}) // it is open again
	return nil, false, nil
}

// takeBack undoes what was tried.
func (m *Moves) takeBack() {
	for _, u := range slices.Backward(m.trial) {
		if u.row != nil {
			u.row.first = u.first
			continue
		}
		m.note(seat{node: u.node, from: m.states[u.node], to: u.st})
		m.states[u.node] = u.st
	}
}

func (m *Moves) place(kinds []int) ([]Move, error) {
	var moves []Move
	for begin := 0; begin < len(kinds); {
		end := begin
		for end < len(kinds) && kinds[end] == kinds[begin] {
			end++
		}
		if err := m.base.u.c.interrupted(); err != nil {
			return nil, err
		}
		runs, err := m.put(&m.rows[kinds[begin]], end-begin)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			for node := run.First; node < run.First+run.Nodes; node++ {
				moves = append(moves, Move{kinds[begin], node, run.PerNode})
			}
		}
		begin = end
	}
	return moves, m.base.u.c.interrupted()
}

// put places pods of one kind.
func (m *Moves) put(r *row, count int) ([]Placement, error) {
	s := m.base
	ruled := s.u.c.rules.resources && !s.needsExact(r.k)
	switch {
	case ruled && s.spreads(r.k, nil):
		if err := m.show(); err != nil {
			return nil, err
		}
		return m.spread(r, count), nil
	case ruled && !s.singly(r.k, nil) && !s.repelledWidely(r.k):
		return m.fill(r, count), nil
	}
	if err := m.show(); err != nil {
		return nil, err
	}
	return m.slowly(r, count), nil
}

// fill places pods to which nothing matters but the node itself.
func (m *Moves) fill(r *row, count int) []Placement {
	m.trial = append(m.trial, undo{row: r, first: r.first})
	var runs []Placement
	for node := r.first; ; node++ {
		r.first = node
		if node == len(m.states) {
			break
		}
		room := m.room(r, node)
		if room == 0 {
			continue
		}
		n := min(room, count)
		m.seat(r, node, n)
		runs = appendRun(runs, node, 1, n)
		if count -= n; count == 0 {
			break
		}
	}
	if len(runs) > 0 {
		m.base.noteRepeller(r.k.repels)
	}
	return runs
}

// room is how many more pods of a kind a node takes by itself.
func (m *Moves) room(r *row, node int) int {
	if m.closed[node] {
		return 0
	}
	st, rules := m.states[node], &m.base.u.c.rules
	room := st.room(&r.k.asks, rules.ignoreScalars)
	if room == 0 || r.k.plain && !r.k.repelledOn(st) {
		if room > 0 && m.base.turnedAway(r.k, st.shape) {
			return 0
		}
		return room
	}
	return m.bulkOf(r).capacity(st, math.MaxInt32)
}

func (m *Moves) bulkOf(r *row) *bulk {
	if r.bulk == nil {
		if r.k.rooms == nil || r.k.volumes || len(r.k.rooms) > 4*len(m.states)+maxGoneRooms {
			r.k.rooms = map[*state]int{}
		}
		r.bulk = &bulk{s: m.base, k: r.k, room: r.k.rooms, next: map[step]*state{}}
	}
	return r.bulk
}

// seat puts pods on a node.
func (m *Moves) seat(r *row, node, n int) {
	from := m.states[node]
	to := from.with(r.k.placed, n)
	m.trial = append(m.trial, undo{node: node, st: from})
	m.states[node] = to
	m.note(seat{node: node, of: r.k.placed, n: n, from: from, to: to})
}

func (m *Moves) note(change seat) {
	if m.even {
		m.booked = append(m.booked, change)
	}
}

// show lets removed nodes be seen as such. Those that were removed for good take no
// part in what is tried.
func (m *Moves) show() error {
	for _, node := range m.unseen {
		n := m.gone(node)
		st, err := m.base.u.state(n.Node, n.Pods)
		if err != nil {
			return fmt.Errorf("pods of node %q: %w", n.Node.Name, err)
		}
		if node == m.going {
			m.trial = append(m.trial, undo{node: node, st: m.states[node]})
		}
		m.note(seat{node: node, from: m.states[node], to: st})
		m.states[node], m.base.origins[node].node = st, n.Node
	}
	m.unseen = m.unseen[:0]
	return nil
}

// slowly places pods as a Cluster does.
func (m *Moves) slowly(r *row, count int) []Placement {
	s := *m.base
	s.segments, s.spreading, s.counted = nil, nil, nil
	for _, st := range m.states {
		s.segments = appendSegment(s.segments, 1, st)
	}
	s.refresh()
	var runs []Placement
	for lo := 0; lo < len(m.closed) && count > 0; lo++ {
		hi := lo
		for hi < len(m.closed) && !m.closed[hi] {
			hi++
		}
		if hi > lo {
			for _, run := range s.place(r.k, count, lo, hi) {
				count -= run.Nodes * run.PerNode
				runs = append(runs, run)
			}
		}
		lo = hi
	}
	for _, run := range runs {
		for node := run.First; node < run.First+run.Nodes; node++ {
			m.seat(r, node, run.PerNode)
		}
	}
	m.base.repellers, m.base.trial = s.repellers, s.trial
	return runs
}
