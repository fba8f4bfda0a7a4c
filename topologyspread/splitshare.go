package topologyspread

import (
	"maps"
	"slices"
)

// Share has somebody else say which groups the new nodes of a result are of. Each domain gets as many
// as before, and the domains take turns in the order of their names: next returns which of the groups
// of a domain gets the next node there, -1 for none. Share reports whether all nodes found a group; if
// not, the result stays as it was.
func (r *SplitRequest) Share(result *SplitResult, next func(groups []string) int) bool {
	type domain struct {
		groups []string
		at     []int // in the request
		left   int64
	}
	byName := map[string]*domain{}
	shared := slices.Clone(result.Groups)
	for i, g := range result.Groups {
		d := byName[r.Groups[i].Domain]
		if d == nil {
			d = &domain{}
			byName[r.Groups[i].Domain] = d
		}
		d.groups, d.at, d.left = append(d.groups, g.Name), append(d.at, i), d.left+g.NewSize-g.Size
		shared[i].NewSize = g.Size
	}
	names := slices.Sorted(maps.Keys(byName))
	for {
		names = slices.DeleteFunc(names, func(name string) bool { return byName[name].left == 0 })
		if len(names) == 0 {
			result.Groups = shared
			return true
		}
		for _, name := range names {
			d := byName[name]
			i := next(d.groups)
			if i < 0 {
				return false
			}
			shared[d.at[i]].NewSize++
			d.left--
		}
	}
}
