package topologyspread

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fleet is a request over so many zones, some of them empty, with a group or two in each.
func fleetToSplit(random *rand.Rand, zones int, pods, skew, perNode int64, empty float64) SplitRequest {
	r := SplitRequest{Pods: pods, MaxSkew: skew, MinDomains: 1, PodsPerNode: perNode}
	share := pods / int64(zones)
	for i := range zones {
		d := SplitDomain{Name: fmt.Sprintf("zone-%02d", i), Active: random.Float64() >= empty}
		size := int64(0)
		if d.Active {
			d.MatchingPods, d.FreeSlots = random.Int64N(share/2+1), random.Int64N(perNode*3)
			size = (d.MatchingPods + d.FreeSlots) / perNode
		}
		r.Domains = append(r.Domains, d)
		for k := range 1 + random.IntN(2) {
			r.Groups = append(r.Groups, SplitGroup{Name: fmt.Sprintf("ng-%d-%02d", k, i), Domain: d.Name, Size: size, Max: size + random.Int64N(3*share/perNode+2)})
		}
	}
	return r
}

func BenchmarkSplit(b *testing.B) {
	for _, zones := range []struct{ zones, pods int64 }{{3, 30}, {5, 2000}, {50, 100000}} {
		for _, skew := range []int64{1, 5, 1000} {
			for _, perNode := range []int64{1, 30} {
				for _, empty := range []float64{0, 0.5, 1} {
					b.Run(fmt.Sprintf("zones=%d/pods=%d/skew=%d/perNode=%d/empty=%.1f", zones.zones, zones.pods, skew, perNode, empty), func(b *testing.B) {
						random := rand.New(rand.NewPCG(1, 2))
						requests := make([]SplitRequest, 20)
						for i := range requests {
							requests[i] = fleetToSplit(random, int(zones.zones), zones.pods, skew, perNode, empty)
						}
						b.ReportAllocs()
						b.ResetTimer()
						for i := range b.N {
							if _, err := Split(requests[i%len(requests)]); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		}
	}
}

// BenchmarkSplitWorst measures the requests that took longest of thousands of random ones with all
// kinds of skews, sizes and maxima: whether a zone without nodes should be opened depends on all
// others then.
func BenchmarkSplitWorst(b *testing.B) {
	group := func(zone string, k int, size, most int64) SplitGroup {
		return SplitGroup{Name: fmt.Sprintf("%s-%d", zone, k), Domain: zone, Size: size, Max: most}
	}
	requests := map[string]SplitRequest{
		"zones=5/pods=2000": {Pods: 2000, MaxSkew: 543, PodsPerNode: 1, Groups: []SplitGroup{
			group("a", 0, 118, 100118), group("b", 0, 186, 100186), group("b", 1, 338, 100338), group("c", 0, 73, 100073),
			group("c", 1, 117, 100117), group("d", 0, 144, 100144), group("e", 0, 349, 100349),
		}},
		"zones=5/pods=100000": {Pods: 100_000, MaxSkew: 1570, PodsPerNode: 2, Groups: []SplitGroup{
			group("a", 0, 13843, 29696), group("b", 0, 8237, 16922), group("b", 1, 13878, 38437), group("c", 0, 4892, 29751),
			group("d", 0, 22130, 32526), group("d", 1, 25947, 49568), group("e", 0, 16795, 31543), group("e", 1, 24730, 41947),
		}},
	}
	for name, r := range requests {
		for _, zone := range []string{"a", "b", "c", "d", "e"} {
			r.Domains = append(r.Domains, SplitDomain{Name: zone})
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Split(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
