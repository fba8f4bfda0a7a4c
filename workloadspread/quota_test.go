package workloadspread

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

func even(most ...string) *v1alpha1.WorkloadSpreadSpec {
	spec := deployment(most...)
	spec.Distribution = v1alpha1.DistributeEven
	return spec
}

// ratio is a base on demand, then the weights.
func ratio(base, demand, spot int32) *v1alpha1.WorkloadSpreadSpec {
	spec := deployment("", "")
	spec.Distribution = v1alpha1.DistributeWeighted
	spec.Subsets[0].Base, spec.Subsets[0].Weight, spec.Subsets[1].Weight = &base, &demand, &spot
	return spec
}

func withMin(spec *v1alpha1.WorkloadSpreadSpec, i int, n int32) *v1alpha1.WorkloadSpreadSpec {
	spec.Subsets[i].MinReplicas = &n
	return spec
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name     string
		spec     *v1alpha1.WorkloadSpreadSpec
		replicas int32
		want     []int32
	}{
		{"normal machines, then elastic ones", deployment("100", ""), 150, []int32{100, -1}},
		{"percentages are shares", deployment("20%", "20%", "60%"), 7, []int32{2, 1, 4}},
		{"percentages and an open one", deployment("20%", "", "30%"), 10, []int32{2, -1, 0}},
		{"an open one after percentages", deployment("20%", "30%", ""), 10, []int32{2, 3, -1}},
		{"percentages of nothing", deployment("20%", "80%"), 0, []int32{0, 0}},
		{"1:1:3", deployment("20%", "20%", "60%"), 100, []int32{20, 20, 60}},
		{"a minimum later in the list", withMin(deployment("", ""), 1, 2), 10, []int32{8, -1}},
		{"a minimum with fewer replicas", withMin(deployment("", ""), 1, 2), 1, []int32{0, -1}},
		{"a minimum in the middle", withMin(deployment("5", "", ""), 1, 3), 6, []int32{3, -1, -1}},
		{"even", even("", "", ""), 100, []int32{34, 33, 33}},
		{"even with a maximum", even("", "10", ""), 100, []int32{45, 10, 45}},
		{"even with a minimum", withMin(even("", ""), 1, 6), 8, []int32{2, 6}},
		{"two on demand, then 20/80", ratio(2, 20, 80), 12, []int32{4, 8}},
		{"fewer than the base", ratio(2, 20, 80), 1, []int32{1, 0}},
	} {
		if got := Limits(c.spec, c.replicas, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A subset that is marked keeps what it has, and the others share the rest.
func TestLimitsWithAMark(t *testing.T) {
	if got := Limits(even("", "", ""), 12, []int32{1, free, free}); !slices.Equal(got, []int32{1, 6, 5}) {
		t.Errorf("%v", got)
	}
	if got := Limits(withMin(deployment("", "", ""), 1, 4), 10, []int32{free, 0, free}); !slices.Equal(got, []int32{-1, -1, -1}) {
		t.Errorf("%v: nothing is kept free for a subset that takes no pods", got)
	}
}

// The ratio is exact at every number of replicas: never more than half a pod from 20/80.
func TestBaseThenRatioIsExactAtEveryNumber(t *testing.T) {
	for n := int32(2); n <= 2000; n++ {
		got := Limits(ratio(2, 20, 80), n, nil)
		if five := 5 * (got[0] - 2); got[0]+got[1] != n || 2*five > 2*(n-2)+5 || 2*five < 2*(n-2)-5 {
			t.Fatalf("%d: %v", n, got)
		}
	}
}

// monotone draws a spec.
func monotone(t *rapid.T) *v1alpha1.WorkloadSpreadSpec {
	return randomSpec(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)))
}

// One replica more gives one subset one more, and takes nothing from the others: no pod has to move,
// on the way up or down.
func TestNoSubsetShrinksWhenTheWorkloadGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, n := monotone(t), rapid.Int32Range(0, 200).Draw(t, "replicas")
		before, after := layout(spec, n, nil), layout(spec, n+1, nil)
		grown := 0
		for i := range before {
			if after[i] < before[i] || after[i] > before[i]+1 {
				t.Fatalf("%v becomes %v", before, after)
			}
			grown += int(after[i] - before[i])
		}
		if position := SubsetOfOrdinal(spec, n, nil); grown > 1 || grown == 0 && position >= 0 || grown == 1 &&
			after[position] != before[position]+1 {
			t.Fatalf("%v becomes %v, the position is %d", before, after, position)
		}
	})
}

// Filling by the limits, one pod after the other, ends in the layout.
func TestFillingEndsInTheLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, n := monotone(t), rapid.Int32Range(0, 60).Draw(t, "replicas")
		spec.ScheduleStrategy, spec.WhenFull = v1alpha1.WorkloadScheduleStrategy{}, ""
		status := &v1alpha1.WorkloadSpreadStatus{}
		got := make([]int32, len(spec.Subsets))
		for i := range n {
			a := Admit(State{Spec: spec, Status: status, Workload: Workload{Found: true, Replicas: n}, Now: noon},
				NewPod{ID: fmt.Sprint(i), Revision: OneRevision})
			if a.Subset >= 0 {
				got[a.Subset]++
			}
			status = a.Status
		}
		if want := layout(spec, n, nil); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func BenchmarkLimits(b *testing.B) {
	for _, n := range []int{3, 10, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			spec := even(make([]string, n)...)
			b.ReportAllocs()
			for b.Loop() {
				Limits(spec, 5000, nil)
			}
		})
	}
}
