package apportion

import "slices"

// largestRemainders gives the units that rounding down left over to the lots
// with the largest rests, one each, equal rests in the order of the slice.
// There are always more rests than units: each rest is less than a unit.
func (w waterline) largestRemainders(lots []lot, units uint64) {
	left := units - given(lots)
	if left == 0 {
		return
	}
	byRest := make([]int, len(lots))
	for i := range byRest {
		byRest[i] = i
	}
	slices.SortStableFunc(byRest, func(i, j int) int { return lots[j].rest.compare(lots[i].rest) })
	for _, i := range byRest[:left] {
		lots[i].seats++
	}
}

// given is how many units the lots have got so far.
func given(lots []lot) uint64 {
	var sum wide
	for _, l := range lots {
		sum = sum.plus(l.seats).minus(wide{0, l.start})
	}
	return sum.lo
}
