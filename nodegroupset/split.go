package nodegroupset

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// Policy says what the sizes of a set aim at.
type Policy string

// The policies of a split.
const (
	// PolicyEven makes sizes as equal as they can be. It is the default: the
	// empty Policy means the same.
	PolicyEven Policy = "Even"
	// PolicyProportional makes final sizes proportional to the weights, by
	// largest remainder, with today's sizes as lower bounds.
	PolicyProportional Policy = "Proportional"
	// PolicyPriority fills one group after the other in the order of the list.
	PolicyPriority Policy = "Priority"
)

// SplitReason says what held a group at its new size.
type SplitReason string

// The reasons, the first that applies.
const (
	ReasonOverMax SplitReason = "overMax" // above its maximum: left alone
	ReasonMax     SplitReason = "max"     // held at its maximum
	ReasonMin     SplitReason = "min"     // raised to its minimum, or as near as the nodes lasted
	ReasonQuota   SplitReason = "quota"   // held by a Cap; Detail names it
)

// Group is one node group of a split. All numbers are 0..2^31-1, the weight
// 0..2^63-1.
type Group struct {
	Name string
	// Size is the target size.
	Size int64
	// Min and Max bound the size; a group above Max is left alone.
	Min, Max int64
	// Weight counts under PolicyProportional only; with 0 a group gets nothing
	// beyond its minimum.
	Weight int64
}

// Cap bounds several groups together: the sum over Groups of Units times the
// final size is at most Limit. Units nil counts one per node. Caps go with
// PolicyEven only.
type Cap struct {
	Name   string
	Groups []string
	Units  []int64
	Limit  int64
}

// SplitRequest asks how many nodes go to which group.
type SplitRequest struct {
	// Nodes to add, 0 or more.
	Nodes  int64
	Policy Policy
	// Chosen is the group that comes first among equals; it may be empty.
	Chosen string
	// Groups have unique names; their order matters for PolicyPriority only.
	Groups []Group
	Caps   []Cap
}

// SplitResult is the answer, with the groups in the order of the request.
type SplitResult struct {
	Groups   []GroupSplit
	Unplaced int64 // nodes that no group had room for
}

// GroupSplit is one group's part.
type GroupSplit struct {
	Name          string
	Size, NewSize int64
	Reason        SplitReason // empty where no bound held the group
	Detail        string      // the name of the Cap that held it
}

// Split answers the NodeGroupSplit document. Nodes are only ever added. A group
// below its minimum is raised to it first, the smallest first, as far as the
// nodes last; the rest follows the policy. Equal claims are settled by the
// chosen group first, then by name. The cost does not grow with the number of
// nodes. The error is an *InvalidError.
func Split(r SplitRequest) (SplitResult, error) {
	if err := r.validate(); err != nil {
		return SplitResult{}, err
	}
	order := r.tieOrder()
	bins := make([]apportion.Bin, len(order))
	for i, g := range order {
		bins[i] = apportion.Bin{Size: r.Groups[g].Size, Min: r.Groups[g].Min, Max: r.Groups[g].Max}
	}
	levelled, err := r.apply(order, bins)
	if err != nil {
		return SplitResult{}, err
	}
	result := SplitResult{Groups: make([]GroupSplit, len(order)), Unplaced: levelled.Unplaced}
	for i, g := range order {
		result.Groups[g] = r.explain(r.Groups[g], levelled.Sizes[i], levelled.HeldBy[i])
	}
	return result, nil
}

// tieOrder lists the groups as equal claims are settled: the chosen one, then
// by name.
func (r SplitRequest) tieOrder() []int {
	order := make([]int, len(r.Groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := r.Groups[a].Name, r.Groups[b].Name
		switch r.Chosen {
		case "":
		case x:
			return -1
		case y:
			return 1
		}
		return cmp.Compare(x, y)
	})
	return order
}

func (r SplitRequest) apply(order []int, bins []apportion.Bin) (apportion.Levelled, error) {
	if r.Policy == PolicyEven || r.Policy == "" {
		return apportion.Level(r.Nodes, bins, r.caps(order))
	}
	raised, err := raiseToMin(r.Nodes, bins)
	if err != nil {
		return apportion.Levelled{}, err
	}
	claims := make([]apportion.Claim, len(bins))
	var placed, room int64
	for i, bin := range bins {
		claims[i] = apportion.Claim{Weight: r.Groups[order[i]].Weight, Low: raised.Sizes[i], High: max(bin.Max, raised.Sizes[i])}
		if r.Policy == PolicyProportional && claims[i].Weight == 0 || bin.Size > bin.Max {
			claims[i].High = claims[i].Low
		}
		placed += claims[i].Low
		room += claims[i].High - claims[i].Low
	}
	give := min(raised.Unplaced, room)
	raised.Unplaced -= give
	raised.Sizes = r.share(order, claims, placed+give)
	return raised, nil
}

// share divides the total of the final sizes. Groups above their maximum take
// no part: they are bounded by what they are.
func (r SplitRequest) share(order []int, claims []apportion.Claim, total int64) []int64 {
	if r.Policy == PolicyProportional {
		return apportion.Spread(total, claims, apportion.LargestRemainder)
	}
	listed := make([]apportion.Claim, len(claims))
	for i, g := range order {
		listed[g] = claims[i]
	}
	filled := apportion.Fill(total, listed)
	sizes := make([]int64, len(claims))
	for i, g := range order {
		sizes[i] = filled[g]
	}
	return sizes
}

// raiseToMin gives nodes only to groups below their minimum; Unplaced is what
// is left for the policy.
func raiseToMin(nodes int64, bins []apportion.Bin) (apportion.Levelled, error) {
	floors := slices.Clone(bins)
	for i, bin := range bins {
		floors[i].Max = min(bin.Max, max(bin.Min, bin.Size))
	}
	return apportion.Level(nodes, floors, nil)
}

func (r SplitRequest) caps(order []int) []apportion.Cap {
	position := make(map[string]int, len(order))
	for i, g := range order {
		position[r.Groups[g].Name] = i
	}
	caps := make([]apportion.Cap, len(r.Caps))
	for i, c := range r.Caps {
		caps[i] = apportion.Cap{Units: c.Units, Limit: max(0, c.Limit)}
		for _, name := range c.Groups {
			caps[i].Members = append(caps[i].Members, position[name])
		}
	}
	return caps
}

func (r SplitRequest) explain(g Group, size int64, heldBy int) GroupSplit {
	out := GroupSplit{Name: g.Name, Size: g.Size, NewSize: size}
	switch {
	case g.Size > g.Max:
		out.Reason = ReasonOverMax
	case size == g.Max:
		out.Reason = ReasonMax
	case heldBy >= 0 && r.even():
		out.Reason, out.Detail = ReasonQuota, r.Caps[heldBy].Name
	case size > g.Size && size <= g.Min:
		out.Reason = ReasonMin
	}
	return out
}

func (r SplitRequest) even() bool { return r.Policy == PolicyEven || r.Policy == "" }

func (r SplitRequest) validate() error {
	if r.Nodes < 0 {
		return &InvalidError{"nodes", r.Nodes, "must not be negative"}
	}
	switch r.Policy {
	case "", PolicyEven, PolicyProportional, PolicyPriority:
	default:
		return &InvalidError{"policy", string(r.Policy), "must be Even, Proportional or Priority"}
	}
	if len(r.Groups) == 0 {
		return &InvalidError{"groups", "[]", "must have at least one group"}
	}
	names := make(map[string]bool, len(r.Groups))
	for i, g := range r.Groups {
		if err := g.validate(fmt.Sprintf("groups[%d]", i)); err != nil {
			return err
		}
		if names[g.Name] {
			return &InvalidError{fmt.Sprintf("groups[%d].name", i), g.Name, "must be unique"}
		}
		names[g.Name] = true
	}
	if r.Chosen != "" && !names[r.Chosen] {
		return &InvalidError{"chosen", r.Chosen, "must be the name of a group"}
	}
	return r.validateCaps(names)
}

func (g Group) validate(path string) error {
	if g.Name == "" {
		return &InvalidError{path + ".name", g.Name, "must not be empty"}
	}
	for _, f := range []struct {
		field string
		value int64
	}{{"size", g.Size}, {"min", g.Min}, {"max", g.Max}} {
		switch {
		case f.value < 0:
			return &InvalidError{path + "." + f.field, f.value, "must not be negative"}
		case f.value > math.MaxInt32:
			return &InvalidError{path + "." + f.field, f.value, "must be at most 2147483647"}
		}
	}
	if g.Min > g.Max {
		return &InvalidError{path + ".min", g.Min, fmt.Sprintf("must not be above max (%d)", g.Max)}
	}
	if g.Weight < 0 {
		return &InvalidError{path + ".weight", g.Weight, "must not be negative"}
	}
	return nil
}

func (r SplitRequest) validateCaps(names map[string]bool) error {
	if len(r.Caps) > 0 && !r.even() {
		return &InvalidError{"caps", len(r.Caps), "go with policy Even only"}
	}
	for i, c := range r.Caps {
		path := fmt.Sprintf("caps[%d]", i)
		if c.Units != nil && len(c.Units) != len(c.Groups) {
			return &InvalidError{path + ".units", c.Units, "must be one for each of groups"}
		}
		for j, name := range c.Groups {
			if !names[name] || slices.Contains(c.Groups[:j], name) {
				return &InvalidError{fmt.Sprintf("%s.groups[%d]", path, j), name, "must be the name of a group, once"}
			}
		}
		if slices.ContainsFunc(c.Units, func(u int64) bool { return u < 0 }) {
			return &InvalidError{path + ".units", c.Units, "must not be negative"}
		}
	}
	return nil
}
