package apportion

import (
	"fmt"
	"slices"
	"testing"
)

// everyLayout calls visit with every layout the bounds and caps allow.
func everyLayout(n int64, bins []Bin, caps []Cap, visit func(placed, squares int64)) {
	sizes := make([]int64, len(bins))
	var place func(i int, left int64)
	place = func(i int, left int64) {
		if i == len(bins) {
			if !exceeds(sizes, bins, caps) {
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

// exceeds tells whether sizes break a cap and a member of it has grown.
func exceeds(sizes []int64, bins []Bin, caps []Cap) bool {
	for _, c := range caps {
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

// With nested caps no layout places more units, and none that places as many is more even.
func TestLevelIsOptimalUnderNestedCaps(t *testing.T) {
	forAll(t, 3_000, func(d dice) error {
		bins := make([]Bin, 1+d(4))
		for i := range bins {
			bins[i] = Bin{Size: int64(d(4)), Max: int64(d(7))}
		}
		caps := d.nestedCaps(len(bins))
		if !Nested(caps) {
			return fmt.Errorf("%v are nested", caps)
		}
		n := int64(d(10))
		got, err := Level(n, bins, caps)
		if err != nil {
			return err
		}
		var squares int64
		for _, size := range got.Sizes {
			squares += size * size
		}
		most, least := int64(-1), int64(0)
		everyLayout(n, bins, caps, func(placed, squares int64) {
			if placed > most || placed == most && squares < least {
				most, least = placed, squares
			}
		})
		if n-got.Unplaced != most || squares != least || exceeds(got.Sizes, bins, caps) {
			return fmt.Errorf("%d over %v under %v: %v, best places %d with squares %d", n, bins, caps, got, most, least)
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
		caps := d.nestedCaps(len(bins))
		n := int64(d(10))
		got, err := Level(n, bins, caps)
		if err != nil {
			return err
		}
		most := int64(-1)
		everyLayout(n, bins, caps, func(placed, _ int64) { most = max(most, placed) })
		if n-got.Unplaced != most {
			return fmt.Errorf("%d over %v under %v: %v, best places %d", n, bins, caps, got, most)
		}
		return nil
	})
}

// Whatever the caps are, crossing or not, none is exceeded by what was added.
func TestLevelExceedsNoCap(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		n, bins, caps := d.levelling()
		got, err := Level(n, bins, caps)
		if err != nil {
			return err
		}
		if exceeds(got.Sizes, bins, caps) {
			return fmt.Errorf("%d over %v: %v exceeds %v", n, bins, got.Sizes, caps)
		}
		return nil
	})
}

// Nested agrees with the definition, pair by pair.
func TestNestedEqualsPairwise(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		var caps []Cap
		for range 1 + d(4) {
			var c Cap
			for member := range 5 {
				if d(2) == 0 {
					c.Members = append(c.Members, member)
				}
			}
			caps = append(caps, c)
		}
		want := true
		for _, a := range caps {
			for _, b := range caps {
				common := 0
				for _, member := range a.Members {
					if slices.Contains(b.Members, member) {
						common++
					}
				}
				want = want && (common == 0 || common == len(a.Members) || common == len(b.Members))
			}
		}
		if got := Nested(caps); got != want {
			return fmt.Errorf("Nested(%v) = %v", caps, got)
		}
		return nil
	})
}
