package workloadspread

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
)

// Unlimited is the limit of a subset that may have any number of pods.
const Unlimited int32 = -1

// free is the entry of a subset that is not held at a number.
const free int32 = -1

// Limits returns how many pods each subset may have if the workload has so many replicas, or
// Unlimited. The minimum of a later subset is kept free in the earlier ones. Distributions Even and
// Weighted limit every subset, to the shares that sum to the replicas, and so do percentages, except
// for subsets without one.
//
// A subset with an entry of 0 or more in held has that many and gets no more, and the others share
// the rest; held is nil if there is no such subset.
func Limits(spec *v1alpha1.WorkloadSpreadSpec, replicas int32, held []int32) []int32 {
	replicas = max(replicas, 0)
	limits, wanted := layout(spec, replicas, held), claims(spec, replicas, held)
	for i := len(limits) - 1; i >= 0 && ordered(spec); i-- {
		switch most := spec.Subsets[i].MaxReplicas; {
		case most == nil:
			limits[i] = Unlimited
		case !Shared(spec):
			limits[i] = most.IntVal
		}
		if !Shared(spec) && wanted[i].Low > 0 {
			break // the earlier ones get their share and no more
		}
	}
	return limits
}

// SubsetOfOrdinal returns the index of the subset that the pod of an ordinal belongs to, counted from 0; -1 if
// no subset has room for it. A subset with an entry of 0 or more in held gets no more than that.
//
// The pods before it do not matter, nor does the number of replicas: a pod keeps its position when the
// workload grows or shrinks.
func SubsetOfOrdinal(spec *v1alpha1.WorkloadSpreadSpec, ordinal int32, held []int32) int {
	ordinal = max(ordinal, 0)
	before := layout(spec, ordinal, held)
	for i, n := range layout(spec, ordinal+1, held) {
		if n > before[i] {
			return i
		}
	}
	return -1
}

// layout is how many of the replicas each subset has when all have been created.
func layout(spec *v1alpha1.WorkloadSpreadSpec, replicas int32, held []int32) []int32 {
	wanted := claims(spec, replicas, held)
	var shares []int64
	if Shared(spec) {
		shares = apportion.Spread(int64(replicas), wanted, apportion.Webster)
	} else {
		shares = apportion.Fill(int64(replicas), wanted)
	}
	out := make([]int32, len(shares))
	for i, n := range shares {
		out[i] = int32(n)
	}
	return out
}

// claims are what the subsets ask for, whichever way the spec says it: a share is a weight, be it one of equal
// ones, or a percentage, of which a subset without one has what is left. What a subset has before anything is shared
// is its minimum, its base or what it is held at, in the order of the list as far as the replicas last.
func claims(spec *v1alpha1.WorkloadSpreadSpec, replicas int32, held []int32) []apportion.Claim {
	out, percents, rest := make([]apportion.Claim, len(spec.Subsets)), int64(100), replicas
	for i := range spec.Subsets {
		s, c := &spec.Subsets[i], &out[i]
		low := ptr.Deref(s.MinReplicas, ptr.Deref(s.Base, 0))
		isHeld := i < len(held) && held[i] != free
		if isHeld {
			low = held[i]
		}
		low = min(low, rest)
		rest -= low
		*c = apportion.Claim{Weight: 1, Low: int64(low), High: math.MaxInt64, Offset: int64(min(ptr.Deref(s.Base, 0), low))}
		switch {
		case spec.Distribution == v1alpha1.DistributeWeighted:
			c.Weight = int64(ptr.Deref(s.Weight, 1))
		case ordered(spec) && Shared(spec):
			if c.Weight = percents; s.MaxReplicas != nil {
				percent, _ := percentage(s.MaxReplicas.StrVal) // an invalid one is 0
				c.Weight = min(int64(percent), percents)
				if held != nil { // the shares of all are exact; one is a bound where others are held
					c.High = (int64(percent)*int64(replicas) + 99) / 100
				}
			}
			percents -= c.Weight
		}
		if s.MaxReplicas != nil && s.MaxReplicas.Type == intstr.Int {
			c.High = int64(s.MaxReplicas.IntVal)
		}
		if isHeld {
			c.High = c.Low
		}
	}
	return out
}

// position is the number of replicas, counted from 0, with which a subset gets one more than it has. It does
// not depend on the number of replicas now.
func position(spec *v1alpha1.WorkloadSpreadSpec, i int, has int32) int32 {
	return int32(sort.Search(firstPosition-1, func(n int) bool { return layout(spec, int32(n)+1, nil)[i] > has }))
}

// percentage reads a whole percentage of 0% or more.
func percentage(text string) (int32, bool) {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 10)
	return int32(n), ok && err == nil && n <= 999 && digits == strconv.FormatUint(n, 10)
}

// Shared reports whether the subsets have shares of the replicas, which are exact while the workload
// grows and while it shrinks; otherwise they are filled in their order, up to numbers.
func Shared(spec *v1alpha1.WorkloadSpreadSpec) bool {
	return !ordered(spec) || slices.ContainsFunc(spec.Subsets, func(s v1alpha1.WorkloadSubset) bool {
		return s.MaxReplicas != nil && s.MaxReplicas.Type == intstr.String
	})
}

func ordered(spec *v1alpha1.WorkloadSpreadSpec) bool {
	return spec.Distribution == "" || spec.Distribution == v1alpha1.DistributeOrdered
}
