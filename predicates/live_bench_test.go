package predicates

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// BenchmarkLive asks where pods of 300 kinds would be bound, each after a pod came to a node and with a
// node that comes every hundred questions; ten pods run on each node.
func BenchmarkLive(b *testing.B) {
	for _, spread := range []bool{false, true} {
		for _, size := range []int{100, 1_000, 5_000} {
			b.Run(fmt.Sprintf("spread=%t/nodes=%d", spread, size), func(b *testing.B) {
				l := newChecker(b, Options{}).Live()
				nodes := benchNodes(size, 25)
				for i := range nodes {
					for j := range 10 {
						nodes[i].Pods = append(nodes[i].Pods, benchPod((i+j)%200, i*10+j))
					}
					if err := l.Set(nodes[i]); err != nil {
						b.Fatal(err)
					}
				}
				asked := make([]*v1.Pod, 300)
				for i := range asked {
					asked[i] = benchPod(i, 1_000_000+i)
					if spread {
						spreadOver(asked[i], v1.LabelTopologyZone, v1.LabelHostname)
					}
				}
				for _, p := range asked {
					if _, err := l.Find(p, never); err != nil {
						b.Fatal(err)
					}
				}
				var took []time.Duration
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					n := &nodes[i%size]
					n.Pods = append(slices.Clone(n.Pods[1:]), benchPod(i%200, 2_000_000+i))
					if i%100 == 99 {
						n.Node = benchNode(n.Node.Name, i).Node
					}
					if err := l.Set(*n); err != nil {
						b.Fatal(err)
					}
					begin := time.Now()
					if _, err := l.Find(asked[i%300], never); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begin))
					i++
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}
