package apportion

import "slices"

// waterline is the level L = part/weights at which the exact shares
// clamp(L*weight, start, end) use up all units; the lowest where several do.
type waterline struct {
	part, weights wide
}

// breakpoint is the level seats/weight at which a lot reaches a bound.
type breakpoint struct{ seats, weight uint64 }

func (b breakpoint) compare(c breakpoint) int {
	return compareFractions(b.seats, b.weight, c.seats, c.weight)
}

// findWaterline sets the seats of all lots to their exact shares rounded down,
// and their rests. units is at least 1 and at most the room of all lots.
func findWaterline(lots []lot, units uint64) waterline {
	target := wide{}.plus(units)
	breaks := make([]breakpoint, 0, 2*len(lots))
	for _, l := range lots {
		target = target.plus(l.start)
		if l.start > 0 {
			breaks = append(breaks, breakpoint{l.start, l.weight})
		}
		breaks = append(breaks, breakpoint{l.end, l.weight})
	}
	slices.SortFunc(breaks, breakpoint.compare)
	// The waterline lies above the break point before and not above this one;
	// between the two no lot reaches a bound. At the last one all are full.
	first, _ := slices.BinarySearchFunc(breaks, target, func(b breakpoint, target wide) int {
		if sumReaches(lots, b, target) {
			return 1
		}
		return -1
	})
	bound := breaks[first]
	bounded, weights := sumAt(lots, bound)
	line := waterline{part: target.minus(bounded), weights: weights}
	for i := range lots {
		l := &lots[i]
		switch l.stateBelow(bound) {
		case full:
			l.seats = l.end
		case dry:
			l.seats = l.start
		default:
			l.seats, l.rest = multiplyDivide(line.part, l.weight, line.weights)
		}
	}
	return line
}

type state int

const (
	dry      state = iota // the waterline has not reached start
	floating              // start < share <= end
	full                  // the waterline is above end
)

// stateBelow is the state of the lot while the waterline lies between the break
// point b and the one before.
func (l *lot) stateBelow(b breakpoint) state {
	switch {
	case (breakpoint{l.end, l.weight}).compare(b) < 0:
		return full
	case (breakpoint{l.start, l.weight}).compare(b) < 0:
		return floating
	default:
		return dry
	}
}

// sumAt is what the bounded lots have below b, and the weight of the floating ones.
func sumAt(lots []lot, b breakpoint) (bounded, weights wide) {
	for i := range lots {
		switch l := &lots[i]; l.stateBelow(b) {
		case full:
			bounded = bounded.plus(l.end)
		case dry:
			bounded = bounded.plus(l.start)
		default:
			weights = weights.plus(l.weight)
		}
	}
	return bounded, weights
}

// sumReaches tells whether the shares at the level b sum to the target or more.
func sumReaches(lots []lot, b breakpoint, target wide) bool {
	bounded, weights := sumAt(lots, b)
	if bounded.compare(target) >= 0 {
		return true
	}
	return compareProducts(weights, b.seats, target.minus(bounded), b.weight) >= 0
}

// reaches tells whether the exact share of this weight exceeds the seats.
func (w waterline) reaches(_ int, weight, seats uint64) bool {
	return compareProducts(w.part, weight, w.weights, seats) > 0
}
