package apportion

// Rounding is how exact shares become whole numbers.
type Rounding string

const (
	// LargestRemainder (Hamilton) stays nearest to the exact shares. Default.
	LargestRemainder Rounding = "LargestRemainder"
	// Webster (Sainte-Laguë) never takes a unit away from a claim because the total grew.
	Webster Rounding = "Webster"
	// DHondt (Jefferson) is monotone like Webster and favours large weights.
	DHondt Rounding = "DHondt"
)

// Claim is a claim to a part of a total. Its value lies between Low and High. The numbers have to
// satisfy 0 <= Offset <= Low <= High; numbers that do not are changed to the nearest ones that do,
// where Low takes precedence over High and Offset.
type Claim struct {
	// Weight is the share relative to other claims; a negative one counts as 0.
	Weight int64
	// Offset is the part of the value that does not count as share: with the minimum as offset, the
	// share comes on top of it.
	Offset int64
	// Low is what the claim gets at least, even if the total is smaller.
	Low int64
	// High is what the claim gets at most; math.MaxInt64 means no bound.
	High int64
}

func (c Claim) normal() Claim {
	c.Weight = max(c.Weight, 0)
	c.Low = max(c.Low, 0)
	c.High = max(c.High, c.Low)
	c.Offset = min(max(c.Offset, 0), c.Low)
	return c
}

// Spread shares the total among the claims in proportion to their weights and returns a value for
// each. Every claim starts from Low. What is left of the total is added, up to High, so that the
// values without their offsets are in proportion as far as bounds and whole numbers allow. Claims
// of weight 0 get more than Low only if no other claim has room; they share equally then. Ties are
// broken by the order of the slice. The values sum to the total, unless the sum of all Low exceeds
// it or the sum of all High falls short of it.
//
//   - LargestRemainder: the exact values are t = clamp(Offset + L*Weight, Low, High) with the
//     multiplier L that makes them sum to the total. Each claim gets t rounded down; the units that
//     are left go to the largest fractions.
//   - Webster and DHondt: unit after unit goes to the claim with the largest Weight/(2s+1) or
//     Weight/(s+1), where s is its value minus Offset.
//
// An unknown rounding means LargestRemainder. The cost is O(k log k) for k claims, whatever the
// numbers are.
func Spread(total int64, claims []Claim, r Rounding) []int64 {
	values, _ := spread(total, claims, r)
	return values
}

// Fill gives the total to the claims in the order of the slice: every claim starts from Low, then
// each in turn is filled up to High while something is left. Claims of weight 0 come after all
// others; other weights and offsets do not matter.
func Fill(total int64, claims []Claim) []int64 {
	values, _ := fill(total, claims)
	return values
}

// fill is Fill. wanting reports whether a claim at its High would get more if that were higher.
func fill(total int64, claims []Claim) (values []int64, wanting func(i int) bool) {
	values, left := lows(total, claims)
	passedOn := make([]int64, len(claims))
	for _, weightless := range []bool{false, true} {
		for i, c := range claims {
			if (c.Weight <= 0) == weightless {
				more := min(left, c.normal().High-values[i])
				values[i] += more
				left -= more
				passedOn[i] = left
			}
		}
	}
	return values, func(i int) bool { return passedOn[i] > 0 }
}

// lows are the values that the claims start from, and what they leave of the total.
func lows(total int64, claims []Claim) (values []int64, left int64) {
	values = make([]int64, len(claims))
	var sum uint64
	for i, c := range claims {
		values[i] = c.normal().Low
		sum = addUpTo(sum, uint64(values[i]))
	}
	if total <= 0 || uint64(total) <= sum {
		return values, 0
	}
	return values, total - int64(sum)
}

// spread is Spread. wanting reports whether a claim at its High would get more if that were higher
// (for LargestRemainder: whether its exact value would be larger, which may be lost in rounding).
func spread(total int64, claims []Claim, r Rounding) (values []int64, wanting func(i int) bool) {
	values, left := lows(total, claims)
	weighted, left := contest(claims, values, left, r, false)
	weightless, left := contest(claims, values, left, r, true)
	return values, func(i int) bool {
		c := claims[i].normal()
		seats := uint64(c.High - c.Offset)
		switch {
		case left > 0 || c.Weight > 0 && weightless != nil:
			return true
		case c.Weight > 0:
			return weighted != nil && weighted.reaches(i, uint64(c.Weight), seats)
		default:
			return weightless != nil && weightless.reaches(i, 1, seats)
		}
	}
}

// contest shares what is left among the claims that have a weight, or equally among those that have
// none, and adds it to their values. It returns how far that went (nil if no claim got anything),
// and what is left.
func contest(claims []Claim, values []int64, left int64, r Rounding, weightless bool) (extent, int64) {
	if left == 0 {
		return nil, 0
	}
	lots := make([]lot, 0, len(claims))
	var room uint64
	for i, c := range claims {
		c = c.normal()
		if (c.Weight == 0) != weightless || c.Low == c.High {
			continue
		}
		weight := uint64(max(c.Weight, 1))
		lots = append(lots, lot{claim: i, weight: weight, start: uint64(c.Low - c.Offset), end: uint64(c.High - c.Offset)})
		room = addUpTo(room, uint64(c.High-c.Low))
	}
	if len(lots) == 0 {
		return nil, left
	}
	units := min(uint64(left), room)
	reached := share(lots, units, r)
	for _, l := range lots {
		values[l.claim] += int64(l.seats - l.start)
	}
	return reached, left - int64(units)
}

// lot is a claim in seats: its value minus its offset.
type lot struct {
	claim      int
	weight     uint64 // 1 or more
	start, end uint64 // start < end
	seats      uint64 // the answer, start..end
	rest       wide   // the remainder of rounding down, over the weights of the multiplier
}

// extent is how far a contest went: reaches reports whether a claim of this weight with this many
// seats would get more.
type extent interface {
	reaches(claim int, weight, seats uint64) bool
}

// share gives out the units, which are at most as many as the lots have room for.
func share(lots []lot, units uint64, r Rounding) extent {
	m := findMultiplier(lots, units)
	switch r {
	case Webster:
		return oddDivisors.divide(m, lots, units)
	case DHondt:
		return allDivisors.divide(m, lots, units)
	default:
		largestRemainders(lots, units)
		return m
	}
}
