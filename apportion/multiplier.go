package apportion

import "slices"

// multiplier is the L = part/weights at which the exact shares clamp(L*weight, start, end) use up
// all units; the lowest one if several do.
type multiplier struct {
	part, weights wide
}

// reaches reports whether the exact share of this weight exceeds the seats.
func (m multiplier) reaches(_ int, weight, seats uint64) bool {
	return compareProducts(m.part, weight, m.weights, seats) > 0
}

// findMultiplier sets the seats of all lots to their exact shares rounded down, and their rests.
// The number of units is at least 1 and at most the room of all lots.
func findMultiplier(lots []lot, units uint64) multiplier {
	s, breaks := newSearch(lots, units)
	s.advance(breaks)
	m := multiplier{part: s.target.minus(s.bounded), weights: s.weights}
	for i := range lots {
		l := &lots[i]
		switch s.states[i] {
		case atStart:
			l.seats = l.start
		case atEnd:
			l.seats = l.end
		default:
			l.seats, l.rest = multiplyDivide(m.part, l.weight, m.weights)
		}
	}
	return m
}

// search finds the multiplier by raising it from 0. The shares of the lots in between grow with it;
// all other lots are at a bound.
type search struct {
	target  wide // the sum that the shares have to reach
	bounded wide // the seats of the lots at a bound
	weights wide // the weights of the lots in between
	states  []state
}

// state is whether a lot is at a bound.
type state uint8

const (
	atStart state = iota // the exact share is not above start
	between              // the exact share lies between start and end
	atEnd                // the exact share is not below end
)

// breakpoint is the multiplier seats/weight at which a lot changes its state.
type breakpoint struct {
	seats, weight uint64
	lot           int32
	state         state // from here on
}

func (b breakpoint) compare(other breakpoint) int {
	return compareFractions(b.seats, b.weight, other.seats, other.weight)
}

// newSearch returns a search at multiplier 0, with the breakpoints above it.
func newSearch(lots []lot, units uint64) (*search, []breakpoint) {
	s := &search{target: wide{}.plus(units), states: make([]state, len(lots))}
	breaks := make([]breakpoint, 0, 2*len(lots))
	for i, l := range lots {
		s.target, s.bounded = s.target.plus(l.start), s.bounded.plus(l.start)
		start := breakpoint{l.start, l.weight, int32(i), between}
		if l.start == 0 {
			s.pass(start)
		} else {
			breaks = append(breaks, start)
		}
		breaks = append(breaks, breakpoint{l.end, l.weight, int32(i), atEnd})
	}
	return s, breaks
}

// advance passes the breakpoints below the multiplier. It roughly halves their number again and
// again, at a cost in proportion to it; only the few that remain have to be sorted.
func (s *search) advance(breaks []breakpoint) {
	for rounds := halvings(len(breaks)); rounds > 0 && len(breaks) > few; rounds-- {
		pivot := breaks[len(breaks)/2]
		less, equal := partition(breaks, pivot, breakpoint.compare)
		below := *s
		for _, b := range breaks[:less] {
			below.count(b)
		}
		if below.suffices(pivot) {
			breaks = breaks[:less+1]
			continue
		}
		for _, b := range breaks[:less+equal] {
			s.pass(b)
		}
		breaks = breaks[less+equal:]
	}
	slices.SortFunc(breaks, breakpoint.compare)
	for _, b := range breaks {
		if s.suffices(b) {
			break
		}
		s.pass(b)
	}
}

// suffices reports whether the shares reach the target when the multiplier reaches b, with all
// breakpoints below passed. At the last breakpoint they do, because all lots are at their end then.
func (s *search) suffices(b breakpoint) bool {
	return s.bounded.compare(s.target) >= 0 ||
		compareProducts(s.weights, b.seats, s.target.minus(s.bounded), b.weight) >= 0
}

// pass raises the multiplier above b. Breakpoints may be passed in any order: of the two of a lot,
// the later state holds.
func (s *search) pass(b breakpoint) {
	s.count(b)
	s.states[b.lot] = max(s.states[b.lot], b.state)
}

// count updates the sums, but not the states, for a multiplier above b. The sums wrap around while
// the later breakpoint of a lot has been counted without the earlier one.
func (s *search) count(b breakpoint) {
	if b.state == between {
		s.bounded = s.bounded.minus(wide{0, b.seats})
		s.weights = s.weights.plus(b.weight)
	} else {
		s.bounded = s.bounded.plus(b.seats)
		s.weights = s.weights.minus(wide{0, b.weight})
	}
}
