package predicates

import (
	"fmt"
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
// removal that fails leaves no trace.
//
// It shares its Checker's lock.
type Moves struct {
	s       *Cluster
	removed []bool
	gone    func(int) Node
	kinds   []*kind
	first   []int // by kind, if only the nodes themselves matter to it: those before take none
	unseen  []int // removed nodes that look as they were
	going   int   // the node that is being removed; below zero: none
	before  []*state
}

// Moves makes a what-if cluster for pods that move. It returns ErrNilObject for a nil
// node or pod.
func (c *Checker) Moves(of Moving) (*Moves, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.cluster(of.Nodes)
	s.closed = slices.Clone(of.Closed)
	m := &Moves{s: s, removed: make([]bool, len(s.nodes)), gone: of.Gone, first: make([]int, len(of.Pods)), going: -1}
	for _, pod := range of.Pods {
		k, err := s.kind(pod)
		if err != nil {
			return nil, err
		}
		m.kinds = append(m.kinds, k)
	}
	return m, s.err
}

// Place puts pods of these kinds, those of one kind next to each other, on open
// nodes, as far as they fit.
func (m *Moves) Place(kinds []int) ([]Move, error) {
	m.s.lock()
	defer m.s.unlock()
	return m.place(kinds)
}

// Remove closes a node and puts its pods, given by their kinds, on other open nodes.
// It reports whether all of them find a place; otherwise nothing has changed.
func (m *Moves) Remove(node int, kinds []int) ([]Move, bool, error) {
	s := m.s
	if node < 0 || node >= len(m.removed) {
		return nil, false, fmt.Errorf("node %d of %d: %w", node, len(m.removed), ErrRange)
	}
	s.lock()
	defer s.unlock()
	s.trim(maxTabled)
	wasClosed, version, trial, first := s.isClosed(node), s.version, s.trial, slices.Clone(m.first)
	m.before = slices.Clone(s.nodes)
	s.shut(node, true)
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
	s.restore(m.before, version)
	s.shut(node, wasClosed)
	s.trial, m.first = trial, first
	m.unseen = slices.DeleteFunc(m.unseen, func(unseen int) bool { return unseen == node && !m.removed[node] })
	return nil, false, nil
}

func (m *Moves) place(kinds []int) ([]Move, error) {
	var moves []Move
	for begin := 0; begin < len(kinds); {
		end := begin
		for end < len(kinds) && kinds[end] == kinds[begin] {
			end++
		}
		if err := m.s.u.c.interrupted(); err != nil {
			return nil, err
		}
		runs, err := m.put(kinds[begin], end-begin)
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
	return moves, m.s.u.c.interrupted()
}

// put places pods of one kind.
func (m *Moves) put(kind, count int) (runs []Placement, err error) {
	s, k := m.s, m.kinds[kind]
	if !k.contested {
		if t := s.table(k, 0, 0); t.local {
			runs, m.first[kind] = s.fill(t, count, m.first[kind], len(s.nodes), &growth{})
			return runs, nil
		}
	}
	if err := m.show(); err != nil {
		return nil, err
	}
	find := s.finder(k)
	for lo := 0; count > 0; {
		at := find(lo, len(s.nodes))
		if at < 0 {
			break
		}
		hi := at // the nodes lo..hi are those up to the closed ones around
		for lo = at; lo > 0 && !s.isClosed(lo-1); {
			lo--
		}
		for hi < len(s.nodes) && !s.isClosed(hi) {
			hi++
		}
		for _, run := range s.place(k, count, lo, hi, &growth{}) {
			count -= run.Nodes * run.PerNode
			runs = append(runs, run)
		}
		lo = hi
	}
	return runs, nil
}

// show lets removed nodes be seen as such. Those that were removed for good take no
// part in what is tried.
func (m *Moves) show() error {
	for _, node := range m.unseen {
		n := m.gone(node)
		st, err := m.s.u.state(n, false)
		if err != nil {
			return fmt.Errorf("pods of node %q: %w", n.Node.Name, err)
		}
		m.s.set(node, st)
		if node != m.going && m.before != nil {
			m.before[node] = st
		}
	}
	m.unseen = m.unseen[:0]
	m.s.refresh()
	return nil
}
