package expander

import (
	"cmp"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

var leastNodesDefinition = Definition{
	Name: "least-nodes",
	Help: "the fewest new nodes",
	Doc: "Keeps the options that add the fewest nodes, hence the largest machines. An option that places few pods " +
		"also needs few nodes, so it goes well behind `most-pods`.",
	New: func(Config) (Strategy, error) { return leastNodes{}, nil },
}

type leastNodes struct{}

func (leastNodes) Name() string { return leastNodesDefinition.Name }

func (leastNodes) Filter(options []Option) []Result {
	return keepBest(options,
		func(o Option) int { return o.NodeCount },
		cmp.Compare[int],
		func(n int) string { return spelling.Count(n, "node") })
}
