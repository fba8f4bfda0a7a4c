package apportion

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// wide is an unsigned number of 128 bits: room for the sum of any number of
// 64-bit values. Nothing here checks for overflow beyond that.
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
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
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
	return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(x[2], y[2]))
}

// compareFractions compares a/b with c/d; b and d are not zero.
func compareFractions(a, b, c, d uint64) int {
	leftHigh, leftLow := bits.Mul64(a, d)
	rightHigh, rightLow := bits.Mul64(c, b)
	return cmp.Or(cmp.Compare(leftHigh, rightHigh), cmp.Compare(leftLow, rightLow))
}

// multiplyDivide is a*b/d, rounded down, and the rest. The quotient must fit 64 bits.
func multiplyDivide(a wide, b uint64, d wide) (uint64, wide) {
	if a.hi == 0 && d.hi == 0 {
		if high, low := bits.Mul64(a.lo, b); high < d.lo {
			quotient, rest := bits.Div64(high, low, d.lo)
			return quotient, wide{0, rest}
		}
	}
	product := a.big()
	product.Mul(product, new(big.Int).SetUint64(b))
	quotient, rest := product.QuoRem(product, d.big(), new(big.Int))
	low := new(big.Int).And(rest, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	return quotient.Uint64(), wide{rest.Rsh(rest, 64).Uint64(), low}
}

func (a wide) big() *big.Int {
	value := new(big.Int).SetUint64(a.hi)
	return value.Or(value.Lsh(value, 64), new(big.Int).SetUint64(a.lo))
}

// addUpTo is a+b, or the largest number there is.
func addUpTo(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// multiplyUpTo is a*b, or the largest number there is.
func multiplyUpTo(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 {
		return math.MaxUint64
	}
	return low
}
