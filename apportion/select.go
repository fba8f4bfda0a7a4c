package apportion

import (
	"math/bits"
	"slices"
)

// few is the number of items that are sorted rather than halved.
const few = 12

// bringForward moves the first n items in the order of compare to the front, each part in any
// order. It roughly halves the items that contain the n-th again and again, at a cost in proportion
// to their number; only the few that remain are sorted.
func bringForward[T any](n int, items []T, compare func(a, b T) int) {
	for rounds := halvings(len(items)); rounds > 0 && len(items) > few; rounds-- {
		less, equal := partition(items, items[len(items)/2], compare)
		switch {
		case n <= less:
			items = items[:less]
		case n <= less+equal:
			return
		default:
			items, n = items[less+equal:], n-less-equal
		}
	}
	slices.SortFunc(items, compare)
}

// halvings is how often this many items are halved at most. There is a limit because a step may
// remove very few items.
func halvings(items int) int { return 2 * bits.Len(uint(items)) }

// partition moves the items below the pivot to the front, followed by those equal to it, and counts
// both.
func partition[T any](items []T, pivot T, compare func(a, b T) int) (less, equal int) {
	next, greater := 0, len(items)
	for next < greater {
		switch order := compare(items[next], pivot); {
		case order < 0:
			items[less], items[next] = items[next], items[less]
			less++
			next++
		case order == 0:
			next++
		default:
			greater--
			items[next], items[greater] = items[greater], items[next]
		}
	}
	return less, greater - less
}
