package spreadplan

import (
	"maps"
	"slices"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// providePlain plans nodes for kinds without a spread over zones. How many nodes each kind needs
// follows from planning one after the other. If kinds have only some of their members in common, these
// nodes are then levelled together, unless pods find less room like that.
func (p *planner) providePlain(kinds []*Kind) error {
	need := make([]nodegroupset.Class, len(kinds))
	for i, k := range kinds {
		for _, m := range k.members {
			need[i].Members = append(need[i].Members, m.Name)
		}
		slices.Sort(need[i].Members)
	}
	inTurn, crossing := p, nodegroupset.Crossing(need)
	if crossing {
		inTurn = p.fork()
	}
	for i, k := range kinds {
		added, left := len(inTurn.Added), inTurn.Left
		if err := inTurn.provideAll(k, k.Count); err != nil {
			return err
		}
		need[i].Nodes = int64(len(inTurn.Added)-added) + (inTurn.Left-left+k.perNode-1)/k.perNode
	}
	if !crossing {
		return nil
	}
	if err := p.provideTogether(kinds, need); err != nil {
		return err
	}
	if p.Left > inTurn.Left || p.Left == inTurn.Left && len(p.Added) > len(inTurn.Added) {
		*p = *inTurn
	}
	return nil
}

// provideTogether levels the nodes that each kind needs over all members, and puts the pods on them.
func (p *planner) provideTogether(kinds []*Kind, need []nodegroupset.Class) error {
	request := nodegroupset.SplitRequest{}
	for i := range p.request.Members {
		m := &p.request.Members[i]
		g := p.group(m, false)
		g.Reserve = g.Max - p.top(m, true)
		request.Groups = append(request.Groups, g)
	}
	for _, class := range need {
		if class.Nodes > 0 {
			request.Classes = append(request.Classes, class)
			request.Nodes += class.Nodes
		}
	}
	result, err := p.split(request)
	if err != nil {
		return err
	}
	shares := result.Classes
	for i, k := range kinds {
		left, before := p.fill(k, k.Count, p.machines), len(p.machines)
		if need[i].Nodes > 0 {
			if left > (need[i].Nodes-1)*k.perNode { // no more has room on other nodes than before
				for _, m := range k.members {
					for range min(shares[0].Nodes[m.Name], p.top(m, false)-p.Sizes[m.Name]) {
						p.add(m)
					}
				}
			}
			shares = shares[1:]
		}
		if left = p.fill(k, left, p.machines[before:]); left == 0 {
			continue
		}
		if err := p.provideAll(k, left); err != nil {
			return err
		}
	}
	return nil
}

// fork is a planner for a what-if.
func (p *planner) fork() *planner {
	f := *p
	f.Sizes, f.Added, f.Put = maps.Clone(p.Sizes), slices.Clone(p.Added), slices.Clone(p.Put)
	f.machines = make([]*Machine, len(p.machines))
	for i, m := range p.machines {
		copied := *m
		copied.Free, copied.placed = maps.Clone(m.Free), maps.Clone(m.placed)
		f.machines[i] = &copied
	}
	return &f
}
