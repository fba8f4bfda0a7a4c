package scaleup

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// ledger keeps count of sizes and limits while nodes are given out.
type ledger struct {
	groups []Group // by name
	quotas []quota
	grown  map[string]int64 // nodes given to each group so far
	terms  map[string]*nodegroupset.Terms
	most   map[string]int64 // nodes that groups are given at most, where there is such a bound
}

func newLedger(w *World, o *Options) *ledger {
	l := &ledger{groups: w.Groups, quotas: o.Limits.quotas(w), grown: map[string]int64{}}
	if !o.DisableBalancing {
		l.terms = o.terms(w)
	}
	return l
}

// terms are how declared sets share nodes, by group.
func (o *Options) terms(w *World) map[string]*nodegroupset.Terms {
	nodes := make(map[string]*v1.Node, len(w.Groups))
	for i := range w.Groups {
		if g := &w.Groups[i]; g.Template != nil && !g.AllOrNothing {
			nodes[g.ID] = g.Template.Node
		}
	}
	return o.Similarity.Declared(nodes)
}

// fork is a ledger for a what-if.
func (l *ledger) fork() *ledger {
	return &ledger{groups: l.groups, quotas: slices.Clone(l.quotas), grown: maps.Clone(l.grown), terms: l.terms, most: l.most}
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

// split divides nodes over groups, by their policy within their bounds and all
// limits, and books what each gets. Other groups of a declared set count for the
// policy too, and get nothing. Nodes are those of the chosen group, or else of the
// first. Classes say which of the groups may get how many of the nodes. Groups on trial get no more
// than one node as long as others can take the rest.
func (l *ledger) split(nodes int64, chosen string, groups []string, classes ...nodegroupset.Class) (nodegroupset.SplitResult, error) {
	request := nodegroupset.SplitRequest{Nodes: nodes, Groups: l.sizes(groups), Classes: classes}
	if slices.Contains(groups, chosen) {
		request.Chosen = chosen
	}
	for i, name := range groups {
		if l.group(name).OnTrial {
			request.Groups[i].Reserve = l.beyondTrial(&request.Groups[i])
		}
	}
	request.Quotas = splitQuotas(l.quotas, request.Groups)
	if terms := l.terms[groups[0]]; terms != nil {
		for _, g := range l.sizes(terms.Except(groups)) {
			g.Min, g.Max = 0, g.Size
			request.Groups = append(request.Groups, g)
		}
		request = terms.Of(request, cmp.Or(request.Chosen, groups[0]))
	}
	result, err := nodegroupset.Split(request)
	if err != nil {
		return nodegroupset.SplitResult{}, err
	}
	for _, g := range result.Groups {
		l.give(g.Name, g.NewSize-g.Size)
	}
	return result, nil
}

// inOrder puts groups of a declared set in the order in which they would get one node
// each.
func (l *ledger) inOrder(groups []string, chosen string) []string {
	left := slices.Clone(groups)
	var order []string
	for len(left) > 0 {
		result, err := l.fork().split(1, chosen, left)
		at := slices.IndexFunc(result.Groups, func(g nodegroupset.GroupSplit) bool { return g.NewSize > g.Size })
		if err != nil || at < 0 {
			break
		}
		next := result.Groups[at].Name
		order = append(order, next)
		left = slices.DeleteFunc(left, func(name string) bool { return name == next })
	}
	return append(order, left...)
}

func (l *ledger) sizes(groups []string) []nodegroupset.Group {
	sizes := make([]nodegroupset.Group, len(groups))
	for i, name := range groups {
		g := l.group(name)
		sizes[i] = nodegroupset.Group{
			Name: name, Size: l.counted(name), Min: int64(min(g.Min, g.Max)), Max: min(int64(g.Max+g.Lag), nodegroupset.MaxSize), Weight: 1,
		}
		if most, bound := l.most[name]; bound {
			sizes[i].Max = min(sizes[i].Max, sizes[i].Size-l.grown[name]+most)
			sizes[i].Min = min(sizes[i].Min, sizes[i].Max)
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
