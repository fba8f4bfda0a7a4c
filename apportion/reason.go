package apportion

// Reason is why a target ended where it did: the first of these that applies,
// in the order they stand here.
type Reason string

const (
	// ReasonCapacity: the target runs all it is known to be able to, and would
	// run more with a larger capacity. Usually part of what is assigned to it is
	// pending (with Trim: was dropped); where nothing is pending it had room for
	// its own share but not for all it could take over or holds already, and an
	// adapter writes a probe. With LargestRemainder the exact share decides,
	// which may exceed the capacity by less than rounding gives.
	ReasonCapacity Reason = "capacity"
	// ReasonMax: as many run as its max allows.
	ReasonMax Reason = "max"
	// ReasonMin: it has a min, and no more than that runs; less where the total
	// wins and did not suffice.
	ReasonMin Reason = "min"
	// ReasonSticky: as many run as it has already, and it is Rebalance false
	// that kept it from moving; otherwise it would have got more or less.
	ReasonSticky Reason = "sticky"
	// ReasonOrder: its place in the list, policy Priority.
	ReasonOrder Reason = "order"
	// ReasonWeight: its weight, or that it has none.
	ReasonWeight Reason = "weight"
)

// reason compares the plan with the one in which nothing was placed yet; the
// two are the same where replicas may move.
func (p *problem) reason(i int, plan, rebalanced plan) Reason {
	t, runs := p.targets[i], plan.runnable[i]
	switch {
	case t.known && runs == t.cap && (plan.held[i] || plan.pending(i, t) > 0):
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
