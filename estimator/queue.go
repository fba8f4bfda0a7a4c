package estimator

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
)

// Queue orders kinds of pods for placing them one after the other: by pod priority, then those to which
// it matters what runs on other nodes of a node's topology domain wider than a host, then those that fit
// on fewer of the given nodes if these were empty, then the larger ones, measured against the largest
// node. Pods that fit in few places come first, before other pods fill these.
//
// It returns positions in fit.Kinds(). Fit must be about these nodes. Weights say how many nodes
// each of nodes stands for; nil means one each.
func Queue(fit *predicates.Fit, nodes []predicates.Node, weights []int) []int {
	var cpu, memory int64
	for _, n := range nodes {
		c, m := allocatable(n.Node)
		cpu, memory = max(cpu, c), max(memory, m)
	}
	kinds := fit.Kinds()
	waiting, order := make([]waiter, len(kinds)), make([]int, len(kinds))
	for k, kind := range kinds {
		w := waiter{priority: ptr.Deref(kind.Pod.Spec.Priority, 0), size: sizeOn(cpu, memory, podfit.Requests(kind.Pod))}
		if dependsOnDomain(kind.Pod) {
			w.wider = 1
		}
		for n := range nodes {
			switch {
			case !fit.Passes(n, k):
			case weights == nil:
				w.places++
			default:
				w.places += weights[n]
			}
		}
		waiting[k], order[k] = w, k
	}
	slices.SortStableFunc(order, func(a, b int) int { return waiting[a].compare(waiting[b]) })
	return order
}

type waiter struct {
	priority int32
	wider    int // 1: what runs on other nodes of a domain wider than a host matters
	places   int
	size     size
}

func (w waiter) compare(other waiter) int {
	return cmp.Or(cmp.Compare(other.priority, w.priority), cmp.Compare(other.wider, w.wider),
		cmp.Compare(w.places, other.places), other.size.compare(w.size))
}

// dependsOnDomain reports whether a pod has a hard spread constraint, or a required pod affinity or
// anti-affinity, over domains wider than a host.
func dependsOnDomain(pod *v1.Pod) bool {
	affinity, anti := podfit.PodTerms(pod)
	widerSpread := func(c v1.TopologySpreadConstraint) bool { return c.TopologyKey != v1.LabelHostname }
	widerTerm := func(t v1.PodAffinityTerm) bool { return t.TopologyKey != v1.LabelHostname }
	return slices.ContainsFunc(podfit.HardSpread(pod), widerSpread) || slices.ContainsFunc(slices.Concat(affinity, anti), widerTerm)
}
