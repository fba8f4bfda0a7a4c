package nodegroupset

import (
	"math"
)

// Difference is one field in which two groups differ. Amounts are in their
// canonical form.
type Difference struct {
	Field string  `json:"field"`           // capacity.cpu, free.memory, labels[pool], taints[dedicated:NoSchedule]
	Left  *string `json:"left,omitempty"`  // nil if the field is missing on the left
	Right *string `json:"right,omitempty"` // nil if it is missing on the right
	Ratio string  `json:"ratio,omitempty"` // how much amounts differ against the larger one; empty for limit equal
	Limit string  `json:"limit"`           // "equal" or the ratio they may differ by
}

// limitEqual is the limit of fields that have to be equal.
const limitEqual = "equal"

// Differences returns every field in which two groups differ: capacity,
// allocatable and free by resource name, then labels by key, then taints by key
// and effect. It is empty exactly for groups that are similar, and for names the
// index does not know. A group that is declared to be of a set differs from all others
// in that.
func (x *Index) Differences(a, b string) []Difference {
	left, right := x.groups[a], x.groups[b]
	if left == nil || right == nil {
		return nil
	}
	if left.set != right.set {
		return []Difference{{Field: "policy", Left: x.setName(left), Right: x.setName(right), Limit: limitEqual}}
	}
	if left.set > 0 {
		return nil
	}
	var out []Difference
	for m := range x.rule.mismatches(left, right) {
		out = append(out, m.difference(x.rule.limits))
	}
	return out
}

// setName is the name of a group's declared set; nil if there is none.
func (x *Index) setName(e *entry) *string {
	if e.set == 0 {
		return nil
	}
	return &x.options.Policies[e.set-1].Name
}

// Pair is two groups that differ.
type Pair struct {
	Left        string       `json:"left"`
	Right       string       `json:"right"`
	Differences []Difference `json:"differences"`
}

// Pairs compares every two sets by their first members and returns, in name
// order, those that differ in at most the given number of fields; all of them
// where it is negative.
func (x *Index) Pairs(maxFields int) []Pair {
	var out []Pair
	if maxFields < 0 {
		maxFields = math.MaxInt - 1
	}
	x.eachPair(x.Sets(), maxFields, func(left, right string, _ int) {
		out = append(out, Pair{left, right, x.Differences(left, right)})
	})
	return out
}

// eachPair visits the first members of every two sets that differ in at most so many fields.
func (x *Index) eachPair(sets [][]string, maxFields int, visit func(left, right string, fields int)) {
	for i, left := range sets {
		for _, right := range sets[i+1:] {
			if fields := x.countFields(left[0], right[0], maxFields+1); fields <= maxFields {
				visit(left[0], right[0], fields)
			}
		}
	}
}

// countFields counts the fields in which two groups differ, up to a limit. No remedy joins a group
// of a declared set with others, so such groups differ in as many.
func (x *Index) countFields(left, right string, limit int) int {
	if x.groups[left].set != x.groups[right].set {
		return limit
	}
	count := 0
	for range x.rule.mismatches(x.groups[left], x.groups[right]) {
		if count++; count >= limit {
			break
		}
	}
	return count
}
