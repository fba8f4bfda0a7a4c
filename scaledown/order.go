package scaledown

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// order puts the candidates in the order in which they are tried: nodes that were
// not needed before first, then those without pods to move, then in no
// particular order. With balancing that is the order within each group only, and
// the groups take turns so that their sets stay level.
func (p *planner) order() error {
	lots := p.lots(p.candidates, 0)
	slices.SortFunc(p.candidates, func(a, b int) int {
		return cmp.Or(
			first(!p.world.Nodes[a].UnneededSince.IsZero(), !p.world.Nodes[b].UnneededSince.IsZero()),
			first(!p.outcome[a].Drain, !p.outcome[b].Drain),
			cmp.Compare(lots[a], lots[b]),
			cmp.Compare(a, b),
		)
	})
	if p.opts.DisableBalancing {
		return nil
	}
	result, err := p.shrink(p.candidates, nodegroupset.Unlimited, nodegroupset.Unlimited, func(int) bool { return true })
	if err != nil {
		return err
	}
	ordered := make([]int, 0, len(p.candidates))
	for _, at := range result.Go {
		ordered = append(ordered, p.candidates[at])
	}
	for _, wait := range result.Waits { // held by their group's minimum
		ordered = append(ordered, p.candidates[wait.Candidate])
	}
	p.candidates = ordered
	return nil
}

// shrink asks which of some nodes go so that sets stay level.
func (p *planner) shrink(nodes []int, limit, drains int64, overdue func(node int) bool) (nodegroupset.ShrinkResult, error) {
	request := nodegroupset.ShrinkRequest{Nodes: limit, Drains: drains, Terms: p.terms}
	for i := range p.world.Groups {
		if g := &p.world.Groups[i]; g.Err == nil {
			request.Groups = append(request.Groups, nodegroupset.ShrinkGroup{
				Name: g.ID, Set: p.setOf[g.ID], Size: int64(g.Target), Min: int64(g.Min),
			})
		}
	}
	for _, i := range nodes {
		o := p.outcome[i]
		request.Candidates = append(request.Candidates, nodegroupset.ShrinkCandidate{Group: o.Group, Drain: o.Drain, Overdue: overdue(i)})
	}
	return nodegroupset.Shrink(request)
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
