package deletioncost

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// BenchmarkDecide decides on a set over three zones with two constraints, new and once it has its costs.
func BenchmarkDecide(b *testing.B) {
	for _, pods := range []int{100, 1_000, 10_000} {
		for _, stands := range []bool{false, true} {
			b.Run(fmt.Sprintf("pods=%d/written=%t", pods, stands), func(b *testing.B) {
				w := newFakeReplicaSet(zoneRule(1), hostRule(1))
				for i := range max(3, pods/2) {
					w.node(string(rune('a' + i%3)))
				}
				for i := range pods {
					w.add(w.nodes[i%len(w.nodes)], time.Duration(i)*time.Second, strconv.Itoa(i*7919%pods))
				}
				writes := 0
				if stands {
					d, _ := Decide(w.input())
					apply(d.Writes)
				}
				b.ReportAllocs()
				for b.Loop() {
					d, err := Decide(w.input())
					if err != nil {
						b.Fatal(err)
					}
					writes = len(d.Writes)
				}
				b.ReportMetric(float64(writes)*1000/float64(pods), "writes/1000pods")
			})
		}
	}
}
