package estimator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// benchmarkWorkload is n pods of 200 kinds, of which one in twenty is spread
// over zones and one in twenty keeps apart from its like by host.
func benchmarkWorkload(n int) Workload {
	const kinds = 200
	r := rand.New(rand.NewPCG(5, 5))
	list := make([]predicates.Kind, kinds)
	for k := range list {
		pod := podOf(fmt.Sprintf("kind-%d", k), 50+r.Int64N(1500), gib/8+r.Int64N(4*gib))
		switch k % 20 {
		case 7:
			spread(pod, v1.LabelTopologyZone, 5)
		case 13:
			antiAffine(pod, v1.LabelHostname)
		}
		list[k].Pod = pod
		for i := k; i < n; i += kinds {
			list[k].Pods = append(list[k].Pods, i)
		}
	}
	return NewWorkload(list)
}

func allKinds(w Workload) []int {
	var kinds []int
	for k := range w.kinds {
		kinds = append(kinds, k)
	}
	return kinds
}

// BenchmarkEstimate packs all pods on nodes of 32 cores. The metric
// nodes/bound is the number of nodes over what the sum of the requests needs.
func BenchmarkEstimate(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			checker := newChecker(b)
			cluster := checker.Cluster([]predicates.Node{{Node: realNode("real", "b")}})
			w := benchmarkWorkload(n)
			template := inZone("a")
			template.Node.Status = nodeOf(32_000, 128*gib).Status
			phases := []Phase{{Template: template, Demands: w.Demands(allKinds(w)...), MaxNodes: NoLimit}}
			b.ReportAllocs()
			_, before := checker.Runs()
			var e Estimation
			for b.Loop() {
				var err error
				if e, err = Estimate(cluster, phases, NoLimit); err != nil {
					b.Fatal(err)
				}
			}
			_, after := checker.Runs()
			requested := w.Option("ng", phases, e).Requested
			bound := max(requested.MilliCPU/32_000, requested.Memory/(128*gib)) + 1
			b.ReportMetric(float64(e.NodeCount)/float64(bound), "nodes/bound")
			b.ReportMetric(float64(e.NodeCount), "nodes")
			b.ReportMetric(float64(after-before)/float64(b.N), "filters/op")
		})
	}
}

// BenchmarkOptions makes the options of 1,000 groups of 25 shapes.
func BenchmarkOptions(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		b.Run(fmt.Sprintf("groups=1000/shapes=25/pods=%d", n), func(b *testing.B) {
			checker := newChecker(b)
			w := benchmarkWorkload(n)
			cluster := checker.Cluster([]predicates.Node{{Node: realNode("real", "b")}})
			kinds := allKinds(w)
			chain, err := expander.New([]string{expander.Default}, expander.Config{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				e := New(cluster)
				var options []expander.Option
				for g := range 1000 {
					template := inZone("a")
					template.Node.Status = nodeOf(int64(8_000+1000*(g%25)), int64(32+4*(g%25))*gib).Status
					phases := []Phase{{Template: template, Shape: fmt.Sprint(g % 25), Demands: w.Demands(kinds...), MaxNodes: NoLimit}}
					estimation, err := e.Estimate(phases, 1000+g)
					if err != nil {
						b.Fatal(err)
					}
					o := w.Option(fmt.Sprintf("group-%d", g), phases, estimation)
					o.Template.Node = template.Node
					options = append(options, o)
				}
				if _, _, err := chain.Choose(options); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEstimateSpreadOverHosts is the costly case: every node is a domain,
// so after each node opened all others may take the next pod.
func BenchmarkEstimateSpreadOverHosts(b *testing.B) {
	for _, n := range []int{50, 200} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			cluster := newChecker(b).Cluster([]predicates.Node{{Node: realNode("real", "a")}})
			pod := spread(podOf("p", 1000, gib), v1.LabelHostname, 1)
			phases := []Phase{{Template: inZone("a"), Demands: []Demand{demand(pod, n)}, MaxNodes: NoLimit}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Estimate(cluster, phases, NoLimit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
