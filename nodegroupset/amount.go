package nodegroupset

import (
	"math/big"
	"math/bits"

	"k8s.io/apimachinery/pkg/api/resource"
)

// amount is a quantity in thousandths as a 128-bit two's complement integer: the
// thousandths of a large disk's bytes do not fit 64 bits.
type amount struct {
	hi int64
	lo uint64
}

// amountBits bounds the magnitude of an amount, so that differences and products
// with a ratio's denominator fit the arithmetic below.
const amountBits = 96

// nanosPerMilli is how far below a thousandth a Quantity can tell values apart.
const nanosPerMilli = 1_000_000

// toAmount converts to thousandths, rounded away from zero as Cluster Autoscaler
// does, and says how many billionths that added. It is false for amounts beyond
// every machine.
func toAmount(q resource.Quantity) (a amount, added int32, ok bool) {
	if units, ok := q.AsInt64(); ok {
		return milliOf(units), 0, true
	}
	if milli := q.MilliValue(); resource.NewMilliQuantity(milli, q.Format).Cmp(q) == 0 {
		return amount{hi: milli >> 63, lo: uint64(milli)}, 0, true
	}
	return decimalAmount(q.DeepCopy())
}

func milliOf(units int64) amount {
	hi, lo := bits.Mul64(uint64(units), 1000)
	if units < 0 {
		hi -= 1000 // the product took units for units + 2^64
	}
	return amount{hi: int64(hi), lo: lo}
}

// decimalAmount is toAmount for what does not fit a word in thousandths. It may
// change q.
func decimalAmount(q resource.Quantity) (a amount, added int32, ok bool) {
	const nano = 9
	dec := q.AsDec()
	value, scale := new(big.Int).Abs(dec.UnscaledBig()), int(dec.Scale())
	switch {
	case value.Sign() == 0:
		return amount{}, 0, true
	case scale < -2*nano || scale > 10*nano:
		return amount{}, 0, false
	case scale <= nano:
		value.Mul(value, exp10(nano-scale))
	default:
		value = ceilQuo(value, exp10(scale-nano))
	}
	milli := ceilQuo(value, big.NewInt(nanosPerMilli))
	if milli.BitLen() > amountBits {
		return amount{}, 0, false
	}
	rest := new(big.Int).Mul(milli, big.NewInt(nanosPerMilli))
	added = int32(rest.Sub(rest, value).Int64())
	word := new(big.Int).And(milli, new(big.Int).SetUint64(^uint64(0)))
	a = amount{hi: new(big.Int).Rsh(milli, 64).Int64(), lo: word.Uint64()}
	if dec.Sign() < 0 {
		negative := a.negated()
		a = amount{int64(negative.hi), negative.lo}
	}
	return a, added, true
}

// ceilQuo is the quotient of positive numbers, rounded up.
func ceilQuo(a, b *big.Int) *big.Int {
	q, m := new(big.Int).QuoRem(a, b, new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

func (a amount) compare(b amount) int {
	switch {
	case a == b:
		return 0
	case a.hi < b.hi, a.hi == b.hi && a.lo < b.lo:
		return -1
	}
	return 1
}

func (a amount) abs() magnitude {
	if a.hi >= 0 {
		return magnitude{uint64(a.hi), a.lo}
	}
	return a.negated()
}

// negated is the two's complement of the bits.
func (a amount) negated() magnitude {
	lo, borrow := bits.Sub64(0, a.lo, 0)
	hi, _ := bits.Sub64(0, uint64(a.hi), borrow)
	return magnitude{hi, lo}
}

// magnitude is an unsigned 128-bit integer.
type magnitude struct{ hi, lo uint64 }

func (m magnitude) less(o magnitude) bool {
	return m.hi < o.hi || m.hi == o.hi && m.lo < o.lo
}

func (m magnitude) big() *big.Int {
	out := new(big.Int).SetUint64(m.hi)
	return out.Or(out.Lsh(out, 64), new(big.Int).SetUint64(m.lo))
}

// spread returns larger - smaller and max(|larger|, |smaller|).
func spread(a, b amount) (diff, base magnitude) {
	if a.compare(b) < 0 {
		a, b = b, a
	}
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(uint64(a.hi), uint64(b.hi), borrow)
	diff, base = magnitude{hi, lo}, a.abs()
	if other := b.abs(); base.less(other) {
		base = other
	}
	return diff, base
}

// within decides larger - smaller <= ratio * max(|larger|, |smaller|), exactly.
// Equal amounts are always within.
func within(a, b amount, r Ratio) bool {
	if a == b {
		return true
	}
	diff, base := spread(a, b)
	d2, d1, d0 := diff.times(pow10[r.digits])
	b2, b1, b0 := base.times(r.num)
	if d2 != b2 {
		return d2 < b2
	}
	return d1 < b1 || d1 == b1 && d0 <= b0
}

// times returns the 192-bit product, the most significant word first.
func (m magnitude) times(f uint64) (w2, w1, w0 uint64) {
	carry, w0 := bits.Mul64(m.lo, f)
	w2, w1 = bits.Mul64(m.hi, f)
	w1, c := bits.Add64(w1, carry, 0)
	return w2 + c, w1, w0
}
