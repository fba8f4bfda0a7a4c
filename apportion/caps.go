package apportion

import (
	"cmp"
	"math"
	"slices"
)

// Cap bounds a sum over some bins: a quota, the cores of a zone, a limit on
// all nodes. The sum over Members of Units[k] times the size of bin
// Members[k] must not exceed Limit. What the bins hold already counts.
type Cap struct {
	// Members are indexes into the bins, each at most once.
	Members []int
	// Units is what one unit in the bin of the same position counts, 0 or
	// more; nil counts 1 each. A member that counts 0 is not bounded.
	Units []int64
	// Limit is 0 or more; where it is exceeded already, no member grows.
	Limit int64
}

// counts is what one unit in the k-th member counts.
func (c Cap) counts(k int) int64 {
	if c.Units == nil {
		return 1
	}
	return c.Units[k]
}

// Nested tells whether any two of the caps are disjoint or one lies within the
// other, and each counts all of its members alike. Then [Level] is exact:
// it places as many units as any layout could. Members that count 0 are no
// members here.
func Nested(caps []Cap) bool {
	members := make([][]int, 0, len(caps))
	for _, c := range caps {
		var bounded []int
		counts := int64(0)
		for k, member := range c.Members {
			units := c.counts(k)
			if units == 0 {
				continue
			}
			if counts != 0 && units != counts {
				return false
			}
			counts = units
			bounded = append(bounded, member)
		}
		members = append(members, bounded)
	}
	// From the largest to the smallest: a set crosses no earlier one exactly
	// if the smallest sets met so far around its members are one and the same.
	slices.SortStableFunc(members, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	around := map[int]int{}
	for set, bounded := range members {
		for _, member := range bounded {
			if around[member] != around[bounded[0]] {
				return false
			}
		}
		for _, member := range bounded {
			around[member] = set + 1
		}
	}
	return true
}

// quotas keeps the books of the caps while bins grow.
type quotas struct {
	caps    []quota
	charges [][]charge // of each bin
}

// quota is one cap: what is left of it, and what one unit more in each of the
// rising bins would use of that.
type quota struct {
	left  uint64
	slope wide
}

// charge is what one unit in a bin counts against a cap.
type charge struct {
	cap   int
	units uint64
}

func newQuotas(bins []Bin, caps []Cap) quotas {
	if len(caps) == 0 {
		return quotas{}
	}
	q := quotas{caps: make([]quota, len(caps)), charges: make([][]charge, len(bins))}
	for index, c := range caps {
		var used uint64
		for k, member := range c.Members {
			units := uint64(c.counts(k))
			if units > 0 {
				q.charges[member] = append(q.charges[member], charge{index, units})
			}
			used = addUpTo(used, multiplyUpTo(units, uint64(bins[member].Size)))
		}
		if limit := uint64(c.Limit); used < limit {
			q.caps[index].left = limit - used
		}
	}
	return q
}

// chargesOf is empty where there are no caps at all.
func (q *quotas) chargesOf(bin int) []charge {
	if q.charges == nil {
		return nil
	}
	return q.charges[bin]
}

// firstFull is the first cap without room for one more unit in the bin, or -1.
func (q *quotas) firstFull(bin int) int {
	for _, charge := range q.chargesOf(bin) {
		if q.caps[charge.cap].left < charge.units {
			return charge.cap
		}
	}
	return -1
}

func (q *quotas) fits(bin int) bool { return q.firstFull(bin) < 0 }

func (q *quotas) take(bin int) {
	for _, charge := range q.chargesOf(bin) {
		q.caps[charge.cap].left -= charge.units
	}
}

// join and leave keep the slopes when a bin begins and ceases to rise.
func (q *quotas) join(bin int) {
	for _, charge := range q.chargesOf(bin) {
		c := &q.caps[charge.cap]
		c.slope = c.slope.plus(charge.units)
	}
}

func (q *quotas) leave(bin int) {
	for _, charge := range q.chargesOf(bin) {
		c := &q.caps[charge.cap]
		c.slope = c.slope.minus(wide{0, charge.units})
	}
}

// headroom is how far all rising bins can rise together under every cap.
func (q *quotas) headroom() int64 {
	room := uint64(math.MaxInt64)
	for _, c := range q.caps {
		switch {
		case c.slope.hi > 0:
			return 0 // no limit is that large
		case c.slope.lo > 0:
			room = min(room, c.left/c.slope.lo)
		}
	}
	return int64(room)
}

// rise takes what all rising bins use when they rise by so many units each.
func (q *quotas) rise(step int64) {
	for i := range q.caps {
		q.caps[i].left -= uint64(step) * q.caps[i].slope.lo
	}
}

func validateLevel(n int64, bins []Bin, caps []Cap) error {
	if n < 0 {
		return invalid(n, notNegative, "n")
	}
	for i, bin := range bins {
		switch {
		case bin.Size < 0:
			return invalid(bin.Size, notNegative, "bins[%d].size", i)
		case bin.Min < 0:
			return invalid(bin.Min, notNegative, "bins[%d].min", i)
		case bin.Max < 0:
			return invalid(bin.Max, notNegative, "bins[%d].max", i)
		case bin.Min > bin.Max:
			return invalid(bin.Min, "must not be greater than max", "bins[%d].min", i)
		}
	}
	if len(caps) == 0 {
		return nil
	}
	seen := make([]int, len(bins)) // the last cap a bin was found in, plus 1
	for i, c := range caps {
		if err := validateCap(i, c, seen); err != nil {
			return err
		}
	}
	return nil
}

func validateCap(index int, c Cap, seen []int) error {
	if c.Limit < 0 {
		return invalid(c.Limit, notNegative, "caps[%d].limit", index)
	}
	if c.Units != nil && len(c.Units) != len(c.Members) {
		return invalid(len(c.Units), "must be as many as members", "caps[%d].units", index)
	}
	for k, member := range c.Members {
		switch {
		case member < 0 || member >= len(seen):
			return invalid(member, "is no index of a bin", "caps[%d].members[%d]", index, k)
		case seen[member] == index+1:
			return invalid(member, "must not be repeated", "caps[%d].members[%d]", index, k)
		case c.counts(k) < 0:
			return invalid(c.Units[k], notNegative, "caps[%d].units[%d]", index, k)
		}
		seen[member] = index + 1
	}
	return nil
}
