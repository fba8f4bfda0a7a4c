package nodegroupset

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// fingerprint is what decides with whom a group is similar: groups are similar
// when neither is alone, their exact parts are equal and their numbers are within
// the ratios. That is the case exactly if there is no mismatch between their traits.
type fingerprint struct {
	exact   []byte   // what must be equal; valid until the next print
	numbers []number // the tolerant part, by dimension, without zeros
	alone   bool     // similar to no group, not even to an equal one
}

// number is an amount in one dimension of the tolerant part.
type number struct {
	dim    int32
	amount amount
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

// print makes the fingerprint of traits. The exact part is a byte string in which every piece says
// what it is and carries its length, so that different contents never look alike.
func (p *printer) print(traits []trait) fingerprint {
	out := fingerprint{numbers: make([]number, 0, len(traits))}
	buf := p.buffer[:0]
	for i := range traits {
		t := &traits[i]
		out.alone = out.alone || t.never
		zero := t.amount() == amount{}
		if t.listed || t.exactly() && !zero {
			buf = appendText(appendText(append(buf, byte(t.kind)), t.key), t.effect)
		}
		switch {
		case t.measure == nil:
			buf = appendText(buf, t.value)
		case !t.exactly():
			out.numbers = p.number(out.numbers, t.measure)
		case t.listed || !zero:
			buf = appendAmount(buf, t.measure)
		}
	}
	slices.SortFunc(out.numbers, func(a, b number) int { return cmp.Compare(a.dim, b.dim) })
	p.buffer, out.exact = buf, buf
	return out
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

func appendText(buf []byte, s string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(s))), s...)
}

func appendAmount(buf []byte, m *measure) []byte {
	buf = binary.BigEndian.AppendUint64(buf, uint64(m.amount.hi))
	buf = binary.BigEndian.AppendUint64(buf, m.amount.lo)
	return binary.BigEndian.AppendUint32(buf, uint32(m.added))
}
