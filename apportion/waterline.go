package apportion

import "slices"

// waterline is the level L = part/weights at which the exact shares
// clamp(L*weight, start, end) use up all units; the lowest where several do.
type waterline struct {
	part, weights wide
}

// reaches tells whether the exact share of this weight exceeds the seats.
func (w waterline) reaches(_ int, weight, seats uint64) bool {
	return compareProducts(w.part, weight, w.weights, seats) > 0
}

// findWaterline sets the seats of all lots to their exact shares rounded down,
// and their rests. units is at least 1 and at most the room of all lots.
func findWaterline(lots []lot, units uint64) waterline {
	t, breaks := newTide(lots, units)
	t.riseThrough(breaks)
	line := waterline{part: t.target.minus(t.bounded), weights: t.weights}
	for i := range lots {
		l := &lots[i]
		switch t.states[i] {
		case dry:
			l.seats = l.start
		case full:
			l.seats = l.end
		default:
			l.seats, l.rest = multiplyDivide(line.part, l.weight, line.weights)
		}
	}
	return line
}

// tide is the rising water: the shares of the floating lots grow with the
// level, those of all others stand at a bound.
type tide struct {
	target  wide // what the shares have to sum to
	bounded wide // the seats of dry and full lots
	weights wide // the weights of floating lots
	states  []state
}

// state is how a lot stands to the water.
type state uint8

const (
	dry      state = iota // not above its start: it has start
	floating              // it has its share of the level
	full                  // above its end: it has end
)

// breakpoint is the level seats/weight at which a lot changes its state.
type breakpoint struct {
	seats, weight uint64
	lot           int32
	state         state // from here on
}

func (b breakpoint) compare(other breakpoint) int {
	return compareFractions(b.seats, b.weight, other.seats, other.weight)
}

// newTide is the water at level 0, and the break points it can come to.
func newTide(lots []lot, units uint64) (*tide, []breakpoint) {
	t := &tide{target: wide{}.plus(units), states: make([]state, len(lots))}
	breaks := make([]breakpoint, 0, 2*len(lots))
	for i, l := range lots {
		t.target, t.bounded = t.target.plus(l.start), t.bounded.plus(l.start)
		start := breakpoint{l.start, l.weight, int32(i), floating}
		if l.start == 0 {
			t.pass(start)
		} else {
			breaks = append(breaks, start)
		}
		breaks = append(breaks, breakpoint{l.end, l.weight, int32(i), full})
	}
	return t, breaks
}

// riseThrough lets the water rise through the break points that are below the
// waterline. First it halves their number again and again, roughly, at a cost
// in proportion to it; only the few that remain have to be sorted.
func (t *tide) riseThrough(breaks []breakpoint) {
	for rounds := halvings(len(breaks)); rounds > 0 && len(breaks) > few; rounds-- {
		pivot := breaks[len(breaks)/2]
		less, equal := partition(breaks, pivot, breakpoint.compare)
		below := *t
		for _, b := range breaks[:less] {
			below.count(b)
		}
		if below.suffices(pivot) {
			breaks = breaks[:less+1]
			continue
		}
		for _, b := range breaks[:less+equal] {
			t.pass(b)
		}
		breaks = breaks[less+equal:]
	}
	slices.SortFunc(breaks, breakpoint.compare)
	for _, b := range breaks {
		if t.suffices(b) {
			break
		}
		t.pass(b)
	}
}

// suffices tells whether the shares sum to the target or more when the level
// reaches b, all break points below having been passed. At the last one they do:
// all lots are full then.
func (t *tide) suffices(b breakpoint) bool {
	return t.bounded.compare(t.target) >= 0 ||
		compareProducts(t.weights, b.seats, t.target.minus(t.bounded), b.weight) >= 0
}

// pass lets the level rise above b, and above others in any order: of the two
// points of one lot the later state holds.
func (t *tide) pass(b breakpoint) {
	t.count(b)
	t.states[b.lot] = max(t.states[b.lot], b.state)
}

// count changes the sums, not the states, as the level rises above b. They wrap
// around while the later point of a lot has been counted without the earlier.
func (t *tide) count(b breakpoint) {
	if b.state == floating {
		t.bounded = t.bounded.minus(wide{0, b.seats})
		t.weights = t.weights.plus(b.weight)
	} else {
		t.bounded = t.bounded.plus(b.seats)
		t.weights = t.weights.minus(wide{0, b.weight})
	}
}
