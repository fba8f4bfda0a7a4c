package apportion

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fleet is a set of node groups of different sizes with room for any n.
func fleet(groups int) []Bin {
	random := rand.New(rand.NewPCG(3, 4))
	bins := make([]Bin, groups)
	for i := range bins {
		bins[i] = Bin{Size: random.Int64N(200), Max: unbounded}
		if i%10 == 0 {
			bins[i].Max = bins[i].Size + random.Int64N(300)
		}
	}
	return bins
}

// levelByScan looks for the smallest group once per node.
func levelByScan(n int64, bins []Bin) []int64 {
	sizes := make([]int64, len(bins))
	for i, bin := range bins {
		sizes[i] = bin.Size
	}
	for ; n > 0; n-- {
		smallest := -1
		for i, bin := range bins {
			if sizes[i] < bin.Max && (smallest < 0 || sizes[i] < sizes[smallest]) {
				smallest = i
			}
		}
		if smallest < 0 {
			break
		}
		sizes[smallest]++
	}
	return sizes
}

// levelByWalk is the way of Cluster Autoscaler: the groups with room, sorted by size; nodes are
// given one by one to the groups at the front, which are equally high, and the front grows when it
// has become as high as the group behind it.
func levelByWalk(n int64, bins []Bin) []int64 {
	type group struct {
		size, max int64
		bin       int
	}
	sizes := make([]int64, len(bins))
	var open []group
	for i, bin := range bins {
		sizes[i] = bin.Size
		if bin.Size < bin.Max {
			open = append(open, group{bin.Size, bin.Max, i})
		}
	}
	slices.SortStableFunc(open, func(a, b group) int { return cmp.Compare(a.size, b.size) })
	first, at := 0, 0 // groups before first are full
	for n > 0 && first < len(open) {
		g := &open[at]
		if g.size < g.max {
			g.size++
			n--
		}
		if g.size == g.max {
			open[first], open[at] = open[at], open[first]
			first++
		}
		at++
		if at >= len(open) || at > first && open[at].size >= open[at-1].size {
			at = first
		}
	}
	for _, g := range open {
		sizes[g.bin] = g.size
	}
	return sizes
}

// The baselines are right, up to who comes first among equals.
func TestLevelEqualsTheBaselines(t *testing.T) {
	for _, n := range []int64{0, 1, 10, 999, 20_000} {
		bins := fleet(50)
		level, err := Level(n, bins, nil)
		if err != nil {
			t.Fatal(err)
		}
		if scan := levelByScan(n, bins); !slices.Equal(level.Sizes, scan) {
			t.Errorf("%d: %v; by scan %v", n, level.Sizes, scan)
		}
		sorted, walk := slices.Sorted(slices.Values(level.Sizes)), levelByWalk(n, bins)
		slices.Sort(walk)
		if !slices.Equal(sorted, walk) {
			t.Errorf("%d: %v; by walk %v", n, sorted, walk)
		}
	}
}

var units = []int64{10, 100_000, 1_000_000_000}

func BenchmarkLevel(b *testing.B) {
	bins := fleet(300)
	for _, n := range units {
		b.Run(fmt.Sprintf("groups=300/units=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Level(n, bins, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// zones are a quota over all bins and nine over a part each.
func zones(bins int) []Quota {
	quotas := []Quota{{Limit: 20_000_000}}
	for i := range bins {
		quotas[0].Members = append(quotas[0].Members, i)
	}
	for zone := range 9 {
		c := Quota{Limit: int64(9_000 + 700*zone)}
		for i := zone; i < bins; i += 9 {
			c.Members = append(c.Members, i)
		}
		quotas = append(quotas, c)
	}
	return quotas
}

func BenchmarkLevelUnderQuotas(b *testing.B) {
	bins, quotas := fleet(300), zones(300)
	for _, n := range units {
		b.Run(fmt.Sprintf("groups=300/quotas=10/units=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Level(n, bins, quotas); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLevelByScan(b *testing.B) {
	bins := fleet(300)
	b.ReportAllocs()
	for b.Loop() {
		levelByScan(100_000, bins)
	}
}

func BenchmarkLevelByWalk(b *testing.B) {
	bins := fleet(300)
	b.ReportAllocs()
	for b.Loop() {
		levelByWalk(100_000, bins)
	}
}

// fastest is the shortest of some runs, which other load disturbs least.
func fastest(runs int, work func()) time.Duration {
	best := time.Duration(math.MaxInt64)
	for range runs {
		start := time.Now()
		work()
		best = min(best, time.Since(start))
	}
	return best
}

// BenchmarkLevelRatios reports what the cost must not depend on, and how many times slower the
// baselines are at 100,000 nodes over 300 groups.
func BenchmarkLevelRatios(b *testing.B) {
	bins := fleet(300)
	level := func(n int64) func() {
		return func() {
			if _, err := Level(n, bins, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		small, middle, large := fastest(300, level(10)), fastest(300, level(100_000)), fastest(300, level(1_000_000_000))
		scan := fastest(3, func() { levelByScan(100_000, bins) })
		walk := fastest(50, func() { levelByWalk(100_000, bins) })
		b.ReportMetric(float64(large)/float64(small), "time(1e9)/time(10)")
		b.ReportMetric(float64(scan)/float64(middle), "scan/level")
		b.ReportMetric(float64(walk)/float64(middle), "walk/level")
	}
}

// federation is a request over so many targets with bounds, capacities and all.
func federation(count int, r Request) Request {
	random := rand.New(rand.NewPCG(5, 6))
	r.Replicas = int64(count) * 1000
	for i := range count {
		target := Target{
			Name:    fmt.Sprintf("cluster-%05d", random.IntN(100_000)*10_000+i),
			Weight:  new(1 + random.Int64N(1000)),
			Min:     random.Int64N(400),
			Current: random.Int64N(1500),
		}
		if i%3 == 0 {
			target.Max = new(400 + random.Int64N(2000))
		}
		if i%5 == 0 {
			target.Capacity = new(random.Int64N(1500))
		}
		r.Targets = append(r.Targets, target)
	}
	return r
}

func BenchmarkDistribute(b *testing.B) {
	for _, method := range []struct {
		name    string
		request Request
	}{
		{"LargestRemainder", Request{}},
		{"Webster", Request{Rounding: Webster}},
		{"DHondt", Request{Rounding: DHondt}},
		{"Priority", Request{Policy: Priority}},
		{"Hash", Request{TieBreak: Hash, Shortage: TotalWins}},
		{"Sticky", Request{Rebalance: new(false)}},
	} {
		for _, count := range []int{4, 100, 1000} {
			request := federation(count, method.request)
			b.Run(fmt.Sprintf("%s/targets=%d", method.name, count), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Distribute(request); err != nil {
						b.Fatal(err)
					}
				}
				best := fastest(20, func() { _, _ = Distribute(request) })
				b.ReportMetric(float64(best.Nanoseconds()), "fastest-ns")
			})
		}
	}
}

// The largest total and weights beyond 64 bits in sum cost no more than a detour.
func BenchmarkDistributeHuge(b *testing.B) {
	for _, rounding := range roundings {
		request := federation(1000, Request{Rounding: rounding})
		request.Replicas = MaxReplicas
		for i := range request.Targets {
			request.Targets[i].Weight = new(math.MaxInt64 - *request.Targets[i].Weight)
		}
		b.Run(string(rounding)+"/targets=1000", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Distribute(request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
