package apportion

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// nested reports whether any two of the quotas are disjoint or one lies within the other, and each
// counts all of its members alike. Then [Level] is exact: it places as many units as any layout
// could. Members that count 0 are not members here.
func nested(quotas []Quota) bool {
	members := make([][]int, 0, len(quotas))
	for _, c := range quotas {
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
	// From the largest to the smallest: a set crosses no earlier one exactly if the smallest sets
	// met so far around its members are one and the same.
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

// everyLayout calls visit with every layout the bounds and quotas allow.
func everyLayout(n int64, bins []Bin, quotas []Quota, visit func(placed, squares int64)) {
	sizes := make([]int64, len(bins))
	var place func(i int, left int64)
	place = func(i int, left int64) {
		if i == len(bins) {
			if !exceeds(sizes, bins, quotas) {
				var squares int64
				for _, size := range sizes {
					squares += size * size
				}
				visit(n-left, squares)
			}
			return
		}
		for more := int64(0); more == 0 || more <= left && bins[i].Size+more <= bins[i].Max; more++ {
			sizes[i] = bins[i].Size + more
			place(i+1, left-more)
		}
	}
	place(0, n)
}

// exceeds reports whether sizes exceed a quota and a member of it has grown.
func exceeds(sizes []int64, bins []Bin, quotas []Quota) bool {
	for _, c := range quotas {
		var used int64
		grown := false
		for k, member := range c.Members {
			used += c.counts(k) * sizes[member]
			grown = grown || c.counts(k) > 0 && sizes[member] > bins[member].Size
		}
		if grown && used > c.Limit {
			return true
		}
	}
	return false
}

// With nested quotas no layout places more units, and none that places as many is more even.
func TestLevelIsOptimalUnderNestedQuotas(t *testing.T) {
	forAll(t, 3_000, func(d dice) error {
		bins := make([]Bin, 1+d(4))
		for i := range bins {
			bins[i] = Bin{Size: int64(d(4)), Max: int64(d(7))}
		}
		quotas := d.nestedQuotas(len(bins))
		if !nested(quotas) {
			return fmt.Errorf("%v are nested", quotas)
		}
		n := int64(d(10))
		got, err := Level(n, bins, quotas)
		if err != nil {
			return err
		}
		var squares int64
		for _, size := range got.Sizes {
			squares += size * size
		}
		most, least := int64(-1), int64(0)
		everyLayout(n, bins, quotas, func(placed, squares int64) {
			if placed > most || placed == most && squares < least {
				most, least = placed, squares
			}
		})
		if n-got.Unplaced != most || squares != least || exceeds(got.Sizes, bins, quotas) {
			return fmt.Errorf("%d over %v under %v: %v, best places %d with squares %d", n, bins, quotas, got, most, least)
		}
		return nil
	})
}

// With minimums the number of units placed is still the greatest there is.
func TestLevelPlacesTheMostUnderNestedCapsAndMinimums(t *testing.T) {
	forAll(t, 3_000, func(d dice) error {
		bins := make([]Bin, 1+d(4))
		for i := range bins {
			bins[i] = Bin{Size: int64(d(4)), Max: int64(d(7))}
			bins[i].Min = int64(d(int(bins[i].Max) + 1))
		}
		quotas := d.nestedQuotas(len(bins))
		n := int64(d(10))
		got, err := Level(n, bins, quotas)
		if err != nil {
			return err
		}
		most := int64(-1)
		everyLayout(n, bins, quotas, func(placed, _ int64) { most = max(most, placed) })
		if n-got.Unplaced != most {
			return fmt.Errorf("%d over %v under %v: %v, best places %d", n, bins, quotas, got, most)
		}
		return nil
	})
}

// Whatever the quotas are, crossing or not, none is exceeded by what was added.
func TestLevelExceedsNoCap(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		n, bins, quotas := d.levelling()
		got, err := Level(n, bins, quotas)
		if err != nil {
			return err
		}
		if exceeds(got.Sizes, bins, quotas) {
			return fmt.Errorf("%d over %v: %v exceeds %v", n, bins, got.Sizes, quotas)
		}
		return nil
	})
}

// Nested agrees with the definition, pair by pair.
func TestNestedEqualsPairwise(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		var quotas []Quota
		for range 1 + d(4) {
			var c Quota
			for member := range 5 {
				if d(2) == 0 {
					c.Members = append(c.Members, member)
				}
			}
			quotas = append(quotas, c)
		}
		want := true
		for _, a := range quotas {
			for _, b := range quotas {
				common := 0
				for _, member := range a.Members {
					if slices.Contains(b.Members, member) {
						common++
					}
				}
				want = want && (common == 0 || common == len(a.Members) || common == len(b.Members))
			}
		}
		if got := nested(quotas); got != want {
			return fmt.Errorf("nested(%v) = %v", quotas, got)
		}
		return nil
	})
}
