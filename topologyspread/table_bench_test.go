package topologyspread_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// fleetOf is nodes over five zones.
func fleetOf(nodes int) []topologyspread.Node {
	fleet := make([]topologyspread.Node, nodes)
	for i := range fleet {
		fleet[i] = on(fmt.Sprintf("node-%d", i), fmt.Sprintf("zone-%d", i%5), 0)
	}
	return fleet
}

// spreadTwice is a pod with two hard constraints, over zones and over hostnames.
func spreadTwice() *v1.Pod { return foo(hard("zone", 1), hard(v1.LabelHostname, 2)) }

// nextFit is the first node from at on, around the fleet, that takes the pod.
func nextFit(table *topologyspread.Table, at, nodes int) int {
	for i := range nodes {
		if node := (at + i) % nodes; table.Fits(node) {
			return node
		}
	}
	return -1
}

// BenchmarkPlace places 10,000 pods, making the table included.
func BenchmarkPlace(b *testing.B) {
	const pods = 10_000
	for _, nodes := range []int{500, 5_000, 50_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			fleet, pod := fleetOf(nodes), spreadTwice()
			b.ReportAllocs()
			for b.Loop() {
				table, err := topologyspread.NewTable(pod, fleet)
				if err != nil {
					b.Fatal(err)
				}
				at := 0
				for range pods {
					if at = nextFit(table, at, nodes); at < 0 {
						b.Fatal("a pod without a node")
					}
					table.Place(at)
					at++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pods, "ns/pod")
		})
	}
}

// BenchmarkPlaceByPlugin asks the scheduler's plugin about one more pod on a fleet that has two
// pods per node, as after BenchmarkPlace: PreFilter, and Filter until a node takes it.
func BenchmarkPlaceByPlugin(b *testing.B) {
	fleet, pod := fleetOf(5_000), spreadTwice()
	for i := range fleet {
		fleet[i].Pods = []*v1.Pod{foo(), foo()}
	}
	p := newPlugin(b)
	p.seen.show(fleet)
	b.ReportAllocs()
	for b.Loop() {
		state := framework.NewCycleState()
		if _, status := p.PreFilter(p.ctx, state, pod, p.seen.infos); !status.IsSuccess() {
			b.Fatal(status)
		}
		fits := false
		for _, n := range p.seen.infos {
			if fits = p.Filter(p.ctx, state, pod, n).IsSuccess(); fits {
				break
			}
		}
		if !fits {
			b.Fatal("a pod without a node")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/pod")
}

// After 10,000 placements the table still says of every node what the plugin says.
func TestManyPlacementsEqualThoseOfTheScheduler(t *testing.T) {
	const pods, nodes = 10_000, 5_000
	fleet, pod := fleetOf(nodes), spreadTwice()
	table, err := topologyspread.NewTable(pod, fleet)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlugin(t)
	at := 0
	for i := range pods {
		at = nextFit(table, (at*7+i)%nodes, nodes)
		table.Place(at)
		fleet[at].Pods = append(fleet[at].Pods, pod)
		if i%2_500 != 2_499 {
			continue
		}
		p.seen.show(fleet)
		want, err := p.fits(pod)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]bool, nodes)
		for node := range got {
			got[node] = table.Fits(node)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %d pods the table and the plugin differ", i+1)
		}
	}
}
