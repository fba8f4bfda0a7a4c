package scaleup

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/expander"
)

// result is what a run comes to.
type result struct {
	placed int // pods
	last   time.Duration
	nodes  int64 // ordered from now on
}

// than compares two results: more pods that run, sooner, on fewer nodes.
func (r result) than(other result) int {
	return cmp.Or(cmp.Compare(r.placed, other.placed), cmp.Compare(other.last, r.last), cmp.Compare(other.nodes, r.nodes))
}

// comparison looks for the candidate with which most is reached.
type comparison struct {
	*planner
	goal    result // enough
	best    *candidate
	reached result // with best
}

// compare plays to the end what happens with the best candidate, and what would happen if all rounds
// ordered as estimated, but for nodes that would stay empty. Where that were better, it looks for
// a candidate with which as much is reached.
func (p *planner) compare(best *candidate, tried []*candidate, options []expander.Option) (*candidate, error) {
	if best != nil && best.kept == nil {
		return best, nil // not judged by simulation
	}
	goal, later, err := p.result(nil, asEstimated)
	if err != nil {
		return nil, err
	}
	reached, _, err := p.result(best.nodes(), carefully)
	if err != nil {
		return nil, err
	}
	x := comparison{planner: p, goal: goal, best: best, reached: reached}
	if x.done() {
		return best, nil
	}
	if first := slices.IndexFunc(later, func(a arrival) bool { return a.n > 0 }); first >= 0 {
		rest := p.options
		p.options = slices.DeleteFunc(slices.Clone(options), func(o expander.Option) bool { return o.Group != later[first].chosen })
		c, err := p.candidate()
		if err != nil {
			return nil, err
		}
		p.options, tried = rest, slices.Concat([]*candidate{c}, tried)
	}
	for _, c := range tried {
		if err := x.try(c); err != nil {
			return nil, err
		}
	}
	for !x.done() {
		c, err := p.candidate()
		if err != nil || c == nil {
			return x.best, err
		}
		if err := x.try(c); err != nil {
			return nil, err
		}
	}
	return x.best, nil
}

func (x *comparison) done() bool { return x.reached.than(x.goal) >= 0 || !x.hasTime() }

// try plays what happens with a candidate, with more of its nodes and with fewer.
func (x *comparison) try(c *candidate) error {
	if c == nil || c.kept == nil || x.done() {
		return nil
	}
	all, err := x.needed(nil, c.ledger.grown, false)
	if err != nil {
		return err
	}
	for _, nodes := range []map[string]int64{all, c.kept, c.lasting} {
		for _, as := range []policy{asEstimated, carefully} {
			if len(nodes) == 0 || x.done() {
				continue
			}
			r, _, err := x.result(nodes, as)
			if err != nil {
				return err
			}
			if x.hasTime() && r.than(x.reached) > 0 {
				better := *c
				better.kept, better.lasting = nodes, nodes
				x.best, x.reached = &better, r
			}
		}
	}
	return nil
}

// nodes are those that a candidate orders.
func (c *candidate) nodes() map[string]int64 {
	switch {
	case c == nil:
		return nil
	case len(c.lasting) > 0:
		return c.lasting
	}
	return c.kept
}

// result is what is reached if these nodes are ordered now, and what later rounds order then.
func (p *planner) result(planned map[string]int64, as policy) (result, []arrival, error) {
	later, err := p.foresee(planned, as)
	if err != nil {
		return result{}, nil, err
	}
	kept, later, t, err := p.used(planned, later)
	if err != nil || !maps.Equal(kept, planned) {
		return result{}, nil, err
	}
	r := result{placed: t.placed, last: t.last, nodes: sum(planned)}
	for _, a := range later {
		r.nodes += int64(a.n)
	}
	return r, later, nil
}
