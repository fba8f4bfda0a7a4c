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
func (p *planner) hasTime() bool { return p.simulation.work < p.opts.workLimit() }

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
	strands  bool             // leaves nodes empty that are on their way
}

// decide chooses an option and splits its need. Nodes that would stay empty are not
// ordered; an option of which nothing is left makes room for the next best, and so
// does one after which fewer pods could run than after another one: a node in one
// more zone may bar pods that must be spread from all others.
func (p *planner) decide() error {
	var best, fallback *candidate
	runnable := p.runnable()
	for len(p.options) > 0 {
		if err := p.choose(); err != nil {
			return err
		}
		if p.decision.Chosen == "" {
			break
		}
		c, err := p.candidate()
		if err != nil {
			return err
		}
		switch {
		case c.kept == nil: // not judged by simulation
			best = cmp.Or(best, c)
		case sum(c.lasting) > 0:
			if best == nil || c.running > best.running || c.running == best.running && best.strands && !c.strands {
				best = c
			}
		case sum(c.kept) > 0:
			fallback = cmp.Or(fallback, c)
		}
		if best != nil && (!p.looksAhead() || c.kept == nil || c.running >= runnable && !best.strands || !p.hasTime()) {
			break
		}
		p.withdraw()
		p.reset()
	}
	if best = cmp.Or(best, fallback); best == nil {
		return nil
	}
	return p.adopt(best)
}

// candidate splits the need of the chosen option and finds out what happens to it.
func (p *planner) candidate() (*candidate, error) {
	if err := p.splitNeed(); err != nil {
		return nil, err
	}
	c := &candidate{decision: p.decision, ledger: p.ledger, helped: p.helped, classes: p.classes, filledUp: p.filledUp}
	if p.opts.asEstimated || p.group(c.decision.Chosen).AllOrNothing || len(c.ledger.grown) == 0 {
		return c, nil
	}
	var err error
	if c.kept, err = p.needed(nil, c.ledger.grown); err != nil || len(c.kept) == 0 {
		return c, err
	}
	c.lasting = c.kept
	for fewer := p.looksAhead(); fewer && len(c.lasting) > 0 && p.hasTime(); {
		before := sum(c.lasting)
		if c.lasting, c.running, err = p.lasting(c.lasting); err != nil {
			return nil, err
		}
		fewer = sum(c.lasting) < before // and so later rounds may order others
	}
	if len(c.lasting) > 0 && len(p.simulation.coming) > 0 && p.looksAhead() {
		var r outcomes
		r, err = p.simulation.simulate(c.lasting, "")
		c.strands = err == nil && p.strands(r)
	}
	return c, err
}

// strands reports whether nodes that are on their way would stay empty.
func (p *planner) strands(r outcomes) bool {
	return slices.ContainsFunc(p.simulation.coming, func(c arrival) bool { return r.unused(c.group, p.before) > 0 })
}

// adopt makes a candidate the decision.
func (p *planner) adopt(c *candidate) error {
	p.decision, p.ledger, p.helped, p.classes, p.filledUp = c.decision, c.ledger, c.helped, c.classes, c.filledUp
	for _, name := range c.decision.Members {
		delete(p.without, name)
	}
	kept := c.lasting
	if len(kept) == 0 {
		kept = c.kept
	}
	if c.kept == nil || sum(kept) == sum(c.ledger.grown) {
		return nil
	}
	p.keep(kept)
	if p.foreseen != nil {
		return nil
	}
	return p.recountHelped(kept)
}

// recountHelped counts the pods that the nodes that are left help.
func (p *planner) recountHelped(kept map[string]int64) error {
	r, err := p.simulation.simulate(kept, "")
	if err != nil {
		return err
	}
	after, before := r.best(), p.before.best()
	for k, n := range p.helped {
		placed := 0
		for _, pod := range p.kinds[k].Pods {
			if at := p.pods[pod]; after.at[at] >= 0 && before.at[at] < 0 {
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
	n := p.before.best().placed
	for k, kind := range p.kinds {
		if slices.ContainsFunc(p.standing, func(name string) bool { return p.passes(name, k) }) {
			n += len(kind.Pods)
		}
	}
	return n
}

// needed are those of the planned nodes that pods will be on, beside those that are
// ordered; none of them where they would help no pod.
func (p *planner) needed(ordered, planned map[string]int64) (map[string]int64, error) {
	before := p.before
	if len(ordered) > 0 {
		var err error
		if before, err = p.simulation.simulate(ordered, ""); err != nil {
			return nil, err
		}
	}
	kept := maps.Clone(planned)
	after, err := p.simulation.simulate(together(ordered, kept), "")
	for err == nil && !after.helps(before) {
		if kept, after, err = p.withoutAGroup(ordered, kept, after); len(kept) == 0 {
			return kept, err
		}
	}
	for err == nil {
		less := maps.Clone(kept)
		for name, n := range kept {
			less[name] = max(0, n-after.unused(name, before))
		}
		maps.DeleteFunc(less, func(_ string, n int64) bool { return n == 0 })
		if maps.Equal(less, kept) {
			return kept, nil
		}
		again, err := p.simulation.simulate(together(ordered, less), "")
		if err != nil {
			return nil, err
		}
		if !again.noWorseThan(after) {
			return kept, nil
		}
		kept, after = less, again
	}
	return nil, err
}

// withoutAGroup leaves the one group out without whose nodes most pods find a place:
// where the new nodes of one zone hold pods back from all others. It returns no nodes
// where that changes nothing.
func (p *planner) withoutAGroup(ordered, planned map[string]int64, with outcomes) (map[string]int64, outcomes, error) {
	best := map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		if len(planned) == 1 || !p.hasTime() {
			break
		}
		others := maps.Clone(planned)
		delete(others, name)
		r, err := p.simulation.simulate(together(ordered, others), "")
		if err != nil {
			return nil, nil, err
		}
		if r.best().placed > with.best().placed {
			best, with = others, r
		}
	}
	return best, with, nil
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
