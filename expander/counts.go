package expander

import (
	"cmp"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

var mostPods = Strategy{
	Name: "most-pods",
	Help: "the most pending pods placed",
	Doc: "Keeps the options that place the most pending pods. Useful where some pods can run on few groups only, " +
		"and of little help where the same pods fit everywhere.",
	Filter: func(_ Config, options []Option) []Result {
		return keepBest(options,
			func(o Option) int { return o.Pods },
			func(a, b int) int { return cmp.Compare(b, a) },
			func(n int) string { return spelling.Count(n, "pod") })
	},
}

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
