package removal

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// order puts the candidates in the order in which they are tried: nodes that were
// not needed before first, then those without pods to move, then in no
// particular order; or as Options.Order does.
func (p *planner) order() {
	lots := p.lots(p.candidates, 0)
	slices.SortFunc(p.candidates, func(a, b int) int {
		return cmp.Or(
			first(!p.world.Nodes[a].UnneededSince.IsZero(), !p.world.Nodes[b].UnneededSince.IsZero()),
			first(!p.outcome[a].Drain, !p.outcome[b].Drain),
			cmp.Compare(lots[a], lots[b]),
			cmp.Compare(a, b),
		)
	})
	if p.opts.Order == nil {
		return
	}
	position := make(map[*v1.Node]int, len(p.candidates))
	nodes := make([]*v1.Node, len(p.candidates))
	for at, i := range p.candidates {
		nodes[at] = p.world.Nodes[i].Node.Node
		position[nodes[at]] = i
	}
	ordered := p.opts.Order(nodes, func(node *v1.Node) bool { return p.outcome[position[node]].Drain })
	p.candidates = p.candidates[:0]
	for _, node := range ordered {
		p.candidates = append(p.candidates, position[node])
		delete(position, node)
	}
	for _, i := range position { // left out
		o := p.outcome[i]
		o.Outcome, o.Reason = HeldByShift, "its set does not shrink while a zone of it is shifted away"
	}
}

// lots draws a number for each node, from the seed, the salt and its name, where
// Cluster Autoscaler leaves the order to chance.
func (p *planner) lots(nodes []int, salt int64) map[int]uint64 {
	key := binary.BigEndian.AppendUint64(nil, p.opts.Seed)
	key = binary.BigEndian.AppendUint64(key, uint64(salt))
	lots := make(map[int]uint64, len(nodes))
	for _, i := range nodes {
		sum := sha256.Sum256(append(key, p.outcome[i].Node...))
		lots[i] = binary.BigEndian.Uint64(sum[:])
	}
	return lots
}

// first puts the one of two for which a condition holds first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
