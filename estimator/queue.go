package estimator

import (
	"cmp"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// Queue orders kinds of pods for placing them one after the other: by pod priority, then those for
// which DependsOnDomain is true, then those that fit on fewer of the given nodes if these were
// empty, then the larger ones, measured against the largest node. Pods that fit in few places come
// first, before other pods fill these.
//
// It returns positions in fit.Kinds(). Fit must be about these nodes. Weights say how many nodes
// each of nodes stands for; nil means one each.
func Queue(fit *predicates.Fit, nodes []predicates.Node, weights []int) []int {
	kinds := fit.Kinds()
	waiting := make([]waiter, len(kinds))
	largest := largestOf(nodes)
	for k, kind := range kinds {
		w := waiter{around: DependsOnDomain(kind.Pod), size: largest.share(kind.Pod)}
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
	order := make([]int, len(kinds))
	for i := range order {
		order[i] = i
	}
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
		if w.around {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(w.places, other.places), cmp.Compare(other.size, w.size))
}

// DependsOnDomain reports whether it matters to a pod which pods run on other nodes of a node's
// topology domain: whether it has a hard spread constraint, or a required pod affinity or
// anti-affinity, over domains wider than a host.
func DependsOnDomain(pod *v1.Pod) bool {
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

// yardstick is the largest allocatable amounts of some nodes.
type yardstick struct{ milliCPU, memory uint64 }

func largestOf(nodes []predicates.Node) yardstick {
	y := yardstick{1, 1}
	for _, n := range nodes {
		y.milliCPU = max(y.milliCPU, uint64(max(0, n.Node.Status.Allocatable.Cpu().MilliValue())))
		y.memory = max(y.memory, uint64(max(0, n.Node.Status.Allocatable.Memory().Value())))
	}
	return y
}

// share is the part of such a node that a pod requests: the sum of the parts of cpu and memory, in
// millionths. More than a thousand nodes count as a thousand.
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
