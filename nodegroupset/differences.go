package nodegroupset

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
)

// Difference is one field in which two groups differ. Amounts are in their
// canonical form.
type Difference struct {
	Field    string // capacity.cpu, free.memory, labels[pool], taints[dedicated:NoSchedule]
	Left     string
	Right    string
	HasLeft  bool // false: the field is missing on the left, Left is empty
	HasRight bool
	Ratio    string // how much amounts differ against the larger one; empty for limit equal
	Limit    string // "equal" or the ratio they may differ by
}

// limitEqual is the limit of fields that have to be equal.
const limitEqual = "equal"

// MarshalJSON writes a side only where the field is present there.
func (d Difference) MarshalJSON() ([]byte, error) {
	side := func(value string, has bool) *string {
		if !has {
			return nil
		}
		return &value
	}
	return json.Marshal(struct {
		Field string  `json:"field"`
		Left  *string `json:"left,omitempty"`
		Right *string `json:"right,omitempty"`
		Ratio string  `json:"ratio,omitempty"`
		Limit string  `json:"limit"`
	}{d.Field, side(d.Left, d.HasLeft), side(d.Right, d.HasRight), d.Ratio, d.Limit})
}

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
		d := Difference{Field: "policy", Limit: limitEqual}
		d.Left, d.HasLeft = x.setName(left)
		d.Right, d.HasRight = x.setName(right)
		return []Difference{d}
	}
	if left.set > 0 {
		return nil
	}
	var out []Difference
	for m := range x.rule.mismatches(left, right) {
		out = append(out, m.difference())
	}
	return out
}

// setName is the name of a group's declared set.
func (x *Index) setName(e *entry) (name string, declared bool) {
	if e.set == 0 {
		return "", false
	}
	return x.options.Policies[e.set-1].Name, true
}

// Pair is two groups that differ.
type Pair struct {
	Left        string       `json:"left"`
	Right       string       `json:"right"`
	Differences []Difference `json:"differences"`
}

// firstMembers returns the first member of every set of Sets.
func firstMembers(sets [][]string) []string {
	out := make([]string, len(sets))
	for i, set := range sets {
		out[i] = set[0]
	}
	return out
}

// Pairs compares every two sets by their first members and returns, in name
// order, those that differ in at most the given number of fields; all of them
// where it is negative.
func (x *Index) Pairs(maxFields int) []Pair {
	var out []Pair
	firsts := firstMembers(x.Sets())
	for i, left := range firsts {
		for _, right := range firsts[i+1:] {
			if maxFields < 0 || x.countFields(left, right, maxFields+1) <= maxFields {
				out = append(out, Pair{left, right, x.Differences(left, right)})
			}
		}
	}
	return out
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

// mismatch is a field in which two groups differ.
type mismatch interface {
	field() string
	difference() Difference
}

// measureMismatch is two amounts of one resource; nil is a side without it.
type measureMismatch struct {
	left, right *measure
	limit       Ratio
}

func (m measureMismatch) any() *measure { return orOther(m.left, m.right) }

func (m measureMismatch) field() string { return m.any().field() }

func (m measureMismatch) gap() gap { return gapBetween(m.left.value(), m.right.value()) }

// value is the amount of a measure, and zero if there is none.
func (m *measure) value() amount {
	if m == nil {
		return amount{}
	}
	return m.amount
}

func (m measureMismatch) difference() Difference {
	d := Difference{Field: m.field(), HasLeft: m.left != nil, HasRight: m.right != nil, Limit: limitEqual}
	if m.left != nil {
		d.Left = m.left.text()
	}
	if m.right != nil {
		d.Right = m.right.text()
	}
	// To Cluster Autoscaler itself a resource that one side does not list is a difference, whatever the ratio.
	if !m.any().exactly() && !within(m.left.value(), m.right.value(), m.limit) {
		d.Ratio, d.Limit = m.gap().text(m.limit), m.limit.String()
	}
	return d
}

// labelMismatch is two values of one label; nil is a side without it.
type labelMismatch struct{ left, right *label }

func (m labelMismatch) difference() Difference {
	d := Difference{
		Field: m.field(), HasLeft: m.left != nil, HasRight: m.right != nil, Limit: limitEqual,
	}
	if m.left != nil {
		d.Left = m.left.value
	}
	if m.right != nil {
		d.Right = m.right.value
	}
	return d
}

func (m labelMismatch) key() string   { return orOther(m.left, m.right).key }
func (m labelMismatch) field() string { return labelField(m.key()) }

func labelField(key string) string { return "labels[" + key + "]" }

// missingLabel is a label that decides and that neither side has.
type missingLabel struct{ key string }

func (m missingLabel) field() string { return labelField(m.key) }

func (m missingLabel) difference() Difference {
	return Difference{Field: m.field(), Limit: limitEqual}
}

// taintMismatch is the values of the taints of one key and effect. Several
// values are possible, though no API server lets them in.
type taintMismatch struct{ left, right []taint }

func (m taintMismatch) field() string {
	first := slices.Concat(m.left, m.right)[0]
	return "taints[" + first.key + ":" + first.effect + "]"
}

func (m taintMismatch) difference() Difference {
	return Difference{
		Field: m.field(),
		Left:  taintValues(m.left), HasLeft: len(m.left) > 0,
		Right: taintValues(m.right), HasRight: len(m.right) > 0,
		Limit: limitEqual,
	}
}

func taintValues(taints []taint) string {
	values := make([]string, len(taints))
	for i, t := range taints {
		values[i] = t.value
	}
	return strings.Join(values, ",")
}

func (r *fullRule) mismatches(a, b *entry) iter.Seq[mismatch] {
	return func(yield func(mismatch) bool) {
		for left, right := range merge(a.facts.measures, b.facts.measures, compareMeasures) {
			if !r.agree(left, right) && !yield(measureMismatch{left, right, r.limits[orOther(left, right).kind]}) {
				return
			}
		}
		if !yieldLabels(a.labels, b.labels, yield) {
			return
		}
		left, right := taintGroups(a.facts.taints), taintGroups(b.facts.taints)
		for left, right := range merge(left, right, compareTaintGroups) {
			m := taintMismatch{deref(left), deref(right)}
			if !slices.Equal(m.left, m.right) && !yield(m) {
				return
			}
		}
	}
}

// agree reports whether two measures of one kind and resource make no difference.
func (r *fullRule) agree(left, right *measure) bool {
	if orOther(left, right).exactly() {
		return left.value() == right.value() && left.excess() == right.excess()
	}
	return within(left.value(), right.value(), r.limits[orOther(left, right).kind])
}

func (m *measure) excess() int32 {
	if m == nil {
		return 0
	}
	return m.added
}

func (r *chosenLabelsRule) mismatches(a, b *entry) iter.Seq[mismatch] {
	return func(yield func(mismatch) bool) {
		for _, key := range r.keys {
			left, right := findLabel(a.labels, key), findLabel(b.labels, key)
			var m mismatch = labelMismatch{left, right}
			switch {
			case left == nil && right == nil:
				m = missingLabel{key}
			case left != nil && right != nil && *left == *right:
				continue
			}
			if !yield(m) {
				return
			}
		}
	}
}

func findLabel(labels []label, key string) *label {
	i, ok := slices.BinarySearchFunc(labels, key, func(l label, key string) int { return strings.Compare(l.key, key) })
	if !ok {
		return nil
	}
	return &labels[i]
}

func yieldLabels(a, b []label, yield func(mismatch) bool) bool {
	for left, right := range merge(a, b, func(x, y *label) int { return strings.Compare(x.key, y.key) }) {
		if (left == nil || right == nil || *left != *right) && !yield(labelMismatch{left, right}) {
			return false
		}
	}
	return true
}

// taintGroups cuts sorted taints into those of one key and effect.
func taintGroups(taints []taint) [][]taint {
	var out [][]taint
	for i, t := range taints {
		if i == 0 || t.key != taints[i-1].key || t.effect != taints[i-1].effect {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], t)
	}
	return out
}

func compareTaintGroups(a, b *[]taint) int {
	x, y := (*a)[0], (*b)[0]
	x.value, y.value = "", ""
	return x.compare(y)
}

func compareMeasures(a, b *measure) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	return strings.Compare(a.resource, b.resource)
}

// merge walks two sorted lists side by side; nil is a side without an equal.
func merge[T any](a, b []T, compare func(x, y *T) int) iter.Seq2[*T, *T] {
	return func(yield func(x, y *T) bool) {
		for len(a) > 0 || len(b) > 0 {
			var x, y *T
			var order int
			switch {
			case len(b) == 0:
				order = -1
			case len(a) == 0:
				order = 1
			default:
				order = compare(&a[0], &b[0])
			}
			if order <= 0 {
				x, a = &a[0], a[1:]
			}
			if order >= 0 {
				y, b = &b[0], b[1:]
			}
			if !yield(x, y) {
				return
			}
		}
	}
}

func orOther[T any](x, y *T) *T {
	if x != nil {
		return x
	}
	return y
}

func deref[T any](p *[]T) []T {
	if p == nil {
		return nil
	}
	return *p
}
