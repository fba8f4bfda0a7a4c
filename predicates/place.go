package predicates

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Place puts up to count pods equal to pod on the nodes lo..hi (hi exclusive),
// first fit in id order. The placements are in id order and sum up to the number
// of pods placed. A pod that a plugin cannot judge does not fit.
//
// It returns ErrRange for nodes that do not exist and ErrNilObject for a nil
// pod.
func (s *Cluster) Place(pod *v1.Pod, count, lo, hi int) ([]Placement, error) {
	s.lock()
	defer s.unlock()
	if lo < 0 || hi > len(s.nodes) || lo > hi {
		return nil, fmt.Errorf("nodes %d..%d of %d: %w", lo, hi, len(s.nodes), ErrRange)
	}
	k, err := s.kind(pod)
	if err != nil {
		return nil, err
	}
	return s.place(k, count, lo, hi, &growth{}), s.u.c.interrupted()
}

// PlaceOnNew opens up to maxNodes fresh copies of template as needed, each with
// a name and a hostname label of its own, and places up to count pods on them,
// first fit in the order of opening. A node on which not even one pod fits is
// not opened.
//
// It returns ErrNilObject for a nil pod or node.
func (s *Cluster) PlaceOnNew(template Node, pod *v1.Pod, count, maxNodes int) ([]Placement, error) {
	s.lock()
	defer s.unlock()
	return s.pack(template, pod, count, len(s.nodes), maxNodes)
}

// Pack puts up to count pods on the nodes from the first given on and, where these
// take no more, on fresh copies of template after them, as Place and PlaceOnNew do:
// each pod goes to the first node that takes it then.
//
// It returns ErrRange for a node that does not exist, but the one after the last,
// and ErrNilObject for a nil pod or node.
func (s *Cluster) Pack(template Node, pod *v1.Pod, count, first, maxNodes int) ([]Placement, error) {
	s.lock()
	defer s.unlock()
	if first < 0 || first > len(s.nodes) {
		return nil, fmt.Errorf("node %d of %d: %w", first, len(s.nodes), ErrRange)
	}
	return s.pack(template, pod, count, first, maxNodes)
}

func (s *Cluster) pack(template Node, pod *v1.Pod, count, first, maxNodes int) ([]Placement, error) {
	k, err := s.kind(pod)
	if err != nil {
		return nil, err
	}
	fresh, err := s.template(template)
	if err != nil {
		return nil, err
	}
	return s.place(k, count, first, len(s.nodes), &growth{fresh, maxNodes}), s.u.c.interrupted()
}

// growth is the room for new nodes of a template.
type growth struct {
	fresh *state
	left  int // nodes that may still be opened
}

// kind looks up a pod to place and brings the shapes up to what it looks at.
func (s *Cluster) kind(pod *v1.Pod) (*kind, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := s.u.c.interrupted(); err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, fmt.Errorf("pod to place: %w", ErrNilObject)
	}
	k, err := s.u.kind(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.refresh()
	s.trim(maxTabled)
	return k, nil
}

// place puts pods on the nodes lo..hi and, where these are full, on new ones after them.
func (s *Cluster) place(k *kind, count, lo, hi int, g *growth) []Placement {
	if !k.contested {
		if t := s.table(k, lo, hi); t.local {
			runs, _ := s.fill(t, count, lo, hi, g)
			return runs
		}
	}
	find, placed := s.finder(k), map[int]int{}
	for range count {
		if s.u.c.interrupted() != nil {
			break
		}
		id := find(lo, hi)
		if id < 0 && g.left > 0 {
			s.push(g.fresh)
			if id = find(hi, hi+1); id < 0 {
				s.pop()
			} else {
				g.left--
				hi++
			}
		}
		if id < 0 {
			break
		}
		s.put(id, k.placed, 1)
		if k.binds {
			s.claimOnPut(k, s.object(id, s.nodes[id]))
		}
		placed[id]++
	}
	var runs []Placement
	for _, at := range slices.Sorted(maps.Keys(placed)) {
		runs = appendRun(runs, at, placed[at])
	}
	return runs
}

// fill puts pods to which nothing matters but the node itself on the nodes lo..hi and on new ones after
// them. It returns the first node that may take more, too.
func (s *Cluster) fill(t *table, count, lo, hi int, g *growth) (runs []Placement, last int) {
	var before, after *state // the last node, as it was and with the pods put there
	room, put := 0, 0
	s.addTerms(t.k.placed.terms)
	for last = lo; count > 0; last++ {
		st, isNew := g.fresh, last == hi
		switch {
		case !isNew:
			st = s.nodes[last]
		case g.left <= 0:
			return runs, last
		}
		if st != before || t.picky || len(s.closed) > 0 {
			before, after, room = st, nil, t.capacity(last, st)
		}
		n := min(room, count)
		switch {
		case n == 0 && isNew:
			return runs, last
		case n == 0:
			continue
		}
		if after == nil || n != put {
			after, put = st.with(t.k.placed, n), n
		}
		if isNew {
			s.push(after)
			g.left--
			hi++
		} else {
			s.log(change{last, n, t.k.placed, st, after})
		}
		runs = appendRun(runs, last, n)
		if count -= n; count == 0 {
			break
		}
	}
	return runs, last
}

// finder returns the function that finds the first of some nodes that takes one more pod, or -1.
func (s *Cluster) finder(k *kind) func(lo, hi int) int {
	if !k.contested {
		return func(lo, hi int) int { return s.table(k, lo, hi).first(lo, hi) }
	}
	// Every plugin is asked, with every node in view under its own name. A node that a plugin rejects
	// for itself is not asked again: pods are only ever added.
	var infos []fwk.NodeInfo
	var of []*state
	gone := map[int]bool{}
	return func(lo, hi int) int {
		if lo >= hi {
			return -1
		}
		infos, of = infos[:min(len(infos), len(s.nodes))], of[:min(len(of), len(s.nodes))]
		for at, st := range s.nodes {
			switch {
			case at == len(of):
				infos, of = append(infos, s.info(at, st)), append(of, st)
			case of[at] != st:
				infos[at], of[at] = s.info(at, st), st
			}
		}
		cy := s.u.c.begin(k.info.Pod, infos)
		for at := lo; at < hi && cy.status == nil; at++ {
			if gone[at] || s.isClosed(at) || s.u.room(k, s.nodes[at]) == 0 {
				continue
			}
			status := cy.filter(infos[at])
			if status == nil {
				return at
			}
			gone[at] = !stateDependent(status.Plugin())
		}
		return -1
	}
}

// appendRun adds a node after the others, to the last run if as many pods were put there.
func appendRun(runs []Placement, at, pods int) []Placement {
	if last := len(runs) - 1; last >= 0 && runs[last].First+runs[last].Nodes == at && runs[last].PerNode == pods {
		runs[last].Nodes++
		return runs
	}
	return append(runs, Placement{First: at, Nodes: 1, PerNode: pods})
}
