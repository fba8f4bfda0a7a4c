package nodegroupset

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"time"
)

// Terms are how the groups of a set share nodes. Groups without Terms share them
// evenly.
type Terms struct {
	Set      string // the name of the set
	Policy   Policy // Even when empty
	Measure  Measure
	Portions []Portion
	// Capacity is what a node of each group counts for, as Group.Capacity; nil if
	// nodes are counted.
	Capacity map[string]int64
	// StartupDeadline is that of the set.
	StartupDeadline time.Duration
}

// Patience is how long ordered nodes may take at most: the deadline, if there is one, within a limit
// that holds for all groups.
func (t *Terms) Patience(limit time.Duration) time.Duration {
	if t == nil || t.StartupDeadline == 0 {
		return limit
	}
	return min(limit, t.StartupDeadline)
}

// Of returns a request for groups of the set under its terms. Nodes of the request
// are nodes as those of one group, by which its need was estimated.
func (t *Terms) Of(request SplitRequest, nodesOf string) SplitRequest {
	if t == nil {
		return request
	}
	request.Policy = t.Policy
	request.Groups = slices.Clone(request.Groups)
	known := func(name string) bool { return t.Capacity[name] > 0 }
	if t.Capacity != nil && !slices.ContainsFunc(request.Groups, func(g Group) bool { return !known(g.Name) }) {
		request.NodeCapacity = t.Capacity[nodesOf]
		for i := range request.Groups {
			request.Groups[i].Capacity = t.Capacity[request.Groups[i].Name]
		}
	}
	asked := func(name string) bool {
		return slices.ContainsFunc(request.Groups, func(g Group) bool { return g.Name == name })
	}
	request.Portions = nil
	for _, p := range t.Portions {
		p.Groups = slices.DeleteFunc(slices.Clone(p.Groups), func(name string) bool { return !asked(name) })
		request.Portions = append(request.Portions, p)
	}
	return request
}

// Completed is Of for a request that may lack groups of the set: those whose size is known count too,
// and get nothing.
func (t *Terms) Completed(request SplitRequest, nodesOf string, size func(name string) (n int64, known bool)) SplitRequest {
	if t == nil || len(request.Groups) == 0 {
		return request
	}
	names := make([]string, len(request.Groups))
	for i, g := range request.Groups {
		names[i] = g.Name
	}
	for _, name := range t.Except(names) {
		if n, known := size(name); known {
			request.Groups = append(slices.Clip(request.Groups), Group{Name: name, Size: n, Max: n})
		}
	}
	return t.Of(request, nodesOf)
}

// PortionOf returns the name of the portion that a group is in, if the policy shares nodes between
// portions.
func (t *Terms) PortionOf(name string) string {
	if t == nil || t.Policy != Proportional && t.Policy != Priority {
		return ""
	}
	for _, p := range t.Portions {
		if slices.Contains(p.Groups, name) {
			return p.Name
		}
	}
	return ""
}

// Except returns the groups of the set that are not among some of them.
func (t *Terms) Except(names []string) (others []string) {
	for _, p := range t.Portions {
		for _, name := range p.Groups {
			if !slices.Contains(names, name) {
				others = append(others, name)
			}
		}
	}
	return others
}

// Level reports whether the groups share nodes evenly, each counting alike.
func (t *Terms) Level() bool {
	if t == nil {
		return true
	}
	if t.Policy != "" && t.Policy != Even {
		return false
	}
	if slices.ContainsFunc(t.Portions, func(p Portion) bool { return p.Base > 0 }) {
		return false
	}
	return t.Alike()
}

// Alike reports whether nodes of all groups count alike.
func (t *Terms) Alike() bool {
	if t == nil {
		return true
	}
	capacities := slices.Collect(maps.Values(t.Capacity))
	return len(capacities) == 0 || slices.Min(capacities) == slices.Max(capacities)
}

// unlessLevel are the terms; nil if they say no more than that sizes are equal.
func (t *Terms) unlessLevel() *Terms {
	if t.Level() {
		return nil
	}
	return t
}

func (t *Terms) capacity(g *shrinkGroup) int64 {
	if t == nil {
		return 1
	}
	return max(1, t.Capacity[g.Name])
}

// compare orders groups of one portion: the one to which Split gave its last node
// comes first.
func (t *Terms) compare(a, b *shrinkGroup) int {
	return cmp.Compare((b.Size-1)*t.capacity(b), (a.Size-1)*t.capacity(a))
}

// lastOf is compare with the last by name of those that stand alike.
func (t *Terms) lastOf(a, b *shrinkGroup) int {
	return cmp.Or(t.compare(a, b), cmp.Compare(b.Name, a.Name))
}

// losers are those groups of a set of which the first by compare loses a node next,
// so that what is left is what the terms say of that much. They are of one portion,
// or with policy Even of all that have more than their base. Only groups for which
// may is true lose nodes; without terms all of those do.
func (t *Terms) losers(groups []*shrinkGroup, may func(*shrinkGroup) bool) []*shrinkGroup {
	if t == nil {
		return slices.DeleteFunc(slices.Clone(groups), func(g *shrinkGroup) bool { return !may(g) })
	}
	portions := make([]shrinkPortion, len(t.Portions))
	var inNone []*shrinkGroup
	for i := range portions {
		portions[i].Portion, portions[i].has = t.Portions[i], new(big.Int)
	}
	for _, g := range groups {
		at := slices.IndexFunc(t.Portions, func(p Portion) bool { return slices.Contains(p.Groups, g.Name) })
		if at < 0 {
			if may(g) {
				inNone = append(inNone, g)
			}
			continue
		}
		p := &portions[at]
		p.has.Add(p.has, big.NewInt(g.Size*t.capacity(g)))
		if may(g) {
			p.able = append(p.able, g)
		}
	}
	if len(inNone) > 0 {
		return inNone
	}
	return t.loser(portions)
}

// shrinkPortion is a portion that may have to lose a node.
type shrinkPortion struct {
	Portion
	has  *big.Int
	able []*shrinkGroup
	next int64 // what the node that it would lose counts for
}

// loser finds the portion that loses a node: of those that have more than their base
// the one that is most above its weight, or with policy Priority the last; if all
// have no more than their base the last one.
func (t *Terms) loser(portions []shrinkPortion) []*shrinkGroup {
	var even, base []*shrinkGroup
	var best *shrinkPortion
	for i := range portions {
		p := &portions[i]
		if len(p.able) == 0 {
			continue
		}
		p.next = t.capacity(slices.MinFunc(p.able, t.lastOf))
		if less := new(big.Int).Sub(p.has, big.NewInt(p.next)); less.Cmp(big.NewInt(p.Base)) < 0 {
			base = p.able
			continue
		}
		even = append(even, p.able...)
		if best == nil || t.Policy == Priority || p.above(best) {
			best = p
		}
	}
	switch {
	case best == nil:
		return base
	case t.Policy == Proportional || t.Policy == Priority:
		return best.able
	}
	return even
}

// above reports whether a portion is at least as far above its weight as an earlier
// one. One without weight is to have its base only.
func (p *shrinkPortion) above(earlier *shrinkPortion) bool {
	if p.Weight == 0 || earlier.Weight == 0 {
		return p.Weight == 0
	}
	return p.share().Cmp(earlier.share()) >= 0
}

func (p *shrinkPortion) share() *big.Rat {
	return share(new(big.Int).Sub(p.has, big.NewInt(p.next)), p.Base, p.next, p.Weight)
}
