package scaleup

import (
	"cmp"
	"maps"
	"slices"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/expander"
)

// defaultMaxWork bounds how long a round simulates the scheduler, about in
// nanoseconds. It is counted, not measured, so that the same world has the same plan.
const defaultMaxWork = 100_000_000

func (o Options) workLimit() int { return cmp.Or(o.maxWork, defaultMaxWork) }

// hasTime reports whether there is time for one more simulation that is not needed
// for a sound plan.
func (p *planner) hasTime() bool { return *p.simulation.work < p.opts.workLimit() }

// hasMuchTime reports whether there is time to play what later rounds will do as they will do it.
func (p *planner) hasMuchTime() bool {
	return !p.foreseen && !p.rehearsed && !p.opts.asEstimated && 10**p.simulation.work < p.opts.workLimit()
}

// candidate is an option with its split, of which only nodes are left that pods
// will be on.
type candidate struct {
	decision Decision
	ledger   *ledger
	helped   map[int]int
	classes  []class
	filledUp []string
	kept     map[string]int64 // of its nodes, beside those there are and on their way
	lasting  map[string]int64 // of these, beside those of later rounds too
	running  int              // pods, once later rounds have ordered what they can
}

// decide chooses an option and splits its need. Nodes that would stay empty are not
// ordered; an option of which nothing is left makes room for the next best, and so
// does one after which fewer pods could run than after another one: a node in one
// more zone may bar pods that must be spread from all others.
func (p *planner) decide() error {
	var best, fallback *candidate
	var tried []*candidate
	runnable, options := p.runnable(), p.options
	for {
		c, err := p.candidate()
		if err != nil {
			return err
		}
		if c == nil {
			break
		}
		tried = append(tried, c)
		switch {
		case c.kept == nil: // not judged by simulation
			best = cmp.Or(best, c)
		case sum(c.lasting) > 0:
			if best == nil || c.running > best.running {
				best = c
			}
		case sum(c.kept) > 0:
			fallback = cmp.Or(fallback, c)
		}
		if best != nil && (p.foreseen || c.kept == nil || c.running >= runnable || !p.hasTime()) {
			break
		}
	}
	best = cmp.Or(best, fallback)
	if len(tried) > 0 && tried[0].kept != nil && p.hasMuchTime() {
		var err error
		if best, err = p.compare(best, tried, options); err != nil {
			return err
		}
	}
	if best == nil {
		return nil
	}
	return p.adopt(best)
}

// candidate splits the need of the next option and finds out what happens to it. It returns nil
// where no option is left.
func (p *planner) candidate() (*candidate, error) {
	if p.decision.Chosen != "" {
		p.reset() // of the one before
	}
	if len(p.options) == 0 {
		return nil, nil
	}
	if err := p.choose(); err != nil || p.decision.Chosen == "" {
		return nil, err
	}
	if err := p.splitNeed(); err != nil {
		return nil, err
	}
	c := p.planned()
	p.withdraw()
	if p.opts.asEstimated || p.group(c.decision.Chosen).AllOrNothing || len(c.ledger.grown) == 0 {
		return c, nil
	}
	var err error
	if c.kept, err = p.needed(nil, c.ledger.grown, true); err != nil {
		return c, err
	}
	if c, err = p.relevelled(c); err != nil || len(c.kept) == 0 {
		return c, err
	}
	if c.lasting = c.kept; !p.foreseen {
		c.lasting, c.running, err = p.lasting(c.kept)
	}
	return c, err
}

// planned is the candidate that has been split last.
func (p *planner) planned() *candidate {
	return &candidate{decision: p.decision, ledger: p.ledger, helped: p.helped, classes: p.classes, filledUp: p.filledUp}
}

// relevelled levels the need of a candidate again where nodes would stay empty because the
// scheduler puts pods that could run there on nodes that others need: no more nodes are planned in
// such a group then than would be used.
func (p *planner) relevelled(c *candidate) (*candidate, error) {
	for crossing(c.classes) && sum(c.kept) < sum(c.ledger.grown) && p.hasTime() {
		used, err := p.simulation.simulate(c.kept)
		if err != nil {
			return nil, err
		}
		chosen, trail, most := c.decision.Chosen, c.decision.Trail, maps.Clone(c.ledger.most)
		if most == nil {
			most = map[string]int64{}
		}
		for name, n := range c.ledger.grown {
			if c.kept[name] < n {
				most[name] = c.kept[name]
			}
		}
		p.reset()
		p.decision.Chosen, p.decision.Trail, p.ledger.most = chosen, trail, most
		if err := p.splitNeed(); err != nil {
			return nil, err
		}
		next := p.planned()
		if next.kept, err = p.needed(nil, next.ledger.grown, true); err != nil {
			return nil, err
		}
		after, err := p.simulation.simulate(next.kept)
		if err != nil {
			return nil, err
		}
		if after.placed <= used.placed {
			break
		}
		c = next
	}
	return c, nil
}

// adopt makes a candidate the decision.
func (p *planner) adopt(c *candidate) error {
	p.decision, p.ledger, p.helped, p.classes, p.filledUp = c.decision, c.ledger, c.helped, c.classes, c.filledUp
	for _, name := range c.decision.Members {
		delete(p.without, name)
	}
	kept := c.nodes()
	if c.kept == nil || sum(kept) == sum(c.ledger.grown) {
		return nil
	}
	p.keep(kept)
	if p.foreseen {
		return nil
	}
	return p.recountHelped(kept)
}

// recountHelped counts the pods that the nodes that are left help.
func (p *planner) recountHelped(kept map[string]int64) error {
	after, err := p.simulation.simulate(kept)
	if err != nil {
		return err
	}
	for k, n := range p.helped {
		placed := 0
		for _, pod := range p.kinds[k].Pods {
			if at := p.pods[pod]; after.at[at] >= 0 && p.before.at[at] < 0 {
				placed++
			}
		}
		p.helped[k] = min(n, placed)
	}
	return nil
}

// reset makes room for another candidate.
func (p *planner) reset() {
	p.decision = Decision{Pods: p.decision.Pods}
	p.ledger = newLedger(p.world, &p.opts)
	p.estimator = estimator.New(p.cluster)
	p.helped, p.classes, p.filledUp = map[int]int{}, nil, nil
}

// withdraw takes the chosen option and those of its set back.
func (p *planner) withdraw() {
	var left []expander.Option
	for _, o := range p.options {
		if slices.Contains(p.sets[p.decision.Chosen], o.Group) {
			p.without[o.Group] = "its new nodes would help no pod in the end, or stay empty beside those of other groups"
		} else {
			left = append(left, o)
		}
	}
	p.options = left
}

// runnable is how many pods pass some group that may grow, or have a place already.
func (p *planner) runnable() int {
	n := p.before.placed
	for k, kind := range p.kinds {
		if slices.ContainsFunc(p.standing, func(name string) bool { return p.passes(name, k) }) {
			n += len(kind.Pods)
		}
	}
	return n
}

// needed are those of the planned nodes that pods will be on, beside those that are
// ordered, and that take no node on its way all its pods; none of them where
// they alone should help a pod and do not.
func (p *planner) needed(ordered, planned map[string]int64, alone bool) (map[string]int64, error) {
	before := p.before
	if len(ordered) > 0 {
		var err error
		if before, err = p.simulation.simulate(ordered); err != nil {
			return nil, err
		}
	}
	kept := maps.Clone(planned)
	maps.DeleteFunc(kept, func(_ string, n int64) bool { return n <= 0 })
	for len(kept) > 0 {
		after, err := p.simulation.simulate(together(ordered, kept))
		if err != nil {
			return nil, err
		}
		if alone && after.placed <= before.placed {
			if kept, err = p.withoutAGroup(ordered, kept, after); err != nil {
				return nil, err
			}
			continue
		}
		less := maps.Clone(kept)
		for name, n := range kept {
			less[name] = n - max(0, after.unused(name)-before.unused(name))
		}
		if n := after.stranded() - before.stranded(); n > 0 && !p.foreseen && maps.Equal(less, kept) {
			name := p.fastest(kept)
			less[name] -= min(n, less[name])
		}
		if maps.Equal(less, kept) {
			return kept, nil
		}
		maps.DeleteFunc(less, func(_ string, n int64) bool { return n <= 0 })
		kept = less
	}
	return kept, nil
}

// fastest is the group whose nodes come first, and so overtake others.
func (p *planner) fastest(nodes map[string]int64) string {
	return slices.MinFunc(slices.Collect(maps.Keys(nodes)), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.group(a).StartupTime.Ready, p.group(b).StartupTime.Ready), cmp.Compare(a, b))
	})
}

// withoutAGroup leaves the one group out without whose nodes most pods find a place:
// where the new nodes of one zone hold pods back from all others. It returns no nodes
// where that changes nothing.
func (p *planner) withoutAGroup(ordered, planned map[string]int64, with *outcome) (map[string]int64, error) {
	best := map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		if len(planned) == 1 || !p.hasTime() {
			break
		}
		others := maps.Clone(planned)
		delete(others, name)
		r, err := p.simulation.simulate(together(ordered, others))
		if err != nil {
			return nil, err
		}
		if r.placed > with.placed {
			best, with = others, r
		}
	}
	return best, nil
}

func together(a, b map[string]int64) map[string]int64 {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]int64{}
	}
	for name, n := range b {
		all[name] += n
	}
	return all
}

func sum(nodes map[string]int64) int64 {
	n := int64(0)
	for _, of := range nodes {
		n += of
	}
	return n
}

// keep takes all but some nodes back from the shares, the last ones first.
func (p *planner) keep(kept map[string]int64) {
	drop := map[string]int64{}
	grown := p.ledger.grown
	p.ledger = newLedger(p.world, &p.opts)
	for _, name := range slices.Sorted(maps.Keys(grown)) {
		if n := kept[name]; n > 0 {
			p.ledger.give(name, n)
		}
		if n := grown[name] - kept[name]; n > 0 {
			drop[name] = n
		}
	}
	p.decision.Need -= int(sum(drop))
	takeBack(p.decision.shares, drop)
	p.decision.Increases = p.increases()
}

// takeBack lowers shares by nodes of groups, the last ones first, and returns how
// many nodes each class loses.
func takeBack(shares []share, nodes map[string]int64) map[int]int64 {
	left, lost := maps.Clone(nodes), map[int]int64{}
	for i := len(shares) - 1; i >= 0; i-- {
		for name, n := range shares[i].nodes {
			less := min(n, left[name])
			if less <= 0 {
				continue
			}
			left[name] -= less
			lost[shares[i].class] += less
			if n == less {
				delete(shares[i].nodes, name)
			} else {
				shares[i].nodes[name] = n - less
			}
		}
	}
	return lost
}
