package predicates

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// A fresh node is more than a kind of pods looks at: most kinds look at no label
// at all. So what was found out for one fresh node holds for every other that
// the kind cannot tell from it.

// appendBody encodes a fresh node but for its labels: what it is and what is on it.
func (st *state) appendBody(key []byte) []byte {
	key = binary.AppendUvarint(key, uint64(st.shape.body))
	key = binary.AppendUvarint(key, uint64(len(st.items)))
	for _, it := range st.items {
		key = binary.AppendUvarint(key, uint64(it.id))
		key = binary.AppendUvarint(key, uint64(it.n))
	}
	for _, at := range st.leftovers {
		key = append(append(key, at.driver...), 0)
		key = append(append(key, at.handle...), 0)
	}
	return key
}

// appendLabels encodes the labels of a node under the given keys.
func appendLabels(key []byte, n *v1.Node, keys []string) []byte {
	for i, name := range keys {
		if value, has := n.Labels[name]; has {
			key = binary.AppendUvarint(key, uint64(i+1))
			key = binary.AppendUvarint(key, uint64(len(value)))
			key = append(key, value...)
		}
	}
	return binary.AppendUvarint(key, 0)
}

// answer is what ask answers, asked once of nodes the kind cannot tell apart.
func (q *question) answer(fresh candidate) []Reason {
	if q.k.exact || q.k.volumes || q.s.needsExact(q.k) || q.s.repelledWidely(q.k) {
		return q.ask(fresh)
	}
	if q.answers == nil {
		q.answers = map[string][]Reason{}
		if !q.k.wider || q.s.len == 0 { // whatever the cluster is, or there is none
			if q.k.answers == nil {
				q.k.answers = q.answers
			}
			q.answers = q.k.answers
		}
		q.keys = compacted(slices.Concat(nodeKeysOf(q.k.info.Pod), q.s.u.c.rules.nodeKeys))
	}
	q.key = appendLabels(fresh.st.appendBody(q.key[:0]), fresh.st.shape.node, q.keys)
	reasons, known := q.answers[string(q.key)]
	if !known {
		reasons = q.ask(fresh)
		q.answers[string(q.key)] = reasons
	}
	return reasons
}

// classes numbers the candidates, those alike that differ only in labels that
// decide which of these kinds may run there: beside the body it is the
// domains of pod rules that tell how many of them do.
func (s *Cluster) classes(kinds []*kind, candidates []candidate) []int {
	keys := slices.Clone(s.u.c.rules.nodeKeys)
	for _, k := range kinds {
		if k.binds { // there are as many volumes as there are where the node is
			keys = append(keys, sets.List(s.u.c.storage.nodeKeys)...)
		}
		for i := range k.constraints {
			keys = append(keys, k.constraints[i].Key)
		}
		for _, t := range requiredTerms(k.info.Pod) {
			keys = append(keys, t.TopologyKey)
		}
	}
	repel := func(r *repulsion) {
		for _, t := range r.terms {
			keys = append(keys, t.TopologyKey)
		}
	}
	for _, r := range s.repellers {
		repel(r)
	}
	for _, c := range candidates {
		for _, it := range c.st.items {
			if it.repels != nil {
				repel(it.repels)
			}
		}
	}
	keys = compacted(withoutHost(keys))
	index := map[string]int{}
	classOf := make([]int, len(candidates))
	var key []byte
	for i, c := range candidates {
		key = appendLabels(c.st.appendBody(key[:0]), c.st.shape.node, keys)
		class, known := index[string(key)]
		if !known {
			class = len(index)
			index[string(key)] = class
		}
		classOf[i] = class
	}
	return classOf
}

func compacted(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}
