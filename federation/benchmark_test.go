package federation

import (
	"fmt"
	"testing"
)

// A settled object is looked at again: what a sweep over many objects costs.
func BenchmarkDecideSettled(b *testing.B) {
	for _, n := range []int{3, 10, 50, 200} {
		b.Run(fmt.Sprintf("%d clusters", n), func(b *testing.B) {
			w := settledWorld(n)
			b.ReportAllocs()
			for b.Loop() {
				if d, err := Decide(w.in); err != nil || len(d.Writes) > 0 {
					b.Fatal(d.Writes, err)
				}
			}
		})
	}
}

// One cluster becomes full: everything is shared anew.
func BenchmarkDecideFallback(b *testing.B) {
	for _, n := range []int{3, 10, 50, 200} {
		b.Run(fmt.Sprintf("%d clusters", n), func(b *testing.B) {
			w := settledWorld(n)
			w.places[0].able = 1
			w.run()
			w.in.Now = w.in.Now.Add(2 * act)
			w.observe()
			b.ReportAllocs()
			for b.Loop() {
				if d, err := Decide(w.in); err != nil || len(d.Writes) < 2 {
					b.Fatal(d.Writes, err)
				}
			}
		})
	}
}

func settledWorld(n int) *fakeFleet {
	w := newFakeFleet(&testing.T{}, specOf(int32(20*n), nil))
	w.in.Spec.Preferences = everywhere(entry(1, -1, 1))
	for i := range n {
		w.join(fmt.Sprintf("cluster-%03d", i), nil)
	}
	w.converge()
	w.observe()
	return w
}
