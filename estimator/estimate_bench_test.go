package estimator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
)

// benchmarkDemands are n pods of 200 kinds, of which one in twenty is spread
// over zones and one in twenty keeps apart from its like by host.
func benchmarkDemands(n int) []Demand {
	const kinds = 200
	r := rand.New(rand.NewPCG(5, 5))
	list := make([]Demand, kinds)
	for k := range list {
		pod := podOf(fmt.Sprintf("kind-%d", k), 50+r.Int64N(1500), gib/8+r.Int64N(4*gib))
		switch k % 20 {
		case 7:
			spread(pod, v1.LabelTopologyZone, 5)
		case 13:
			antiAffine(pod, v1.LabelHostname)
		}
		list[k] = Demand{Pod: pod, Count: n / kinds}
	}
	return list
}

// BenchmarkEstimate packs all pods on nodes of 32 cores. The metric
// nodes/bound is the number of nodes over what the sum of the requests needs.
func BenchmarkEstimate(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			checker := newChecker(b)
			cluster := checker.Cluster([]predicates.Node{{Node: realNode("real", "b")}})
			demands := benchmarkDemands(n)
			template := inZone("a")
			template.Node.Status = nodeOf(32_000, 128*gib).Status
			request := Request{Template: template, Demands: demands}
			b.ReportAllocs()
			var e Estimation
			for b.Loop() {
				var err error
				if e, err = Estimate(cluster, request, NoLimit); err != nil {
					b.Fatal(err)
				}
			}
			requested := podfit.Resources{}
			for i, placed := range e.Placed {
				requested.Add(int64(placed), podfit.Requests(demands[i].Pod))
			}
			bound := max(requested[v1.ResourceCPU]/32_000, requested[v1.ResourceMemory]/(128*gib)) + 1
			b.ReportMetric(float64(e.NodeCount)/float64(bound), "nodes/bound")
			b.ReportMetric(float64(e.NodeCount), "nodes")
		})
	}
}

// BenchmarkOptions estimates 1,000 groups of 25 shapes.
func BenchmarkOptions(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		b.Run(fmt.Sprintf("groups=1000/shapes=25/pods=%d", n), func(b *testing.B) {
			checker := newChecker(b)
			demands := benchmarkDemands(n)
			cluster := checker.Cluster([]predicates.Node{{Node: realNode("real", "b")}})
			b.ReportAllocs()
			for b.Loop() {
				e := New(cluster)
				for g := range 1000 {
					template := inZone("a")
					template.Node.Status = nodeOf(int64(8_000+1000*(g%25)), int64(32+4*(g%25))*gib).Status
					request := Request{Template: template, Class: fmt.Sprint(g % 25), Demands: demands}
					if _, err := e.Estimate(request, 1000+g); err != nil {
						b.Fatal(err)
					}
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
			request := Request{Template: inZone("a"), Demands: []Demand{demand(pod, n)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Estimate(cluster, request, NoLimit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
