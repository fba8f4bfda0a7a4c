package apportion

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// wide is an unsigned number of 128 bits, which holds the sum of any number of 64-bit values. Its
// methods do not check for overflow.
type wide struct{ hi, lo uint64 }

func (a wide) plus(b uint64) wide {
	lo, carry := bits.Add64(a.lo, b, 0)
	return wide{a.hi + carry, lo}
}

func (a wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return wide{hi, lo}
}

func (a wide) compare(b wide) int {
	switch {
	case a == b:
		return 0
	case a.hi < b.hi || a.hi == b.hi && a.lo < b.lo:
		return -1
	}
	return 1
}

// times is the product a*b in three words, the highest first.
func (a wide) times(b uint64) [3]uint64 {
	carry, low := bits.Mul64(a.lo, b)
	high, middle := bits.Mul64(a.hi, b)
	middle, c := bits.Add64(middle, carry, 0)
	return [3]uint64{high + c, middle, low}
}

// compareProducts compares a*b with c*d.
func compareProducts(a wide, b uint64, c wide, d uint64) int {
	x, y := a.times(b), c.times(d)
	return slices.Compare(x[:], y[:])
}

// compareFractions compares a/b with c/d; b and d are not zero.
func compareFractions(a, b, c, d uint64) int {
	leftHigh, leftLow := bits.Mul64(a, d)
	rightHigh, rightLow := bits.Mul64(c, b)
	return wide{leftHigh, leftLow}.compare(wide{rightHigh, rightLow})
}

// multiplyDivide is a*b/d, rounded down, and the remainder. The quotient must fit into 64 bits.
func multiplyDivide(a wide, b uint64, d wide) (uint64, wide) {
	n := a.times(b)
	if d.hi == 0 {
		quotient, rest := bits.Div64(n[1], n[2], d.lo)
		return quotient, wide{0, rest}
	}
	quotient, rest := new(big.Int).QuoRem(number(n[:]...), number(d.hi, d.lo), new(big.Int))
	var text [16]byte
	rest.FillBytes(text[:])
	return quotient.Uint64(), wide{binary.BigEndian.Uint64(text[:8]), binary.BigEndian.Uint64(text[8:])}
}

// number is the number of the words, the highest first.
func number(words ...uint64) *big.Int {
	var text []byte
	for _, word := range words {
		text = binary.BigEndian.AppendUint64(text, word)
	}
	return new(big.Int).SetBytes(text)
}

// addUpTo is a+b, or the largest number if the sum is larger.
func addUpTo(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// multiplyUpTo is a*b, or the largest number if the product is larger.
func multiplyUpTo(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 {
		return math.MaxUint64
	}
	return low
}
