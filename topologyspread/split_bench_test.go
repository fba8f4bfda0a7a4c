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
			r.Groups = append(r.Groups, SplitGroup{Name: fmt.Sprintf("ng-%d-%02d", k, i), Domain: d.Name, Size: size,
				Max: size + random.Int64N(3*share/perNode+2)})
		}
	}
	return r
}

func BenchmarkSplit(b *testing.B) {
	for _, zones := range []struct{ zones, pods int64 }{{3, 30}, {5, 2000}, {50, 100000}} {
		for _, skew := range []int64{1, 5, 1000} {
			for _, perNode := range []int64{1, 30} {
				for _, empty := range []float64{0, 0.5, 1} {
					b.Run(fmt.Sprintf("zones=%d/pods=%d/skew=%d/perNode=%d/empty=%.1f", zones.zones, zones.pods, skew, perNode, empty),
						func(b *testing.B) {
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
		requests[name] = r
	}
	requests["zones=19/pods=17808"] = SplitRequest{Pods: 17808, MaxSkew: 441, PodsPerNode: 1, MinDomains: 3}.in(nineteenZones)
	requests["zones=50/pods=100000"] = SplitRequest{Pods: 100_000, MaxSkew: 2746, PodsPerNode: 21, MinDomains: 8,
		ExtraNodes: 16}.in(fiftyZones)
	for name, r := range requests {
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

type zoneToSplit struct {
	active      bool
	count, free int64
	sizes       []int64 // of groups with room for 100,000 nodes
}

func (r SplitRequest) in(zones []zoneToSplit) SplitRequest {
	for i, z := range zones {
		d := SplitDomain{Name: fmt.Sprintf("zone-%02d", i), Active: z.active, MatchingPods: z.count, FreeSlots: z.free}
		r.Domains = append(r.Domains, d)
		for k, size := range z.sizes {
			r.Groups = append(r.Groups, SplitGroup{Name: fmt.Sprintf("ng-%d-%02d", k, i), Domain: d.Name, Size: size, Max: size + 100_000})
		}
	}
	return r
}

var (
	nineteenZones = []zoneToSplit{
		{sizes: []int64{1162}}, {sizes: []int64{2753}}, {sizes: []int64{55}}, {sizes: []int64{1157}},
		{sizes: []int64{1736}}, {sizes: []int64{24}}, {sizes: []int64{1743, 1844}}, {sizes: []int64{1010}},
		{sizes: []int64{1670, 318}}, {sizes: []int64{2811}}, {sizes: []int64{649, 570}}, {sizes: []int64{431}},
		{sizes: []int64{1562, 1329, 1240}}, {sizes: []int64{1199, 2340, 62}}, {sizes: []int64{800}},
		{sizes: []int64{178, 1128, 80}}, {sizes: []int64{501, 1938, 852}}, {sizes: []int64{2752, 385, 992}},
		{sizes: []int64{898, 1307, 1219}},
	}
	fiftyZones = []zoneToSplit{
		{sizes: []int64{38, 12}}, {active: true, sizes: []int64{39}}, {sizes: []int64{1, 72}}, {sizes: []int64{18}},
		{sizes: []int64{48, 94}}, {active: true, free: 1, sizes: []int64{19, 21}}, {sizes: []int64{16}},
		{active: true, sizes: []int64{28}}, {active: true, count: 495, sizes: []int64{89}}, {sizes: []int64{38}},
		{active: true, count: 8, free: 2, sizes: []int64{33}}, {sizes: []int64{13}},
		{active: true, count: 463, free: 21, sizes: []int64{48, 67}},
		{active: true, count: 1573, sizes: []int64{88, 70}}, {active: true, count: 17, sizes: []int64{72}},
		{active: true, count: 94, free: 40, sizes: []int64{75, 14}}, {active: true, count: 18, sizes: []int64{57}},
		{sizes: []int64{17}}, {sizes: []int64{6}}, {active: true, sizes: []int64{26, 96}}, {sizes: []int64{72}},
		{active: true, count: 1452, sizes: []int64{68}}, {active: true, count: 60, free: 19, sizes: []int64{13, 50}},
		{active: true, count: 37, free: 15, sizes: []int64{44}}, {active: true, count: 1237, sizes: []int64{22, 33}},
		{sizes: []int64{74}}, {sizes: []int64{34, 24}}, {sizes: []int64{46}}, {active: true, sizes: []int64{75}},
		{sizes: []int64{91}}, {sizes: []int64{42}}, {sizes: []int64{37, 63}}, {sizes: []int64{39, 40}},
		{active: true, count: 4, sizes: []int64{67, 9}}, {sizes: []int64{96}},
		{active: true, count: 18, sizes: []int64{58}}, {active: true, count: 1111, sizes: []int64{36, 4}},
		{active: true, count: 1, sizes: []int64{45}}, {sizes: []int64{81, 93}}, {sizes: []int64{3}},
		{sizes: []int64{87}}, {sizes: []int64{27, 74}}, {active: true, count: 1841, free: 45, sizes: []int64{54, 93}},
		{sizes: []int64{94, 62}}, {active: true, count: 7, free: 25, sizes: []int64{42}}, {sizes: []int64{78, 30}},
		{active: true, count: 435, sizes: []int64{2}}, {active: true, free: 39, sizes: []int64{45}},
		{active: true, sizes: []int64{69}}, {sizes: []int64{34, 79}},
	}
)
