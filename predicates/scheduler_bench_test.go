package predicates

import (
	"fmt"
	"testing"
)

// BenchmarkBind binds pods of 100 kinds, all mixed, to empty nodes of 25 shapes.
func BenchmarkBind(b *testing.B) {
	for _, size := range []struct{ pods, nodes int }{{2_000, 200}, {20_000, 2_000}, {50_000, 5_000}} {
		b.Run(fmt.Sprintf("pods=%d/nodes=%d", size.pods, size.nodes), func(b *testing.B) {
			c := newChecker(b, Options{})
			pods, nodes := benchPods(size.pods, 100), benchNodes(size.nodes, 25)
			b.ReportAllocs()
			for b.Loop() {
				at, err := c.Scheduler().Bind(nodes, nil, pods)
				if err != nil {
					b.Fatal(err)
				}
				bound := 0
				for _, n := range at {
					if n >= 0 {
						bound++
					}
				}
				if bound*2 < size.pods {
					b.Fatalf("%d of %d pods are bound", bound, size.pods)
				}
			}
		})
	}
}
