package apportion

import "math"

// Quota bounds a sum over some bins: the cores of a zone, or the number of all nodes. The sum over
// Members of Units[k] times the size of bin Members[k] must not exceed Limit. What the bins hold
// already counts.
type Quota struct {
	// Members are indexes into the bins, each at most once.
	Members []int
	// Units is what a unit in the member of the same position counts, 0 or more; nil counts 1 each.
	// A member that counts 0 is not bounded.
	Units []int64
	// Limit is 0 or more; if it is exceeded already, no member grows.
	Limit int64
}

// counts is what a unit in the k-th member counts.
func (c Quota) counts(k int) int64 {
	if c.Units == nil {
		return 1
	}
	return c.Units[k]
}

// usage tracks what is left of the quotas while bins grow.
type usage struct {
	quotas  []remaining
	charges [][]charge // by bin
}

// remaining is what is left of a quota, and how much of that one more unit in each of the rising
// bins uses.
type remaining struct {
	left  uint64
	slope wide
}

// charge is what a unit in a bin counts against a quota.
type charge struct {
	quota int
	units uint64
}

func newUsage(bins []Bin, quotas []Quota) usage {
	if len(quotas) == 0 {
		return usage{}
	}
	u := usage{quotas: make([]remaining, len(quotas)), charges: make([][]charge, len(bins))}
	for index, c := range quotas {
		var used uint64
		for k, member := range c.Members {
			units := uint64(c.counts(k))
			if units > 0 {
				u.charges[member] = append(u.charges[member], charge{index, units})
			}
			used = addUpTo(used, multiplyUpTo(units, uint64(bins[member].Size)))
		}
		if limit := uint64(c.Limit); used < limit {
			u.quotas[index].left = limit - used
		}
	}
	return u
}

// chargesOf are the charges of a bin; empty if there are no quotas.
func (u *usage) chargesOf(bin int) []charge {
	if u.charges == nil {
		return nil
	}
	return u.charges[bin]
}

// firstFull is the first quota without room for one more unit in the bin, or -1.
func (u *usage) firstFull(bin int) int {
	for _, charge := range u.chargesOf(bin) {
		if u.quotas[charge.quota].left < charge.units {
			return charge.quota
		}
	}
	return -1
}

func (u *usage) fits(bin int) bool { return u.firstFull(bin) < 0 }

func (u *usage) use(bin int) {
	for _, charge := range u.chargesOf(bin) {
		u.quotas[charge.quota].left -= charge.units
	}
}

// join and leave update the slopes when a bin begins or stops rising.
func (u *usage) join(bin int) {
	for _, charge := range u.chargesOf(bin) {
		c := &u.quotas[charge.quota]
		c.slope = c.slope.plus(charge.units)
	}
}

func (u *usage) leave(bin int) {
	for _, charge := range u.chargesOf(bin) {
		c := &u.quotas[charge.quota]
		c.slope = c.slope.minus(wide{0, charge.units})
	}
}

// headroom is how far all rising bins can rise together under every quota.
func (u *usage) headroom() int64 {
	room := uint64(math.MaxInt64)
	for _, c := range u.quotas {
		switch {
		case c.slope.hi > 0:
			return 0 // no limit is that large
		case c.slope.lo > 0:
			room = min(room, c.left/c.slope.lo)
		}
	}
	return int64(room)
}

// rise takes what all rising bins use when each of them rises by step units.
func (u *usage) rise(step int64) {
	for i := range u.quotas {
		u.quotas[i].left -= uint64(step) * u.quotas[i].slope.lo
	}
}

func validateLevel(n int64, bins []Bin, quotas []Quota) error {
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
	if len(quotas) == 0 {
		return nil
	}
	seen := make([]int, len(bins)) // the last quota with the bin, plus 1
	for i, c := range quotas {
		if err := validateQuota(i, c, seen); err != nil {
			return err
		}
	}
	return nil
}

func validateQuota(index int, c Quota, seen []int) error {
	if c.Limit < 0 {
		return invalid(c.Limit, notNegative, "quotas[%d].limit", index)
	}
	if c.Units != nil && len(c.Units) != len(c.Members) {
		return invalid(len(c.Units), "must be as many as members", "quotas[%d].units", index)
	}
	for k, member := range c.Members {
		switch {
		case member < 0 || member >= len(seen):
			return invalid(member, "is not the index of a bin", "quotas[%d].members[%d]", index, k)
		case seen[member] == index+1:
			return invalid(member, "must not be repeated", "quotas[%d].members[%d]", index, k)
		case c.counts(k) < 0:
			return invalid(c.Units[k], notNegative, "quotas[%d].units[%d]", index, k)
		}
		seen[member] = index + 1
	}
	return nil
}
