package nodegroupset

import (
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// classLevelling levels the nodes of several classes at once. Bins are in the order in which equals
// are served.
//
// The sizes are those that result if node after node goes to the smallest bin that can have it,
// where nodes that were given out before may move within their classes to make room. What classes
// can fill is a polymatroid, so these sizes are the most even ones: whatever convex function of the
// sizes is added up, none has a smaller sum, and the largest size, then the second largest and so
// on, are as small as can be. They are found without looking at single nodes (Fujishige 1980,
// Groenevelt 1991): level all nodes as if every class had all bins as members; if the classes cannot
// fill the bins like that, those bins that get too few have to take all nodes of their classes, and
// these and the others are levelled separately.
type classLevelling struct {
	bins      []apportion.Bin
	preferred []int64 // sizes up to which bins are preferred to those beyond theirs
	nodes     []int64 // of each class
	sizes     []int64
	*flow
	leveller
}

// fit lowers the nodes of the classes to what has room, in all and at most so many. The first
// classes are served first.
func (l *classLevelling) fit(most int64) {
	classes, bins := everyIndex(len(l.nodes)), everyIndex(len(l.bins))
	l.begin(classes, bins, func(b int) int64 { return max(0, l.bins[b].Max-l.bins[b].Size) })
	for c := range l.nodes {
		l.nodes[c] = l.send(c, min(l.nodes[c], most), classes)
		most -= l.nodes[c]
	}
}

// levelClasses levels the nodes of classes over bins, as they have room there.
func (l *classLevelling) levelClasses(classes, bins []int) {
	total := int64(0)
	for _, c := range classes {
		total += l.nodes[c]
	}
	l.levelFreely(bins, total)
	room := func(b int) int64 { return l.sizes[b] - l.bins[b].Size }
	l.begin(classes, bins, room)
	whole := true
	for _, c := range classes {
		whole = l.send(c, l.nodes[c], classes) == l.nodes[c] && whole
	}
	if whole {
		l.begin(classes, bins, room)
		l.assign(classes)
		return
	}
	short, others := divide(bins, func(b int) bool { return l.full[b] })
	stuck, free := divide(classes, func(c int) bool { return l.stuck[c] })
	l.levelClasses(stuck, short)
	l.levelClasses(free, others)
}

// levelFreely levels nodes over bins as if all of them could go anywhere.
func (l *classLevelling) levelFreely(bins []int, nodes int64) {
	some := make([]apportion.Bin, len(bins))
	for i, b := range bins {
		some[i] = l.bins[b]
		some[i].Max = min(some[i].Max, l.preferred[b])
		some[i].Min = min(some[i].Min, some[i].Max)
	}
	levelled := l.level(nodes, some, nil)
	if levelled.Unplaced > 0 {
		for i, b := range bins {
			some[i] = l.bins[b]
			some[i].Size = levelled.Sizes[i]
		}
		levelled = l.level(levelled.Unplaced, some, nil)
	}
	for i, b := range bins {
		l.sizes[b] = levelled.Sizes[i]
	}
}

// assign says which bins the nodes of each class go to: one class after the other is levelled as
// far as the sizes allow, and nodes move where they must.
func (l *classLevelling) assign(classes []int) {
	for _, c := range classes {
		bins := slices.DeleteFunc(slices.Clone(l.members[c]), func(b int) bool { return l.full[b] })
		some := make([]apportion.Bin, len(bins))
		for i, b := range bins {
			some[i] = apportion.Bin{Size: l.sizes[b] - l.room[b], Max: l.sizes[b]}
		}
		levelled := l.level(l.nodes[c], some, nil)
		for i, b := range bins {
			l.put(c, b, levelled.Sizes[i]-some[i].Size)
		}
		l.send(c, levelled.Unplaced, classes)
	}
}

// divide sorts items into those that a condition holds for and the others.
func divide(items []int, holds func(int) bool) (those, others []int) {
	for _, i := range items {
		if holds(i) {
			those = append(those, i)
		} else {
			others = append(others, i)
		}
	}
	return those, others
}

func everyIndex(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
