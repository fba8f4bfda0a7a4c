package apportion

// Distribute returns how many of the replicas belong on each target, how many of those cannot run
// there now, and why.
//
// It computes two layouts. The desired layout ignores what targets are able to run. The runnable
// layout respects it, and every target keeps what runs of its desired share: no target loses
// replicas because another one is blocked. The result is the runnable layout plus, with [Keep], the
// desired share that cannot run.
//
// A distribution always exists: the result counts what cannot run anywhere. The error is an
// [*InvalidError] about an invalid input, with a path relative to the spec of the document. The
// cost is O(k log k) for k targets, whatever the numbers are.
func Distribute(request Request) (Result, error) {
	if err := request.validate(); err != nil {
		return Result{}, err
	}
	p := newProblem(request)
	plan := p.solve()
	rebalanced := plan
	if p.sticky {
		rebalanced = p.rebalanced().solve()
	}

	result := Result{
		Targets:  make([]TargetResult, len(p.targets)),
		Unplaced: p.total - sum(plan.runnable),
		Excess:   p.total - request.Replicas,
	}
	for i, t := range p.targets {
		answer := TargetResult{
			Name:     request.Targets[t.index].Name,
			Replicas: plan.runnable[i],
			Reason:   p.reason(i, plan, rebalanced),
		}
		if request.Pending != Trim {
			answer.Pending = plan.pending(i, t)
			answer.Replicas += answer.Pending
		}
		result.Targets[t.index] = answer
	}
	return result, nil
}

// problem is a valid request. All slices here and in plans are in the order of targets.
type problem struct {
	targets  []target
	policy   Policy
	rounding Rounding
	relief   Relief
	additive bool
	sticky   bool  // replicas stay where they are
	total    int64 // what is distributed
	// scarce are the targets in granting order if the total may be too small for all minimums; else
	// it is empty, and all minimums are granted.
	scarce []int
}

func newProblem(r Request) *problem {
	p := &problem{
		targets:  r.inOrder(),
		policy:   r.Policy,
		rounding: r.Rounding,
		relief:   r.Relief,
		additive: r.MinMode == Additive,
		sticky:   r.Rebalance != nil && !*r.Rebalance,
		total:    r.Replicas,
	}
	if r.Shortage == TotalWins {
		p.scarce = grantingOrder(p.targets, r.Policy)
	} else {
		var minimums int64
		for _, t := range p.targets {
			minimums += t.min
		}
		p.total = max(p.total, minimums)
	}
	if !p.sticky {
		for i := range p.targets {
			p.targets[i].current = 0
		}
	}
	return p
}

// rebalanced is the same problem with nothing placed yet.
func (p *problem) rebalanced() *problem {
	fresh := *p
	fresh.targets = make([]target, len(p.targets))
	for i, t := range p.targets {
		t.current = 0
		fresh.targets[i] = t
	}
	return &fresh
}

// plan is the solution of a problem.
type plan struct {
	runnable []int64 // replicas that run
	assigned []int64 // replicas that would be written if all could run there
	held     []bool  // a larger capacity would let the target run more, although nothing is pending
}

// pending is the part of what is assigned to a target that cannot run there.
func (p plan) pending(i int, t target) int64 {
	if !t.known {
		return 0
	}
	return max(0, p.assigned[i]-t.capacity)
}

func (p *problem) solve() plan {
	granted := p.grantMinimums()
	keep := make([]int64, len(p.targets))
	for i, t := range p.targets {
		keep[i] = min(max(t.current, granted[i]), t.max)
	}
	desired := p.desire(granted, keep)
	if p.relief == LaterOnly {
		return p.cascade(desired)
	}
	return p.relieve(keep, desired)
}

// grantMinimums is how much of its minimum each target is granted: all of it or, under scarcity,
// first what exists already and then the rest, in granting order.
func (p *problem) grantMinimums() []int64 {
	granted := make([]int64, len(p.targets))
	if len(p.scarce) == 0 {
		for i, t := range p.targets {
			granted[i] = t.min
		}
		return granted
	}
	left := p.total
	for _, i := range p.scarce {
		t := p.targets[i]
		granted[i] = min(t.min, t.current, left)
		left -= granted[i]
	}
	for _, i := range p.scarce {
		more := min(p.targets[i].min-granted[i], left)
		granted[i] += more
		left -= more
	}
	return granted
}

// desire is the layout without regard to capacities. What is placed is the lower bound if the total
// suffices for it, else the upper one.
func (p *problem) desire(granted, keep []int64) []int64 {
	claims := make([]Claim, len(p.targets))
	grows := p.total >= sum(keep)
	for i, t := range p.targets {
		switch {
		case !grows:
			claims[i] = p.claim(i, granted[i], keep[i])
		case t.weight == 0:
			claims[i] = p.claim(i, keep[i], keep[i])
		default:
			claims[i] = p.claim(i, keep[i], t.max)
		}
	}
	values, _ := p.spread(claims)
	return values
}

func (p *problem) claim(i int, low, high int64) Claim {
	t := p.targets[i]
	c := Claim{Weight: t.weight, Low: low, High: high}
	if p.additive {
		c.Offset = t.min
	}
	return c
}

// spread shares the total by the policy. wanting reports whether a target at its upper bound would
// get more if the bound were higher.
func (p *problem) spread(claims []Claim) (values []int64, wanting func(i int) bool) {
	if p.policy == Priority {
		return fill(p.total, claims)
	}
	return spread(p.total, claims, p.rounding)
}

func sum(values []int64) int64 {
	var s int64
	for _, v := range values {
		s += v
	}
	return s
}
