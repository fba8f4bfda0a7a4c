package apportion

// relieve computes the runnable layout: each target has what runs of its desired share, and the
// targets that may take over get what cannot run. If less is placed and able to run than the total,
// targets grow. Otherwise they shrink, and no target takes anything over.
func (p *problem) relieve(keep, desired []int64) plan {
	runs := make([]int64, len(p.targets)) // what is placed and runs
	for i, t := range p.targets {
		runs[i] = min(keep[i], t.capacity)
	}
	placed := sum(runs)
	grows := p.total >= placed

	claims := make([]Claim, len(p.targets))
	for i, t := range p.targets {
		own := min(desired[i], t.capacity)
		if grows {
			claims[i] = p.claim(i, max(own, runs[i]), min(t.max, t.capacity))
			if !p.relieves(t) {
				claims[i].High = max(claims[i].Low, min(t.taken, claims[i].High))
			}
		} else {
			claims[i] = p.claim(i, own, runs[i])
		}
	}
	stretches := func(i int) bool { return p.stretches(p.targets[i], grows, keep[i]) }
	result := plan{held: p.completeMinimums(claims, stretches)}
	if grows {
		for i, t := range p.targets {
			if t.weight == 0 {
				claims[i].High = claims[i].Low
			}
		}
	}
	runnable, wanting := p.spread(claims)
	result.runnable = runnable
	for i, t := range p.targets {
		switch {
		case p.total > placed && keep[i] > t.capacity:
			result.held[i] = true
		case runnable[i] < t.capacity || !wanting(i):
		default:
			result.held[i] = result.held[i] || stretches(i) && (t.weight > 0 || !grows)
		}
	}
	result.assigned = desired
	if p.policy == Priority && p.relief != HealthyOnly {
		result.assigned = p.offered(keep, desired, runnable, claims, grows)
	}
	return result
}

// relieves reports whether the target may take over more of what others cannot run.
func (p *problem) relieves(t target) bool {
	return p.relief != HealthyOnly || !t.known
}

// stretches reports whether a larger capacity would raise the upper bound of a target: what keeps all
// that it took over would have taken over more, and where targets shrink none gets more than it has.
func (p *problem) stretches(t target, grows bool, keep int64) bool {
	if !grows {
		return t.capacity < keep
	}
	return t.capacity < t.max && (p.relieves(t) || t.taken >= t.capacity)
}

// completeMinimums raises the lower bounds, in granting order, to the minimums that were not
// granted but can be met now because others cannot run theirs. It returns which targets only their
// capacity holds back.
func (p *problem) completeMinimums(claims []Claim, stretches func(i int) bool) (held []bool) {
	held = make([]bool, len(claims))
	left := p.total
	for _, c := range claims {
		left -= c.Low
	}
	for _, i := range p.scarce {
		t, c := p.targets[i], &claims[i]
		more := min(left, max(0, min(t.min, c.High)-c.Low))
		c.Low += more
		left -= more
		held[i] = left > 0 && c.Low < t.min && c.Low == t.capacity && stretches(i)
	}
	return held
}

// offered is what is assigned under Priority with relief Any: all that reaches a target on the way
// down the list. So what several blocked targets pass on is pending on each of them.
func (p *problem) offered(keep, desired, runnable []int64, claims []Claim, grows bool) []int64 {
	assigned := make([]int64, len(desired))
	reaching := p.total // less what runs before and what is reserved after
	for _, c := range claims {
		reaching -= c.Low
	}
	for i, t := range p.targets {
		reaching += claims[i].Low
		most := t.max
		switch {
		case t.weight == 0:
			most = desired[i]
		case !grows:
			most = keep[i]
		}
		assigned[i] = max(desired[i], min(most, reaching))
		reaching -= runnable[i]
	}
	return assigned
}

// cascade passes what a target cannot run down the list.
func (p *problem) cascade(desired []int64) plan {
	result := plan{
		runnable: make([]int64, len(desired)),
		assigned: make([]int64, len(desired)),
		held:     make([]bool, len(desired)),
	}
	var carry int64
	for i, t := range p.targets {
		most := t.max
		if t.weight == 0 {
			most = max(t.min, desired[i])
		}
		result.assigned[i] = min(most, desired[i]+carry)
		result.runnable[i] = min(result.assigned[i], t.capacity)
		carry += desired[i] - result.runnable[i]
	}
	return result
}
