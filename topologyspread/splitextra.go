package topologyspread

import (
	"cmp"
	"slices"
	"sort"
)

// addExtra adds nodes beyond those that the pods need, one at a time to the smallest group that has
// room and where the node does not lower how many pods are placed. That is so in active zones. Nodes
// there never make it worse to open another zone, so many can be added at once until that happens.
func (p *problem) addExtra(plan *splitPlan, placed, extra int64) {
	for extra > 0 {
		var open []group // in active zones, with their new sizes
		for _, g := range p.groups {
			if g.size = plan.sizes[g.rank]; p.active(plan, g) {
				open = append(open, g)
			}
		}
		before := *plan
		after := func(n int64) *splitPlan { return before.with(open, n) }
		// The first node that goes to a zone that is opened by it, if one does.
		most := int(min(extra, reached(open, MaxCount+1)))
		n := int64(sort.Search(most, func(n int) bool { return p.opens(after(int64(n)), placed) >= 0 }))
		*plan = *after(n)
		if extra -= n; extra == 0 {
			return
		}
		rank := p.opens(plan, placed)
		if rank < 0 {
			return
		}
		plan.sizes[rank]++
		plan.zones[p.groups[rank].zone]++
		extra--
	}
}

// active reports whether the zone of a group is active under a plan.
func (p *problem) active(plan *splitPlan, g group) bool {
	return p.zones[g.zone].active || plan.zones[g.zone] > 0
}

// with levels n more nodes over some groups.
func (a *splitPlan) with(groups []group, n int64) *splitPlan {
	out := &splitPlan{zones: slices.Clone(a.zones), sizes: slices.Clone(a.sizes)}
	for i, size := range levelled(groups, n) {
		out.zones[groups[i].zone] += size - groups[i].size
		out.sizes[groups[i].rank] = size
	}
	return out
}

// opens is the group outside the active zones that the next node goes to; -1 if there is none.
func (p *problem) opens(plan *splitPlan, placed int64) int {
	next := slices.DeleteFunc(slices.Clone(p.groups), func(g group) bool { return plan.sizes[g.rank] >= g.top })
	slices.SortStableFunc(next, func(a, b group) int { return cmp.Compare(plan.sizes[a.rank], plan.sizes[b.rank]) })
	for _, g := range next {
		if p.active(plan, g) {
			break
		}
		plan.zones[g.zone]++
		pods, _ := p.placeable(plan.zones)
		plan.zones[g.zone]--
		if pods >= placed {
			return g.rank
		}
	}
	return -1
}
