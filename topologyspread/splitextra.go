package topologyspread

import "sort"

// addExtra adds nodes beyond those that the pods need, one at a time to the smallest group that has
// room and where the node does not lower how many pods are placed. That is so in active zones. Nodes
// there never make it worse to open another zone, so many can be added at once until that happens.
func (p *problem) addExtra(plan *splitPlan, placed, extra int64) {
	for extra > 0 {
		var ranks []int // of groups in active zones
		for rank, g := range p.groups {
			if p.zones[g.zone].active || plan.zones[g.zone] > 0 {
				ranks = append(ranks, rank)
			}
		}
		now := *plan
		after := func(n int64) *splitPlan { return now.with(p, ranks, n) }
		room := reached(p.growing(&now, ranks), MaxCount+1)
		most := min(extra, room)
		// The first node that goes to a zone that is opened by it, if one does.
		n := int64(sort.Search(int(most), func(n int) bool { return p.opens(after(int64(n)), ranks, placed) >= 0 }))
		*plan = *after(n)
		extra -= n
		if extra == 0 {
			return
		}
		rank := p.opens(plan, ranks, placed)
		if rank < 0 {
			return
		}
		plan.add(p, rank)
		extra--
	}
}

// growing are groups with their new sizes.
func (p *problem) growing(plan *splitPlan, ranks []int) []group {
	groups := p.pick(ranks)
	for i, rank := range ranks {
		groups[i].size = plan.sizes[rank]
	}
	return groups
}

// with levels n more nodes over some groups.
func (a *splitPlan) with(p *problem, ranks []int, n int64) *splitPlan {
	q := problem{groups: p.growing(a, ranks)}
	out := &splitPlan{zones: append([]int64(nil), a.zones...), sizes: append([]int64(nil), a.sizes...)}
	for i, size := range q.level(sortedRanks(len(ranks)), n) {
		out.zones[q.groups[i].zone] += size - out.sizes[ranks[i]]
		out.sizes[ranks[i]] = size
	}
	return out
}

func (a *splitPlan) add(p *problem, rank int) {
	a.sizes[rank]++
	a.zones[p.groups[rank].zone]++
}

// opens is the group outside the active zones that the next node goes to; -1 if there is none.
func (p *problem) opens(plan *splitPlan, active []int, placed int64) int {
	next := -1 // the active group that is next
	for _, rank := range active {
		if plan.sizes[rank] < p.groups[rank].top && (next < 0 || plan.sizes[rank] < plan.sizes[next]) {
			next = rank
		}
	}
	best, at := -1, 0
	for rank, g := range p.groups {
		if at < len(active) && active[at] == rank {
			at++
			continue
		}
		if g.size >= g.top || best >= 0 && g.size >= p.groups[best].size {
			continue
		}
		if next >= 0 && (g.size > plan.sizes[next] || g.size == plan.sizes[next] && rank > next) {
			continue
		}
		plan.zones[g.zone]++
		if pods, _ := p.placeable(plan.zones); pods >= placed {
			best = rank
		}
		plan.zones[g.zone]--
	}
	return best
}
