package reconcile

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/balancer"
)

// Whatever fails to grow, the sum of the sizes falls below neither what it was nor what it was to
// be.
func TestHeldBackSumIsNeverTooLow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOf(rapid.Int32Range(0, 100))
		var grown, failed, shrunk, left int64
		for _, n := range sizes.Draw(t, "ups") {
			grown += int64(n)
			if rapid.Bool().Draw(t, "fails") {
				failed += int64(n)
			}
		}
		var downs []balancer.Write
		for _, n := range sizes.Draw(t, "downs") {
			downs = append(downs, balancer.Write{From: 100, To: 100 - n})
			shrunk += int64(n)
		}
		for i, w := range hold(downs, replaced(grown-shrunk, failed)) {
			if w.To < downs[i].To || w.To > w.From {
				t.Fatalf("%d to %d became %d", w.From, downs[i].To, w.To)
			}
			left += int64(w.From - w.To)
		}
		after, wanted := grown-failed-left, grown-shrunk
		if after < min(0, wanted) {
			t.Fatalf("the sum changes by %d, and was to change by %d", after, wanted)
		}
		if failed == 0 && after != wanted {
			t.Fatal("something is held back though nothing failed")
		}
	})
}

func TestHold(t *testing.T) {
	downs := []balancer.Write{{Target: "a", From: 10, To: 3}, {Target: "b", From: 4, To: 3}}
	for n, want := range map[int64][2]int32{0: {3, 3}, 1: {3, 4}, 2: {4, 4}, 8: {10, 4}} {
		if got := hold(downs, n); got[0].To != want[0] || got[1].To != want[1] {
			t.Errorf("holding %d gave %v, want %v", n, got, want)
		}
	}
}
