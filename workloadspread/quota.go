package workloadspread

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

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
	limits := layout(spec, replicas, held)
	switch {
	case !ordered(spec):
	case Shared(spec):
		for i := range limits {
			if spec.Subsets[i].MaxReplicas == nil {
				limits[i] = Unlimited
			}
		}
	default:
		granted := grant(spec, replicas, held)
		for i := len(limits) - 1; i >= 0; i-- {
			limits[i] = most(&spec.Subsets[i], replicas)
			if granted[i] > 0 {
				break // the earlier ones get their share and no more
			}
		}
	}
	return limits
}

// Seat returns the index of the subset that the pod of an ordinal belongs to, counted from 0; -1 if
// no subset has room for it. A subset with an entry of 0 or more in held gets no more than that.
//
// The pods before it do not matter, nor does the number of replicas: a pod keeps its seat when the
// workload grows or shrinks.
func Seat(spec *v1alpha1.WorkloadSpreadSpec, ordinal int32, held []int32) int {
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
	granted, weights := grant(spec, replicas, held), weights(spec)
	claims := make([]apportion.Claim, len(spec.Subsets))
	for i := range spec.Subsets {
		s := &spec.Subsets[i]
		claims[i] = apportion.Claim{Weight: weights[i], Low: int64(granted[i]), High: math.MaxInt64}
		if s.Base != nil {
			claims[i].Offset = int64(min(*s.Base, granted[i]))
		}
		// The shares of all percentages are exact; a percentage is a bound where others are held.
		if n := most(s, replicas); n != Unlimited && (s.MaxReplicas.Type == intstr.Int || held != nil) {
			claims[i].High = int64(n)
		}
		if isHeld(held, i) {
			claims[i].High = claims[i].Low
		}
	}
	share := apportion.Fill
	if Shared(spec) {
		share = func(total int64, claims []apportion.Claim) []int64 {
			return apportion.Spread(total, claims, apportion.Webster)
		}
	}
	out := make([]int32, len(claims))
	for i, n := range share(int64(replicas), claims) {
		out[i] = int32(n)
	}
	return out
}

// seat is the number of replicas, counted from 0, with which a subset gets one more than it has. It does
// not depend on the number of replicas now.
func seat(spec *v1alpha1.WorkloadSpreadSpec, i int, has int32) int32 {
	return int32(sort.Search(firstSeat-1, func(n int) bool { return layout(spec, int32(n)+1, nil)[i] > has }))
}

// grant is what each subset has before anything is shared: its minimum, base or what it is held at,
// in the order of the list as far as the replicas last.
func grant(spec *v1alpha1.WorkloadSpreadSpec, replicas int32, held []int32) []int32 {
	granted := make([]int32, len(spec.Subsets))
	for i := range spec.Subsets {
		s := &spec.Subsets[i]
		switch {
		case isHeld(held, i):
			granted[i] = held[i]
		case s.MinReplicas != nil:
			granted[i] = *s.MinReplicas
		case s.Base != nil:
			granted[i] = *s.Base
		}
		granted[i] = min(granted[i], replicas)
		replicas -= granted[i]
	}
	return granted
}

func isHeld(held []int32, i int) bool { return i < len(held) && held[i] != free }

// most is the maximum of a subset, or Unlimited.
func most(s *v1alpha1.WorkloadSubset, replicas int32) int32 {
	if s.MaxReplicas == nil {
		return Unlimited
	}
	if s.MaxReplicas.Type == intstr.Int {
		return s.MaxReplicas.IntVal
	}
	percent, ok := percentage(s.MaxReplicas.StrVal)
	if !ok {
		return 0
	}
	return int32((int64(percent)*int64(replicas) + 99) / 100)
}

// percentage reads a whole percentage of 0% or more.
func percentage(text string) (int32, bool) {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 10)
	return int32(n), ok && err == nil && n <= 999 && digits == strconv.FormatUint(n, 10)
}

// weights are the weights of the subsets, whichever way their shares are spelled: as weights, as equal
// shares, or as percentages, of which a subset without one has what is left.
func weights(spec *v1alpha1.WorkloadSpreadSpec) []int64 {
	out, left, percent := make([]int64, len(spec.Subsets)), int64(100), ordered(spec) && Shared(spec)
	for i := range spec.Subsets {
		s := &spec.Subsets[i]
		out[i] = 1
		switch {
		case spec.Distribution == v1alpha1.DistributeWeighted && s.Weight != nil:
			out[i] = int64(*s.Weight)
		case percent:
			if out[i] = left; s.MaxReplicas != nil {
				n, _ := percentage(s.MaxReplicas.StrVal)
				out[i] = min(int64(n), left)
			}
			left -= out[i]
		}
	}
	return out
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
