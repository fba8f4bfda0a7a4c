package apportion

import "cmp"

// largestRemainders gives the units that rounding down left over to the lots with the largest
// remainders, one each, and equal remainders in the order of the slice. There are always more
// remainders than units, because each is less than a unit. The function changes the order of the
// slice.
func largestRemainders(lots []lot, units uint64) {
	left := int(units - given(lots))
	bringForward(left, lots, func(a, b lot) int {
		if order := b.rest.compare(a.rest); order != 0 {
			return order
		}
		return cmp.Compare(a.claim, b.claim)
	})
	for i := range lots[:left] {
		lots[i].seats++
	}
}

// given is how many units the lots have so far.
func given(lots []lot) uint64 {
	var sum wide
	for _, l := range lots {
		sum = sum.plus(l.seats - l.start)
	}
	return sum.lo
}
