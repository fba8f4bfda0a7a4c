package expander

import (
	"cmp"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

var leastNodes = Strategy{
	Name: "least-nodes",
	Help: "the fewest new nodes",
	Doc: "Keeps the options that add the fewest nodes, hence the largest machines. An option that places few pods " +
		"also needs few nodes, so it goes well behind `most-pods`.",
	Filter: func(_ Config, options []Option) []Result {
		return keepBest(options,
			func(o Option) int { return o.NodeCount },
			cmp.Compare[int],
			func(n int) string { return spelling.Count(n, "node") })
	},
}
