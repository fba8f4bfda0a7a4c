package apportion

// Reason is why a target has its replicas: the first of these that applies, in this order.
type Reason string

const (
	// ReasonCapacity: the target runs all that it is known to be able to run, and would run more
	// with a larger capacity. Usually a part of its share is pending (with Trim: was dropped). If
	// nothing is pending, the target has room for its own share but not for all that it could take
	// over or holds already, and the caller should add a probe. With LargestRemainder the exact
	// share decides, which may exceed the capacity by less than one.
	ReasonCapacity Reason = "capacity"
	// ReasonMax: the target runs as many as its maximum allows.
	ReasonMax Reason = "max"
	// ReasonMin: the target has a minimum and runs no more than that; under TotalWins it may run
	// less.
	ReasonMin Reason = "min"
	// ReasonSticky: the target runs as many as it has already, and would run more or less if
	// Rebalance were true.
	ReasonSticky Reason = "sticky"
	// ReasonOrder: the place of the target in the list, under policy Priority.
	ReasonOrder Reason = "order"
	// ReasonWeight: the weight of the target, or that it has none.
	ReasonWeight Reason = "weight"
)

// reason is the reason of a target. It compares the plan with the one in which nothing is placed
// yet, which is the same if replicas may move.
func (p *problem) reason(i int, plan, rebalanced plan) Reason {
	t, runs := p.targets[i], plan.runnable[i]
	switch {
	case t.known && runs == t.capacity && (plan.held[i] || plan.pending(i, t) > 0):
		return ReasonCapacity
	case runs == t.max:
		return ReasonMax
	case t.min > 0 && runs <= t.min:
		return ReasonMin
	case p.sticky && runs == t.current && runs != rebalanced.runnable[i]:
		return ReasonSticky
	case p.policy == Priority:
		return ReasonOrder
	default:
		return ReasonWeight
	}
}
