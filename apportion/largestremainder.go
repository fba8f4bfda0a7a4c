package apportion

import (
	"cmp"
	"slices"
)

// largestRemainders gives the units that rounding down left over to the lots
// with the largest rests, one each, equal rests in the order of the slice.
// There are always more rests than units: each rest is less than a unit.
func largestRemainders(lots []lot, units uint64) {
	left := units - given(lots)
	type remainder struct {
		rest wide
		lot  int
	}
	remainders := make([]remainder, 0, len(lots))
	for i, l := range lots {
		if l.rest != (wide{}) {
			remainders = append(remainders, remainder{l.rest, i})
		}
	}
	slices.SortFunc(remainders, func(a, b remainder) int {
		if order := b.rest.compare(a.rest); order != 0 {
			return order
		}
		return cmp.Compare(a.lot, b.lot)
	})
	for _, r := range remainders[:left] {
		lots[r.lot].seats++
	}
}

// given is how many units the lots have got so far.
func given(lots []lot) uint64 {
	var sum wide
	for _, l := range lots {
		sum = sum.plus(l.seats - l.start)
	}
	return sum.lo
}
