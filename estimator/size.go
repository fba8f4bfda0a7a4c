package estimator

import (
	"cmp"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
)

// largestFirst orders demands by the size of their pods on the node. Demands of one size stay in their
// order. It returns indexes.
func largestFirst(node *v1.Node, demands []Demand) []int {
	cpu, memory := allocatable(node)
	sizes := make([]size, len(demands))
	order := make([]int, len(demands))
	for i, d := range demands {
		sizes[i] = sizeOn(cpu, memory, podfit.Requests(d.Pod))
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return sizes[b].compare(sizes[a]) })
	return order
}

// allocatable is what a node has of cpu, in thousandths, and of memory.
func allocatable(n *v1.Node) (milliCPU, memory int64) {
	return max(n.Status.Allocatable.Cpu().MilliValue(), 0), max(n.Status.Allocatable.Memory().Value(), 0)
}

// size is the requested part of a node's cpu plus that of its memory. As a 128-bit number: on one node
// the sums of the two parts share the denominator cpu * memory, so comparing the numerators is exact.
type size struct{ hi, lo uint64 }

func sizeOn(cpu, memory int64, r podfit.Resources) size {
	milliCPU, bytes := uint64(r[v1.ResourceCPU]), uint64(r[v1.ResourceMemory])
	switch { // a part of nothing counts as none
	case cpu == 0 && memory == 0:
		return size{}
	case cpu == 0:
		return size{lo: bytes}
	case memory == 0:
		return size{lo: milliCPU}
	}
	cpuHi, cpuLo := bits.Mul64(milliCPU, uint64(memory))
	memoryHi, memoryLo := bits.Mul64(bytes, uint64(cpu))
	lo, carry := bits.Add64(cpuLo, memoryLo, 0)
	hi, _ := bits.Add64(cpuHi, memoryHi, carry) // two products below 2^126 each
	return size{hi, lo}
}

func (s size) compare(other size) int {
	return cmp.Or(cmp.Compare(s.hi, other.hi), cmp.Compare(s.lo, other.lo))
}
