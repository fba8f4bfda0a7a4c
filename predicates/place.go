package predicates

import (
	"encoding/binary"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
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
	if lo < 0 || hi > s.len || lo > hi {
		return nil, fmt.Errorf("nodes %d..%d of %d: %w", lo, hi, s.len, ErrRange)
	}
	k, err := s.kind(pod)
	if err != nil {
		return nil, err
	}
	return s.place(k, count, lo, hi), s.u.c.interrupted()
}

func (s *Cluster) place(k *kind, count, lo, hi int) []Placement {
	if s.spreads(k, nil) && !s.needsExact(k) {
		return s.spreader(k, lo).place(count, lo, hi)
	}
	s.spreading = nil
	switch {
	case s.needsExact(k):
		return s.oneByOne(s.exact(k), count, lo, hi, nil)
	case s.singly(k, nil):
		return s.oneByOne(s.single(k), count, lo, hi, nil)
	}
	return s.placeBulk(k, count, lo, hi)
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
	k, err := s.kind(pod)
	if err != nil {
		return nil, err
	}
	st, err := s.template(template)
	if err != nil {
		return nil, err
	}
	grow := &growth{template: template, fresh: st, left: maxNodes}
	var runs []Placement
	switch {
	case s.needsExact(k):
		s.spreading = nil
		runs = s.oneByOne(s.exact(k), count, s.len, s.len, grow)
	case s.spreads(k, st):
		runs = s.spreader(k, s.len).placeOnNew(count, grow)
	case s.singly(k, st):
		s.spreading = nil
		runs = s.oneByOne(s.single(k), count, s.len, s.len, grow)
	default:
		s.spreading = nil
		runs = s.placeBulkOnNew(k, count, grow)
	}
	return runs, s.u.c.interrupted()
}

// TakesOnNew reports whether PlaceOnNew would place one pod on one fresh copy of
// template. The Cluster does not change.
//
// It returns ErrNilObject for a nil pod or node.
func (s *Cluster) TakesOnNew(template Node, pod *v1.Pod) (bool, error) {
	if takes, known, err := s.takesOnNew(template, pod); known || err != nil {
		return takes, err
	}
	runs, err := s.Fork().PlaceOnNew(template, pod, 1, 1)
	return len(runs) > 0, err
}

// takesOnNew answers TakesOnNew where that takes no copy of the Cluster.
func (s *Cluster) takesOnNew(template Node, pod *v1.Pod) (takes, known bool, err error) {
	s.lock()
	defer s.unlock()
	k, err := s.kind(pod)
	if err != nil {
		return false, false, err
	}
	fresh, err := s.template(template)
	switch {
	case err != nil || s.needsExact(k):
		return false, false, err
	case s.spreads(k, fresh):
		one, undo := s.spreader(k, s.len).try(fresh)
		if one != nil {
			undo()
		}
		return one != nil, true, nil
	case s.singly(k, fresh):
		return false, false, nil
	}
	return s.bulk(k, fresh).capacity(fresh, 1) > 0, true, s.u.c.interrupted()
}

// growth is the room for new nodes of a template.
type growth struct {
	template Node
	fresh    *state
	left     int // nodes that may still be opened
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
	k, err := s.lookUp(pod)
	if err != nil {
		return nil, err
	}
	s.refresh()
	return k, nil
}

func (s *Cluster) lookUp(pod *v1.Pod) (*kind, error) {
	k, err := s.u.kind(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.looksAt.Insert(k.looksAt...)
	return k, nil
}

// needsExact reports whether a kind must be placed with every node in view under
// its own name. Where nodes share a hostname, that holds for all that looks at
// hostnames.
func (s *Cluster) needsExact(k *kind) bool {
	if k.exact {
		return true
	}
	return s.sharedHosts && (k.host || slices.ContainsFunc(s.repellers, func(r *repulsion) bool {
		return r.host && k.repelledBy(r)
	}))
}

// singly reports whether a kind must be placed pod by pod: its own rules reach
// beyond the node, or it has rules of its own and others repel it beyond the
// node. fresh is the state of the nodes to be opened, if any.
func (s *Cluster) singly(k *kind, fresh *state) bool {
	if k.wider {
		return true
	}
	if fresh != nil {
		for _, it := range fresh.items {
			if it.repels != nil && it.repels.wider && k.repelledBy(it.repels) {
				return true // each node opened repels from more nodes
			}
		}
	}
	return k.ownTerms() && s.repelledWidely(k)
}

// repelledWidely reports whether pods on nodes may repel the kind from other
// nodes than their own.
func (s *Cluster) repelledWidely(k *kind) bool {
	return slices.ContainsFunc(s.repellers, func(r *repulsion) bool { return r.wider && k.repelledBy(r) })
}

// turnedAway reports whether even an empty node of the shape rejects the kind, by
// plugins that look at the node alone.
func (s *Cluster) turnedAway(k *kind, sh *shape) bool {
	away, known := sh.empty[k]
	if known {
		return away
	}
	var key []byte
	if !k.exact && !looksUpVolumes(k.info.Pod) {
		if k.away == nil {
			k.away, k.nodeKeys = map[string]bool{}, compacted(slices.Concat(nodeKeysOf(k.alone), s.u.c.rules.nodeKeys))
		}
		key = appendLabels(binary.AppendUvarint(nil, uint64(sh.body)), sh.node, k.nodeKeys)
		away, known = k.away[string(key)]
	}
	if !known {
		status := s.u.c.begin(k.alone, one(sh.bare)).filter(sh.bare)
		away = status != nil && !stateDependent(status.Plugin())
	}
	if key != nil {
		k.away[string(key)] = away
	}
	sh.empty[k] = away
	return away
}

// full reports whether NodeResourcesFit or the limits on volumes certainly reject
// the kind on a node.
func (s *Cluster) full(k *kind, st *state) bool {
	rules := &s.u.c.rules
	if _, over := s.tooManyVolumes(k, st); over {
		return true
	}
	return rules.resources && st.room(&k.asks, rules.ignoreScalars) == 0
}

// tally collects placements node by node.
type tally map[int]int

// placements returns the runs of neighbours with equal counts.
func (t tally) placements() []Placement {
	ids := make([]int, 0, len(t))
	for id := range t {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var runs []Placement
	for _, id := range ids {
		runs = appendRun(runs, id, 1, t[id])
	}
	return runs
}

func appendRun(runs []Placement, first, nodes, perNode int) []Placement {
	if nodes == 0 || perNode == 0 {
		return runs
	}
	if len(runs) > 0 {
		last := &runs[len(runs)-1]
		if last.First+last.Nodes == first && last.PerNode == perNode {
			last.Nodes += nodes
			return runs
		}
	}
	return append(runs, Placement{First: first, Nodes: nodes, PerNode: perNode})
}
