package scaleup

import (
	"cmp"
	"maps"
	"slices"
)

// maxDepth is how far a round looks ahead. It foresees later rounds well only if they,
// too, look at those after them; more than that changes little.
const maxDepth = 2

func (p *planner) looksAhead() bool { return p.depth < maxDepth }

// lasting are those of the planned nodes that pods will be on once the nodes of later
// rounds are there too, whichever come first, and how many pods run then.
func (p *planner) lasting(planned map[string]int64) (kept map[string]int64, running int, err error) {
	later, err := p.foresee(planned)
	if err != nil {
		return nil, 0, err
	}
	all, err := p.simulation.simulate(together(planned, later), "")
	if err != nil {
		return nil, 0, err
	}
	enough := func(kept map[string]int64) (bool, error) {
		r, err := p.simulation.simulate(together(kept, later), "")
		return err == nil && r.noWorseThan(all), err
	}
	if len(later) > 0 {
		without, err := p.simulation.simulate(later, "")
		if err != nil {
			return nil, 0, err
		}
		if !slices.ContainsFunc(everyIndex(len(all)), func(i int) bool { return without[i].placed < all[i].placed }) {
			return nil, 0, nil
		}
	}
	kept = maps.Clone(planned)
	groups := slices.Sorted(maps.Keys(kept))
	size := func(name string) int64 { return int64(p.group(name).Target) + kept[name] }
	for len(groups) > 0 && p.hasTime() {
		name := slices.MaxFunc(groups, func(a, b string) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
		last, err := p.simulation.simulate(together(kept, later), name)
		if err != nil {
			return nil, 0, err
		}
		spare := last.unused(name, p.before) > 0 || p.strands(last)
		if spare {
			kept[name]--
			if spare, err = enough(kept); err != nil {
				return nil, 0, err
			}
			if !spare {
				kept[name]++
			}
		}
		if !spare || kept[name] == 0 {
			groups = slices.DeleteFunc(groups, func(other string) bool { return other == name })
		}
	}
	maps.DeleteFunc(kept, func(_ string, n int64) bool { return n == 0 })
	return kept, all.best().placed, nil
}

// foresee returns the nodes that later rounds would order beside those planned now.
func (p *planner) foresee(planned map[string]int64) (map[string]int64, error) {
	later, rounds := map[string]int64{}, uint64(0)
	cost := 200_000 + 40*len(p.world.Pending)*len(p.world.Groups) // of one round
	for p.simulation.work+cost < p.opts.workLimit() {
		w := *p.world
		w.Groups = slices.Clone(w.Groups)
		ordered := together(planned, later)
		for i := range w.Groups {
			w.Groups[i].Target += int(ordered[w.Groups[i].ID])
		}
		rounds++
		next := newPlanner(&w, p.checker, p.opts.forRound(p.opts.round+rounds))
		next.foreseen, next.simulation, next.depth = together(p.foreseen, ordered), p.simulation, p.depth+1
		if err := next.make(); err != nil {
			return nil, err
		}
		p.simulation.work = next.simulation.work + cost
		if len(next.ledger.grown) == 0 {
			return later, nil
		}
		later = together(later, next.ledger.grown)
	}
	p.simulation.work = max(p.simulation.work, p.opts.workLimit()) // what is not foreseen to the end compares no options
	return later, nil
}
