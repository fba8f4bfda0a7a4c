package apportion

import (
	"math/bits"
	"slices"
)

// few items are sorted rather than halved.
const few = 12

// bringForward moves the first n items, in the order that compare tells, to the
// front, each side in any order. It halves the items among which the n-th is
// again and again, roughly, at a cost in proportion to them; only the few that
// remain are sorted.
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

// halvings is how often so many items may be halved: a limit, because a step may
// happen to take away very few.
func halvings(items int) int { return 2 * bits.Len(uint(items)) }

// partition moves the items below the pivot to the front, those equal to it
// next, and counts both.
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
