package expander

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Requests is an amount of resources as pods ask for them. Sums and products
// stop at the largest int64 instead of running over.
type Requests struct {
	MilliCPU int64    // thousandths of a core
	Memory   int64    // bytes
	Others   []Amount // every other resource, sorted by name, none of them zero
}

// Amount is an amount of one resource in its own unit.
type Amount struct {
	Name  v1.ResourceName
	Value int64
}

// RequestsOf is what the scheduler reserves for the pod: the sum over its
// containers or, if more, what its init containers need, plus its overhead.
func RequestsOf(pod *v1.Pod) Requests { return requestsOf(pod, resource.PodResourcesOptions{}) }

// HeldBy is what the scheduler reserves for a pod that runs: while it is resized in place, the largest of
// what it requests, was given and has; if that cannot be done, what it was given and has.
func HeldBy(pod *v1.Pod) Requests {
	return requestsOf(pod, resource.PodResourcesOptions{UseStatusResources: true})
}

func requestsOf(pod *v1.Pod, o resource.PodResourcesOptions) Requests {
	var r Requests
	for name, quantity := range resource.PodRequests(pod, o) {
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU = quantity.MilliValue()
		case v1.ResourceMemory:
			r.Memory = quantity.Value()
		default:
			if v := quantity.Value(); v != 0 {
				r.Others = append(r.Others, Amount{Name: name, Value: v})
			}
		}
	}
	slices.SortFunc(r.Others, func(a, b Amount) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return r
}

// Plus is the sum of r and n times s, for n >= 0.
func (r Requests) Plus(n int, s Requests) Requests {
	if n <= 0 {
		return r
	}
	return Requests{
		MilliCPU: addSaturated(r.MilliCPU, n, s.MilliCPU),
		Memory:   addSaturated(r.Memory, n, s.Memory),
		Others:   addAmounts(r.Others, n, s.Others),
	}
}

// addAmounts merges two sorted lists into a new one, or answers the first
// where the second has nothing to add.
func addAmounts(a []Amount, n int, b []Amount) []Amount {
	if len(b) == 0 {
		return a
	}
	sum := make([]Amount, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			sum, a = append(sum, a[0]), a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			sum, b = append(sum, Amount{Name: b[0].Name, Value: addSaturated(0, n, b[0].Value)}), b[1:]
		default:
			sum = append(sum, Amount{Name: a[0].Name, Value: addSaturated(a[0].Value, n, b[0].Value)})
			a, b = a[1:], b[1:]
		}
	}
	return sum
}

// addSaturated is a + n*b, at most the largest int64. Requests are never
// negative; a negative one counts as zero.
func addSaturated(a int64, n int, b int64) int64 {
	hi, lo := bits.Mul64(uint64(max(n, 0)), uint64(max(b, 0)))
	sum, carry := bits.Add64(lo, uint64(max(a, 0)), 0)
	if hi != 0 || carry != 0 || sum > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(sum)
}
