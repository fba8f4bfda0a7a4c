package nodegroupset

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// scanSplit is the plain way: look for the smallest group for every node.
func scanSplit(nodes int64, groups []Group) {
	sizes := make([]int64, len(groups))
	for i, group := range groups {
		sizes[i] = group.Size
	}
	for ; nodes > 0; nodes-- {
		best := -1
		for i, size := range sizes {
			if size < groups[i].Max && (best < 0 || size < sizes[best]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		sizes[best]++
	}
}

// walkSplit is Cluster Autoscaler's way: groups sorted by size, one node at a time
// to the smallest that has room, walking up and down the sorted list.
func walkSplit(nodes int64, groups []Group) {
	type info struct{ size, max int64 }
	infos := make([]*info, 0, len(groups))
	for _, group := range groups {
		if group.Size != group.Max {
			infos = append(infos, &info{group.Size, group.Max})
		}
	}
	slices.SortFunc(infos, func(a, b *info) int { return int(a.size - b.size) })
	start, current := 0, 0
	for nodes > 0 && start < len(infos) {
		group := infos[current]
		if group.size < group.max {
			group.size++
			nodes--
		} else {
			infos[start], infos[current] = infos[current], infos[start]
			start++
		}
		if current < len(infos)-1 && group.size > infos[current+1].size {
			current++
		} else {
			current = start
		}
	}
}

func benchGroups() []Group {
	groups := make([]Group, 300)
	for i := range groups {
		groups[i] = Group{Name: fmt.Sprintf("group-%03d", i), Size: int64(i*37%50 + 1), Max: MaxSize, Weight: 1}
	}
	return groups
}

// timeOf is the shortest of several runs: what disturbs one disturbs not all.
func timeOf(work func()) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for range 9 {
		start := time.Now()
		work()
		shortest = min(shortest, time.Since(start))
	}
	return shortest
}

func BenchmarkSplit(b *testing.B) {
	for _, nodes := range []int64{10, 100_000, 1_000_000_000} {
		b.Run(fmt.Sprintf("groups=300/nodes=%d", nodes), func(b *testing.B) {
			request := SplitRequest{Nodes: nodes, Groups: benchGroups()}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Split(request); err != nil {
					b.Fatal(err)
				}
			}
			if nodes != 100_000 {
				return
			}
			each := float64(timeOf(func() { _, _ = Split(request) }))
			b.ReportMetric(float64(timeOf(func() { scanSplit(nodes, request.Groups) }))/each, "x-faster-than-scan")
			b.ReportMetric(float64(timeOf(func() { walkSplit(nodes, request.Groups) }))/each, "x-faster-than-walk")
		})
	}
}

// BenchmarkSplitByCapacity shares cores 10:5:2 between portions of machines of several sizes,
// and for comparison nodes of one size.
func BenchmarkSplitByCapacity(b *testing.B) {
	for _, size := range []struct{ nodes, groups int64 }{{100, 3}, {1_000, 30}, {10_000, 30}, {100_000_000, 30}} {
		for _, mixed := range []bool{true, false} {
			request := SplitRequest{Nodes: size.nodes, Policy: Proportional, NodeCapacity: 4000}
			for k, weight := range []int64{10, 5, 2} {
				portion := Portion{Name: fmt.Sprint(k), Weight: weight}
				for i := range size.groups / 3 {
					g := Group{Name: fmt.Sprintf("%d-%d", k, i), Max: MaxSize, Capacity: 4000}
					if mixed {
						g.Capacity = 4000 << (i % 2)
					}
					if mixed && k == 0 {
						g.Capacity *= 2
					}
					portion.Groups, request.Groups = append(portion.Groups, g.Name), append(request.Groups, g)
				}
				request.Portions = append(request.Portions, portion)
			}
			b.Run(fmt.Sprintf("nodes=%d/groups=%d/mixed=%t", size.nodes, size.groups, mixed), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Split(request); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
