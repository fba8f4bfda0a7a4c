package workloadspread

import (
	"math"
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
// Unlimited. A percentage is rounded up. The minimum of a later subset is kept free in the earlier
// ones. Distributions Even and Weighted limit every subset, to the shares that sum to the replicas.
//
// A subset with an entry of 0 or more in held has that many and gets no more, and the others share
// the rest; held is nil if there is no such subset.
func Limits(spec *v1alpha1.WorkloadSpreadSpec, replicas int32, held []int32) []int32 {
	replicas = max(replicas, 0)
	if !ordered(spec) {
		return layout(spec, replicas, held)
	}
	granted, limits := grant(spec, replicas, held), layout(spec, replicas, held)
	for i := len(limits) - 1; i >= 0; i-- {
		limits[i] = most(&spec.Subsets[i], replicas)
		if granted[i] > 0 {
			break // the earlier ones get their share and no more
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
	granted := grant(spec, replicas, held)
	claims := make([]apportion.Claim, len(spec.Subsets))
	for i := range spec.Subsets {
		s := &spec.Subsets[i]
		claims[i] = apportion.Claim{Weight: weight(spec, s), Low: int64(granted[i]), High: math.MaxInt64}
		if s.Base != nil {
			claims[i].Offset = int64(min(*s.Base, granted[i]))
		}
		if n := most(s, replicas); n != Unlimited {
			claims[i].High = int64(n)
		}
		if isHeld(held, i) {
			claims[i].High = claims[i].Low
		}
	}
	share := apportion.Fill
	if !ordered(spec) {
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

func weight(spec *v1alpha1.WorkloadSpreadSpec, s *v1alpha1.WorkloadSubset) int64 {
	if spec.Distribution == v1alpha1.DistributeWeighted && s.Weight != nil {
		return int64(*s.Weight)
	}
	return 1
}

func ordered(spec *v1alpha1.WorkloadSpreadSpec) bool {
	return spec.Distribution == "" || spec.Distribution == v1alpha1.DistributeOrdered
}
