package expander

import (
	"cmp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// represent returns one option per set, and every option that stands in none,
// sorted by name. A set is stood for by the member that takes the most pods,
// then needs the fewest nodes, then comes first by name. The step says who
// stands for whom.
func represent(options []Option) ([]Option, Step) {
	var chosen []Option
	step := Step{Strategy: SetStep}
	for _, set := range sets(options) {
		best := slices.MinFunc(set, standing)
		for _, o := range set {
			best.members = append(best.members, o.Group)
			v := Result{Figure: "in the set of " + best.Group}
			if o.Group == best.Group {
				v = Result{Kept: true, Figure: standsFor(best, set)}
			}
			step.Options = append(step.Options, OptionResult{Group: o.Group, Result: v})
		}
		chosen = append(chosen, best)
	}
	step.sort()
	slices.SortFunc(chosen, byName)
	return chosen, step
}

// sets divides the options by their set, each part sorted by name.
func sets(options []Option) [][]Option {
	var parts [][]Option
	part := make(map[string]int, len(options))
	for _, o := range slices.SortedFunc(slices.Values(options), byName) {
		at, ok := part[o.Set]
		if !ok || o.Set == "" {
			at = len(parts)
			part[o.Set] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], o)
	}
	return parts
}

// standing orders options by their claim to stand for a set.
func standing(a, b Option) int {
	return cmp.Or(
		cmp.Compare(b.Pods, a.Pods),
		cmp.Compare(a.NodeCount, b.NodeCount),
		byName(a, b))
}

func standsFor(best Option, set []Option) string {
	figure := spelling.Count(best.Pods, "pod") + " on " + spelling.Count(best.NodeCount, "node")
	var others []string
	for _, o := range set {
		if o.Group != best.Group {
			others = append(others, o.Group)
		}
	}
	if len(others) == 0 {
		return figure
	}
	return figure + ", stands for " + strings.Join(others, ", ")
}
