package scaleup

import (
	"cmp"
	"maps"
	"slices"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// ledger keeps count of sizes and limits while nodes are given out.
type ledger struct {
	groups []Group // by name
	quotas []quota
	grown  map[string]int64 // nodes given to each group so far
}

func newLedger(w *World, limits Limits) *ledger {
	return &ledger{groups: w.Groups, quotas: limits.quotas(w), grown: map[string]int64{}}
}

// fork is a ledger for a what-if.
func (l *ledger) fork() *ledger {
	return &ledger{groups: l.groups, quotas: slices.Clone(l.quotas), grown: maps.Clone(l.grown)}
}

func (l *ledger) group(name string) *Group {
	i, found := slices.BinarySearchFunc(l.groups, name, func(g Group, name string) int { return cmp.Compare(g.ID, name) })
	if !found {
		return &Group{ID: name}
	}
	return &l.groups[i]
}

// size is the group's target size with what it was given.
func (l *ledger) size(name string) int64 { return int64(l.group(name).Target) + l.grown[name] }

// counted is the size of a group as it is levelled: one that has come back from a zonal shift counts
// as larger than it is.
func (l *ledger) counted(name string) int64 { return l.size(name) + int64(l.group(name).Lag) }

// give books nodes for a group.
func (l *ledger) give(name string, nodes int64) {
	l.grown[name] += nodes
	grow(l.quotas, name, nodes)
}

// split divides nodes over groups, within their bounds and all limits, and
// books what each gets.
func (l *ledger) split(nodes int64, chosen string, groups []string) (nodegroupset.SplitResult, error) {
	request := nodegroupset.SplitRequest{Nodes: nodes, Groups: l.sizes(groups)}
	if slices.Contains(groups, chosen) {
		request.Chosen = chosen
	}
	request.Quotas = splitQuotas(l.quotas, request.Groups)
	result, err := nodegroupset.Split(request)
	if err != nil {
		return nodegroupset.SplitResult{}, err
	}
	for _, g := range result.Groups {
		l.give(g.Name, g.NewSize-g.Size)
	}
	return result, nil
}

func (l *ledger) sizes(groups []string) []nodegroupset.Group {
	sizes := make([]nodegroupset.Group, len(groups))
	for i, name := range groups {
		g := l.group(name)
		sizes[i] = nodegroupset.Group{
			Name: name, Size: l.counted(name), Min: int64(min(g.Min, g.Max)), Max: min(int64(g.Max+g.Lag), nodegroupset.MaxSize), Weight: 1,
		}
	}
	return sizes
}

// room is how many of limit nodes these groups could still take together.
// Groups of which no split can be made have none: they are left alone.
func (l *ledger) room(groups []string, limit int64) int64 {
	result, err := l.fork().split(limit, "", groups)
	if err != nil {
		return 0
	}
	return limit - result.Unplaced
}
