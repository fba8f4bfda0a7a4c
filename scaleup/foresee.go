package scaleup

import (
	"cmp"
	"maps"
	"slices"
)

// lasting are those of the planned nodes that pods need at the end, if every later round orders
// what it sees fit, and how many pods run then.
func (p *planner) lasting(planned map[string]int64) (kept map[string]int64, running int, err error) {
	kept = planned
	var best *outcome
	var with map[string]int64 // these nodes
	for less := true; less && len(kept) > 0; {
		later, err := p.foresee(kept, hastily)
		if err != nil {
			return nil, 0, err
		}
		if !p.hasTime() {
			break
		}
		left, all, err := p.prune(kept, later)
		if err != nil {
			return nil, 0, err
		}
		if best != nil && !all.asGoodAs(best) {
			kept = with
			break
		}
		best, with, less = all, kept, sum(left) < sum(kept) // and so later rounds may order others
		kept = left
	}
	if best != nil {
		running = best.placed
	}
	if !maps.Equal(kept, planned) {
		kept, err = p.needed(nil, kept, true)
	}
	return kept, running, err
}

// used takes nodes away that stay empty, those of later rounds too.
func (p *planner) used(planned map[string]int64, following []arrival) (map[string]int64, []arrival, *outcome, error) {
	kept, following := together(planned, nil), slices.Clone(following)
	all, err := p.play(kept, following)
	for err == nil && p.hasTime() {
		empty := slices.DeleteFunc(slices.Clone(all.empty), func(a arrival) bool { return a.ordered == orderedBefore })
		if len(empty) == 0 {
			break
		}
		for _, a := range empty {
			if a.ordered == orderedNow {
				kept[a.group] -= int64(a.n)
				continue
			}
			following[a.ordered-orderedLater].n -= a.n
		}
		all, err = p.play(kept, following)
	}
	return kept, following, all, err
}

// prune takes nodes away, those of later rounds too, that stay empty or without which as many pods
// run as soon, and returns which are left of those planned, and what happens.
func (p *planner) prune(planned map[string]int64, following []arrival) (map[string]int64, *outcome, error) {
	kept, following, all, err := p.used(planned, following)
	if err != nil {
		return nil, nil, err
	}
	spare := func(n *int) error {
		for *n > 0 && p.hasTime() {
			*n--
			if r, err := p.play(kept, following); err != nil || !r.asGoodAs(all) {
				*n++
				return err
			}
		}
		return nil
	}
	for i := range following {
		if err := spare(&following[len(following)-1-i].n); err != nil {
			return nil, nil, err
		}
	}
	groups := slices.Sorted(maps.Keys(kept))
	size := func(name string) int64 { return int64(p.group(name).Target) + kept[name] }
	for len(groups) > 0 && p.hasTime() {
		name := slices.MaxFunc(groups, func(a, b string) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
		if kept[name] > 0 {
			kept[name]--
			r, err := p.play(kept, following)
			if err != nil {
				return nil, nil, err
			}
			if r.asGoodAs(all) {
				continue
			}
			kept[name]++
		}
		groups = slices.DeleteFunc(groups, func(other string) bool { return other == name })
	}
	maps.DeleteFunc(kept, func(_ string, n int64) bool { return n == 0 })
	return kept, all, nil
}

// play simulates the scheduler with nodes ordered now and those that follow.
func (p *planner) play(planned map[string]int64, following []arrival) (*outcome, error) {
	coming, count := slices.Clone(p.simulation.coming), together(planned, nil)
	for _, a := range following {
		a.from = p.group(a.group).Upcoming + int(count[a.group])
		count[a.group] += int64(a.n)
		coming = append(coming, a)
	}
	s := p.simulation.with(coming, p.group)
	return s.simulate(planned)
}
