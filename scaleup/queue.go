package scaleup

import (
	"cmp"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// Queue orders kinds of pods for placing them one after the other: by pod
// priority, then those that look at the pods around them, then those that
// fewer of the given nodes could take were they empty, then the larger ones,
// measured against the largest node. Who has few places to go so finds them
// before others fill them.
//
// It answers positions in kinds; fit is about these nodes and pods. Weights say
// how many nodes each of nodes stands for; nil means one each.
func Queue(fit *predicates.Fit, nodes []predicates.Node, weights []int) []int {
	kinds := fit.Kinds()
	waiting := make([]waiter, len(kinds))
	largest := largestOf(nodes)
	for k, kind := range kinds {
		w := waiter{around: looksAround(kind.Pod), size: largest.share(kind.Pod)}
		if kind.Pod.Spec.Priority != nil {
			w.priority = *kind.Pod.Spec.Priority
		}
		for n := range nodes {
			if !fit.Passes(n, k) {
				continue
			}
			if weights == nil {
				w.places++
			} else {
				w.places += weights[n]
			}
		}
		waiting[k] = w
	}
	order := everyIndex(len(kinds))
	slices.SortStableFunc(order, func(a, b int) int { return waiting[a].compare(waiting[b]) })
	return order
}

type waiter struct {
	priority int32
	around   bool
	places   int
	size     uint64
}

func (w waiter) compare(other waiter) int {
	if by := cmp.Compare(other.priority, w.priority); by != 0 {
		return by
	}
	if w.around != other.around {
		return wovenFirst(w.around)
	}
	return cmp.Or(cmp.Compare(w.places, other.places), cmp.Compare(other.size, w.size))
}

// looksAround tells pods for which it matters beside which other pods a node
// stands: those with a hard spread constraint or required pod affinity over
// anything wider than a host.
func looksAround(pod *v1.Pod) bool {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule && c.TopologyKey != v1.LabelHostname {
			return true
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return false
	}
	wider := func(term v1.PodAffinityTerm) bool { return term.TopologyKey != v1.LabelHostname }
	return affinity.PodAffinity != nil && slices.ContainsFunc(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, wider) ||
		affinity.PodAntiAffinity != nil && slices.ContainsFunc(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, wider)
}

// yardstick is what the largest of some nodes offers.
type yardstick struct{ milliCPU, memory uint64 }

func largestOf(nodes []predicates.Node) yardstick {
	y := yardstick{1, 1}
	for _, n := range nodes {
		y.milliCPU = max(y.milliCPU, uint64(max(0, n.Node.Status.Allocatable.Cpu().MilliValue())))
		y.memory = max(y.memory, uint64(max(0, n.Node.Status.Allocatable.Memory().Value())))
	}
	return y
}

// share is the part of such a node that a pod requests, cpu and memory added
// up, in millionths; a thousand nodes and more count the same.
func (y yardstick) share(pod *v1.Pod) uint64 {
	r := expander.RequestsOf(pod)
	return part(uint64(max(0, r.MilliCPU)), y.milliCPU) + part(uint64(max(0, r.Memory)), y.memory)
}

func part(of, whole uint64) uint64 {
	const million, most = 1_000_000, 1_000_000_000
	hi, lo := bits.Mul64(of, million)
	if hi >= whole {
		return most
	}
	share, _ := bits.Div64(hi, lo, whole)
	return min(share, most)
}
