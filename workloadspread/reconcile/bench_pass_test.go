package reconcile

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// An idle pass over a workload of a size: one read of the workload, one list of its ReplicaSets, and
// the pods from the cache.
func BenchmarkPass(b *testing.B) {
	for _, pods := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			w := newHarness(b, append(deployed(int32(pods)), spreadOver(subset("a", "50%"), subset("b", "")))...)
			w.late = &v1.PodList{}
			for i := range pods {
				pod := replica(i, "r1", string("ab"[i%2]))
				pod.Annotations["controller.kubernetes.io/pod-deletion-cost"] = fmt.Sprint(200 - i%2*100)
				w.late.Items = append(w.late.Items, *pod)
			}
			w.mustPass()
			w.written()
			b.ReportAllocs()
			for b.Loop() {
				w.mustPass()
			}
			if got := w.written(); got != "" {
				b.Fatalf("wrote %s", got)
			}
		})
	}
}
