package nodegroupset

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// fingerprint is what decides with whom a group is similar: groups are similar
// when neither is alone, their exact parts are equal and their numbers are within
// the ratios.
type fingerprint struct {
	labels  []label  // that are compared
	exact   []byte   // labels, taints and exact capacities; valid until the next print
	numbers []number // the tolerant part, by dimension, without zeros
	alone   bool     // similar to no group, not even to an equal one
}

// number is an amount in one dimension of the tolerant part.
type number struct {
	dim    int32
	amount amount
}

// rule makes fingerprints. There is one for evenkeel's comparison, one for
// label-only mode and one for Cluster Autoscaler's own.
type rule interface {
	print(f *facts, p *printer) fingerprint
	ratios() ratios
	// mismatches yields every field in which two groups differ, in the order of
	// Differences.
	mismatches(a, b *entry) iter.Seq[mismatch]
}

// printer keeps what fingerprints of one index share.
type printer struct {
	dims   map[dimension]int32
	ratios []Ratio // by dimension
	limits ratios
	buffer []byte
}

type dimension struct {
	kind     kind
	resource string
}

func newPrinter(limits ratios) *printer {
	return &printer{dims: map[dimension]int32{}, limits: limits}
}

// number adds a measure to the tolerant part.
func (p *printer) number(list []number, m *measure) []number {
	if m.amount == (amount{}) {
		return list
	}
	dim := dimension{m.kind, m.resource}
	id, ok := p.dims[dim]
	if !ok {
		id = int32(len(p.ratios))
		p.dims[dim] = id
		p.ratios = append(p.ratios, p.limits[m.kind])
	}
	return append(list, number{id, m.amount})
}

func sortNumbers(list []number) {
	slices.SortFunc(list, func(a, b number) int { return cmp.Compare(a.dim, b.dim) })
}

// similar compares tolerant parts. What is missing counts as zero.
func (p *printer) similar(a, b []number) bool {
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		var x, y amount
		var dim int32
		switch {
		case j == len(b) || i < len(a) && a[i].dim < b[j].dim:
			dim, x = a[i].dim, a[i].amount
			i++
		case i == len(a) || b[j].dim < a[i].dim:
			dim, y = b[j].dim, b[j].amount
			j++
		default:
			dim, x, y = a[i].dim, a[i].amount, b[j].amount
			i, j = i+1, j+1
		}
		if !within(x, y, p.ratios[dim]) {
			return false
		}
	}
	return true
}

// The exact part is a byte string in which every piece carries its length, so
// that different contents never look alike.

func appendText(buf []byte, s string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(s))), s...)
}

func appendLabels(buf []byte, labels []label) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(labels)))
	for _, l := range labels {
		buf = appendText(appendText(buf, l.key), l.value)
	}
	return buf
}

func appendTaints(buf []byte, taints []taint) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(taints)))
	for _, t := range taints {
		buf = appendText(appendText(appendText(buf, t.key), t.effect), t.value)
	}
	return buf
}

func appendMeasure(buf []byte, m *measure) []byte {
	buf = append(appendText(buf, m.resource), byte(m.kind))
	buf = binary.BigEndian.AppendUint64(buf, uint64(m.amount.hi))
	buf = binary.BigEndian.AppendUint64(buf, m.amount.lo)
	return binary.BigEndian.AppendUint32(buf, uint32(m.added))
}

// exactly reports whether a measure must be equal on both sides.
func (m *measure) exactly() bool {
	return m.kind == capacity && m.resource != string(v1.ResourceMemory)
}

// fullRule is the product's comparison.
type fullRule struct {
	labels *labelRule
	limits ratios
}

func (r *fullRule) ratios() ratios { return r.limits }

func (r *fullRule) print(f *facts, p *printer) fingerprint {
	out := fingerprint{labels: r.labels.compared(f), numbers: make([]number, 0, len(f.measures))}
	p.buffer = appendTaints(appendLabels(p.buffer[:0], out.labels), f.taints)
	for i := range f.measures {
		m := &f.measures[i]
		switch {
		case !m.exactly():
			out.numbers = p.number(out.numbers, m)
		case m.amount != amount{}:
			p.buffer = appendMeasure(p.buffer, m)
		}
	}
	sortNumbers(out.numbers)
	out.exact = p.buffer
	return out
}

// chosenLabelsRule is label-only mode: each key must be present on both sides
// and equal.
type chosenLabelsRule struct{ keys []string } // sorted, without repetition

func newChosenLabelsRule(keys []string) *chosenLabelsRule {
	sorted := slices.Clone(keys)
	slices.Sort(sorted)
	return &chosenLabelsRule{slices.Compact(sorted)}
}

func (r *chosenLabelsRule) ratios() ratios { return ratios{} }

func (r *chosenLabelsRule) print(f *facts, p *printer) fingerprint {
	var out fingerprint
	for _, key := range r.keys {
		if value, ok := f.lookup(key); ok {
			out.labels = append(out.labels, label{key, value})
		}
	}
	out.alone = len(out.labels) < len(r.keys)
	p.buffer = appendLabels(p.buffer[:0], out.labels)
	out.exact = p.buffer
	return out
}
