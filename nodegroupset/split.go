package nodegroupset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/apportion"
)

// Policy says how new nodes are shared.
type Policy string

const (
	// Even adds every node to the smallest group that has room. It is the default:
	// the empty Policy means the same.
	Even Policy = "Even"
	// Proportional makes the final sizes proportional to the weights, by largest
	// remainder, no group losing a node. A group of weight 0 gets nothing beyond
	// its min.
	Proportional Policy = "Proportional"
	// Priority fills the groups in the order of the list.
	Priority Policy = "Priority"
)

// MaxSize is the largest size, min and max of a group.
const MaxSize = math.MaxInt32

// SplitRequest asks to which groups new nodes go.
type SplitRequest struct {
	Nodes  int64  // how many to add in all, 0 or more
	Policy Policy // Even when empty
	Chosen string // the group that is first in line among equals; may be empty
	Groups []Group
	Quotas []Quota
	// Portions are what the policy shares between, in the order of their priority;
	// without any, every group is a portion of its own.
	Portions []Portion
	// NodeCapacity is what one of Nodes stands for, in the unit of Group.Capacity:
	// that much capacity is added in all, or up to a node more. With 0 the new nodes
	// are counted, whatever their capacities are. A node of a class stands for one of
	// the chosen group if that is a member, and else for one of its first member.
	NodeCapacity int64
	// Classes say which groups may get how many of the nodes; without any, all groups
	// may get all of them.
	Classes []Class
}

// Group is a node group as it stands. Size is its target size; Size, Min and Max
// are 0..MaxSize. Weight counts for Proportional only, where 0 is no share beyond
// Base, which is as that of a Portion; both count without Portions only.
type Group struct {
	Name                         string
	Size, Min, Max, Weight, Base int64
	// Capacity is what a node of the group counts for, such as its milli-cores or
	// mebibytes of memory, 0..MaxSize. The policy shares capacity then, not nodes. All
	// groups have one, or none.
	Capacity int64
	// Reserve is how many of the nodes up to Max the group gets only if no other group
	// has room for them, 0..Max.
	Reserve int64
}

// Quota is a bound over several groups: the sum of Units times the final size of
// each must not exceed Limit, what they hold today included. Units nil counts
// 1 each. A quota that is exceeded already keeps its groups from growing; so does
// a negative Limit, which is what remains where others have used up more than all
// of it. Name is only repeated in the answer and need not be unique.
type Quota struct {
	Name   string
	Groups []string
	Units  []int64
	Limit  int64
}

// Reason says what held a group where it is.
type Reason string

const (
	ReasonNone        Reason = ""
	ReasonAtMax       Reason = "max"     // it is at its max
	ReasonOverMax     Reason = "overMax" // it is above its max and left alone
	ReasonRaisedToMin Reason = "min"     // it was below its min and got nodes for that only
	ReasonQuota       Reason = "quota"   // a Quota, named in Detail, kept nodes away
	ReasonReserve     Reason = "reserve" // only its Reserve is left
)

// GroupSplit is what happens to one group.
type GroupSplit struct {
	Name    string
	Size    int64 // before
	NewSize int64 // at least Size
	Reason  Reason
	Detail  string // the name of the quota
}

// SplitResult is the answer of Split: every group in the order of the request.
type SplitResult struct {
	Groups   []GroupSplit
	Classes  []ClassSplit // in the order of the request
	Unplaced int64        // nodes no group had room for
}

// Split shares new nodes over groups. Groups below their min are raised first,
// the smallest before others, as far as the nodes last; then the policy decides.
// Groups over their max are left alone, and no group loses a node. Equal claims
// are settled by the chosen group first and then by name, those of portions in the
// order of the list, so the order of the groups matters for policy Priority and
// for groups that have a base only.
//
// The nodes of classes are levelled all at once: the sizes are the most even ones
// that there are, whichever groups the classes have in common. As many nodes are
// placed as the groups have room for; if that is not all, classes with few members
// are served first. Under other policies than Even, and under quotas over several
// groups that stand in the way, the nodes of one class after the other are shared,
// those with few members first.
//
// With quotas in nodes that lie within or beside each other as many nodes are placed
// as fit. Quotas in other units and quotas that cross are never exceeded, but a
// cleverer plan may place more.
// The cost does not grow with the number of nodes. An impossible request is
// refused with an *apportion.InvalidError.
func Split(request SplitRequest) (SplitResult, error) {
	byName, err := request.check()
	if err != nil {
		return SplitResult{}, err
	}
	if len(request.Classes) > 0 {
		return request.splitClasses(byName)
	}
	return request.splitReserving(byName)
}

// split shares nodes that all groups may get. It changes the order of names.
func (r SplitRequest) split(byName []int) (SplitResult, error) {
	unplaced := func(left int64) int64 { return left }
	uneven := r.capacitiesDiffer()
	if !uneven {
		r, unplaced = r.counted()
	}
	s := newSplitter(r, r.tieOrder(byName))
	switch {
	case uneven:
		s.shareByCapacity()
	case r.Policy != Proportional && r.Policy != Priority && !r.hasBases():
		s.even()
	default:
		s.shareByPortions()
	}
	if s.err != nil {
		return SplitResult{}, fmt.Errorf("split: %w", s.err)
	}
	s.left = unplaced(s.left)
	return s.result(), nil
}

// check refuses what cannot be split, and answers the order of names.
func (r SplitRequest) check() (order []int, err error) {
	if r.Nodes < 0 {
		return nil, apportion.Invalid("nodes", r.Nodes, notNegative)
	}
	switch r.Policy {
	case "", Even, Proportional, Priority:
	default:
		return nil, apportion.Invalid("policy", string(r.Policy), "must be Even, Proportional or Priority")
	}
	if len(r.Groups) == 0 {
		return nil, apportion.Invalid("groups", len(r.Groups), "at least one group is needed")
	}
	for i := range r.Groups {
		if err := r.Groups[i].check(i); err != nil {
			return nil, err
		}
	}
	order = r.byName()
	if i, twice := r.repeated(order); twice {
		return nil, apportion.Invalid(fmt.Sprintf("groups[%d].name", i), r.Groups[i].Name, "is listed twice")
	}
	if _, known := r.find(order, r.Chosen); r.Chosen != "" && !known {
		return nil, apportion.Invalid("chosen", r.Chosen, "is none of the groups")
	}
	isGroup := func(name string) bool { _, known := r.find(order, name); return known }
	for i, c := range r.Quotas {
		if err := c.check(i, isGroup); err != nil {
			return nil, err
		}
	}
	return order, cmp.Or(r.checkPortions(isGroup), r.checkClasses(isGroup), r.checkCapacities())
}

// byName lists the positions of the groups in the order of their names, and
// equal names in the order of the list.
func (r SplitRequest) byName() []int {
	order := everyIndex(len(r.Groups))
	compare := func(i, j int) int { return strings.Compare(r.Groups[i].Name, r.Groups[j].Name) }
	if !slices.IsSortedFunc(order, compare) {
		slices.SortStableFunc(order, compare)
	}
	return order
}

// repeated is the first position at which a name stands again.
func (r SplitRequest) repeated(order []int) (first int, found bool) {
	for k := 1; k < len(order); k++ {
		if r.Groups[order[k]].Name == r.Groups[order[k-1]].Name && (!found || order[k] < first) {
			first, found = order[k], true
		}
	}
	return first, found
}

// find is where a name stands in the order of names.
func (r SplitRequest) find(order []int, name string) (at int, known bool) {
	return slices.BinarySearchFunc(order, name, func(i int, name string) int { return strings.Compare(r.Groups[i].Name, name) })
}

const notNegative = "must not be negative"

func (g *Group) check(i int) error {
	if g.Size|g.Min|g.Max|g.Weight|g.Base|g.Capacity|g.Reserve >= 0 && max(g.Size, g.Max, g.Capacity) <= MaxSize &&
		max(g.Min, g.Reserve) <= g.Max && g.Name != "" && g.Name[0] > ' ' {
		return nil // no sign bit anywhere, nothing to refuse
	}
	err := checkGroup(i, g.Name, bounded{"size", g.Size, MaxSize}, bounded{"min", g.Min, MaxSize}, bounded{"max", g.Max, MaxSize},
		bounded{"weight", g.Weight, math.MaxInt64}, bounded{"base", g.Base, math.MaxInt64}, bounded{"capacity", g.Capacity, MaxSize},
		bounded{"reserve", g.Reserve, g.Max})
	if err == nil && g.Min > g.Max {
		err = apportion.Invalid(fmt.Sprintf("groups[%d].min", i), g.Min, fmt.Sprintf("must not be greater than max %d", g.Max))
	}
	return err
}

// bounded is a number of a group that is 0 or more.
type bounded struct {
	field       string
	value, most int64
}

// checkGroup refuses numbers of a group that are out of range, and a group without a name.
func checkGroup(i int, name string, numbers ...bounded) error {
	for _, n := range numbers {
		reason := notNegative
		switch {
		case n.value > n.most:
			reason = fmt.Sprintf("must not be greater than %d", n.most)
		case n.value >= 0:
			continue
		}
		return apportion.Invalid(fmt.Sprintf("groups[%d].%s", i, n.field), n.value, reason)
	}
	if strings.TrimSpace(name) == "" {
		return apportion.Invalid(fmt.Sprintf("groups[%d].name", i), name, "must not be empty")
	}
	return nil
}

func (c Quota) check(i int, isGroup func(string) bool) error {
	units := fmt.Sprintf("quotas[%d].units", i)
	if c.Units != nil && len(c.Units) != len(c.Groups) {
		return apportion.Invalid(units, len(c.Units), "must be as many as groups")
	}
	for k := range c.Units {
		if c.Units[k] < 0 {
			return apportion.Invalid(fmt.Sprintf("%s[%d]", units, k), c.Units[k], notNegative)
		}
	}
	return make(words, len(c.Groups)).addGroups(fmt.Sprintf("quotas[%d].groups", i), c.Groups, isGroup)
}

// addGroups refuses names that are none of the groups, or stand among the words already.
func (w words) addGroups(path string, names []string, isGroup func(string) bool) error {
	if i := slices.IndexFunc(names, func(name string) bool { return !isGroup(name) }); i >= 0 {
		return apportion.Invalid(fmt.Sprintf("%s[%d]", path, i), names[i], "is none of the groups")
	}
	return w.addAll(path, names)
}

// tieOrder turns the order of names into that in which equals are served.
func (r SplitRequest) tieOrder(order []int) []int {
	if at, known := r.find(order, r.Chosen); known {
		chosen := order[at]
		copy(order[1:at+1], order[:at])
		order[0] = chosen
	}
	return order
}
