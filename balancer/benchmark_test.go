package balancer

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
)

// many is a proportional Balancer of n targets with ten pods each, some of them blocked, about to
// move.
func many(n int) *fakeCluster {
	rates := map[string]int32{}
	var targets []v1alpha1.BalancerTarget
	var sizes []int32
	for i := range n {
		name := fmt.Sprintf("target-%04d", i)
		rates[name] = int32(1 + i%7)
		targets = append(targets, targetOf(name, 1, 1000))
		sizes = append(sizes, 10)
	}
	w := newFakeCluster(specOf(int32(12*n), withFallback(proportional(rates)), targets...), sizes...)
	for i := 0; i < n; i += 5 {
		w.late(i, 3)
	}
	w.observe()
	return w
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{4, 128, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := many(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decide(w.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The engine's part of the same decision.
func BenchmarkDistribute(b *testing.B) {
	for _, n := range []int{4, 128, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := many(n)
			p, err := newPass(w.in)
			if err != nil {
				b.Fatal(err)
			}
			request, _ := p.request()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := apportion.Distribute(request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
