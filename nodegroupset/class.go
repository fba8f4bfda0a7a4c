package nodegroupset

import (
	"cmp"
	"slices"
	"strings"
)

// Class is pods that can run on the same members of a set.
type Class struct {
	Members []string // in name order
	Items   []int    // pods, or kinds of pods, as the caller numbers them, in ascending order
	Nodes   int64    // that these need, for SplitRequest: how many the members get at most for them
}

// Classes sorts items 0 to n-1 into classes by the groups that take each of them, which takers
// returns in any order. An item that no group takes is in no class.
//
// Classes with few members come first, then the order is that of the members' names. Split levels
// the nodes of all of them at once.
func Classes(n int, takers func(item int) []string) []Class {
	byMembers := map[string]*Class{}
	for item := range n {
		members := slices.Sorted(slices.Values(takers(item)))
		if len(members) == 0 {
			continue
		}
		key := strings.Join(members, "\x00")
		if byMembers[key] == nil {
			byMembers[key] = &Class{Members: members}
		}
		byMembers[key].Items = append(byMembers[key].Items, item)
	}
	classes := make([]Class, 0, len(byMembers))
	for _, c := range byMembers {
		classes = append(classes, *c)
	}
	slices.SortFunc(classes, func(a, b Class) int {
		return a.compare(&b)
	})
	return classes
}

// Crossing reports whether two classes have only some of their members in common, so that neither
// has all members of the other. Members are in name order.
func Crossing(classes []Class) bool {
	for i := range classes {
		for k := range classes[:i] {
			a, b := classes[i].Members, classes[k].Members
			if common := inCommon(a, b); common > 0 && common < min(len(a), len(b)) {
				return true
			}
		}
	}
	return false
}

// inCommon is how many names two lists in name order have in common.
func inCommon(a, b []string) (n int) {
	for _, name := range a {
		if _, found := slices.BinarySearch(b, name); found {
			n++
		}
	}
	return n
}

// compare is the order in which classes are served.
func (c *Class) compare(other *Class) int {
	return cmp.Or(cmp.Compare(len(c.Members), len(other.Members)), slices.Compare(c.Members, other.Members))
}

// FirstOf maps every group to the first of its set. Groups that are alone in their set are left
// out.
func FirstOf(sets [][]string) map[string]string {
	first := map[string]string{}
	for _, set := range sets {
		if len(set) < 2 {
			continue
		}
		for _, name := range set {
			first[name] = set[0]
		}
	}
	return first
}
