package apportion

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

func TestBringForwardPutsTheFirstItemsInFront(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		items := make([]int, d(60))
		for i := range items {
			items[i] = d(1 + d(80)) // often equal
		}
		sorted := slices.Sorted(slices.Values(items))
		n := d(len(items) + 1)
		bringForward(n, items, cmp.Compare[int])
		front, back := slices.Sorted(slices.Values(items[:n])), slices.Sorted(slices.Values(items[n:]))
		if !slices.Equal(slices.Concat(front, back), sorted) {
			return fmt.Errorf("%d of %v: %v", n, sorted, items)
		}
		return nil
	})
}
