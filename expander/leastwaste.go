package expander

import (
	"math/big"

	v1 "k8s.io/api/core/v1"
)

var leastWaste = Strategy{
	Name: "least-waste",
	Help: "the smallest part of the new nodes' cpu and memory left idle (default)",
	Doc: "Keeps the options that leave the least idle: the unrequested part of the new nodes' cpu plus the unrequested " +
		"part of their memory, measured on the template's capacity and compared exactly. The figure shown is the mean of the two parts. " +
		"Pods count with what the scheduler reserves for them, init containers and overhead included.",
	Filter: func(_ Config, options []Option) []Result {
		return keepBest(options, measureWaste, waste.compare, waste.String)
	},
}

// waste is the idle part of the new nodes, as exact fractions of 1.
type waste struct {
	cpu, memory, sum *big.Rat
}

func measureWaste(o Option) waste {
	var capacity v1.ResourceList
	if o.Template.Node != nil {
		capacity = o.Template.Node.Status.Capacity
	}
	w := waste{
		cpu:    idle(o.Requested[v1.ResourceCPU], capacity.Cpu().MilliValue(), o.NodeCount),
		memory: idle(o.Requested[v1.ResourceMemory], capacity.Memory().Value(), o.NodeCount),
	}
	w.sum = new(big.Rat).Add(w.cpu, w.memory)
	return w
}

// idle is the part of n nodes' capacity that is not requested. Nodes without
// any capacity waste all of it: they must not win for lack of a divisor.
func idle(requested, capacity int64, n int) *big.Rat {
	if capacity <= 0 || n <= 0 {
		return big.NewRat(1, 1)
	}
	total := new(big.Int).Mul(big.NewInt(capacity), big.NewInt(int64(n)))
	return new(big.Rat).SetFrac(new(big.Int).Sub(total, big.NewInt(requested)), total)
}

func (w waste) compare(other waste) int { return w.sum.Cmp(other.sum) }

func (w waste) String() string {
	mean := new(big.Rat).Mul(w.sum, big.NewRat(1, 2))
	return percent(mean) + " wasted (cpu " + percent(w.cpu) + ", memory " + percent(w.memory) + ")"
}

func percent(r *big.Rat) string {
	return new(big.Rat).Mul(r, big.NewRat(100, 1)).FloatString(2) + " %"
}
