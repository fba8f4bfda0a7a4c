package expander

import (
	"math/big"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var price = Strategy{
	Name: "price",
	Help: "the lowest price for the pods placed",
	Doc: "Keeps the options with the lowest price of all new nodes, divided by the worth of the pods they place: " +
		"requested cores, plus one core per 8 GiB of requested memory, plus a hundredth of a core per pod so that pods without requests count. " +
		"An option without a price loses against one with a price; where none has one, all are kept. " +
		"Unlike Cluster Autoscaler there is no preferred node size and no penalty for GPUs: what a node costs is in its price.",
	Filter: func(_ Config, options []Option) []Result {
		return keepBest(options, measureCost, cost.compare, cost.String)
	},
}

const (
	// memoryPerCore is the memory that is worth one core: about the ratio of
	// the public clouds' prices.
	memoryPerCore = 8 << 30

	// milliCoresPerPod is what a pod is worth for being a pod.
	milliCoresPerPod = 10
)

// cost is the price of an option: micros per hour for so many milli-cores' worth of pods.
type cost struct {
	known         bool
	total         *big.Int
	worth, perOne *big.Rat
}

func measureCost(o Option) cost {
	if !o.HasPrice {
		return cost{}
	}
	c := cost{known: true, total: new(big.Int).Mul(big.NewInt(int64(o.NodePrice)), big.NewInt(int64(o.NodeCount)))}
	memory := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(o.Requested[v1.ResourceMemory]), big.NewInt(1000)), big.NewInt(memoryPerCore))
	pods := new(big.Int).Mul(big.NewInt(int64(o.Pods)), big.NewInt(milliCoresPerPod))
	cores := new(big.Int).Add(pods, big.NewInt(o.Requested[v1.ResourceCPU]))
	c.worth = memory.Add(memory, new(big.Rat).SetInt(cores))
	if c.worth.Sign() > 0 {
		c.perOne = new(big.Rat).Quo(new(big.Rat).SetInt(c.total), c.worth)
	}
	return c
}

// compare puts the cheaper first, behind all prices an option that places
// nothing for its price, and last one without a price.
func (c cost) compare(other cost) int {
	if c.rank() != other.rank() || c.rank() != 0 {
		return c.rank() - other.rank()
	}
	return c.perOne.Cmp(other.perOne)
}

func (c cost) rank() int {
	switch {
	case !c.known:
		return 2
	case c.perOne == nil:
		return 1
	default:
		return 0
	}
}

func (c cost) String() string {
	if !c.known {
		return "price unknown"
	}
	units := new(big.Rat).SetFrac(c.total, big.NewInt(int64(cloudprovider.PriceUnit)))
	cores := new(big.Rat).Quo(c.worth, big.NewRat(1000, 1))
	s := units.FloatString(4) + " an hour for " + cores.FloatString(2) + " cores' worth of pods"
	if c.perOne == nil {
		return s
	}
	each := new(big.Rat).Quo(units, cores)
	return s + ", " + each.FloatString(4) + " each"
}
