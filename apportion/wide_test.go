package apportion

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

// word is a number of 64 bits in which long runs of equal bits are likely.
func (d dice) word() uint64 {
	high, low := uint64(d(math.MaxInt64)), uint64(d(math.MaxInt64))
	return pick(d, 0, 1, math.MaxUint64, 1<<63, 1<<63-1, high<<1|low>>62, high>>d(63), math.MaxUint64<<d(64), math.MaxUint64-low>>d(63))
}

func (a wide) big() *big.Int {
	value := new(big.Int).SetUint64(a.hi)
	return value.Or(value.Lsh(value, 64), new(big.Int).SetUint64(a.lo))
}

func TestMultiplyDivideEqualsBigIntegers(t *testing.T) {
	checked := 0
	forAll(t, 200_000, func(d dice) error {
		a, b, divisor := wide{d.word(), d.word()}, d.word(), wide{d.word(), d.word()}
		if divisor == (wide{}) {
			return nil
		}
		product := new(big.Int).Mul(a.big(), new(big.Int).SetUint64(b))
		quotient, rest := new(big.Int).QuoRem(product, divisor.big(), new(big.Int))
		if !quotient.IsUint64() {
			return nil
		}
		checked++
		q, r := multiplyDivide(a, b, divisor)
		if q != quotient.Uint64() || r.big().Cmp(rest) != 0 {
			return fmt.Errorf("%v*%d/%v = %d rest %v; want %v rest %v", a, b, divisor, q, r, quotient, rest)
		}
		return nil
	})
	if checked < 50_000 {
		t.Errorf("only %d cases with a quotient of 64 bits", checked)
	}
}

func TestCompareProductsEqualsBigIntegers(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		a, b, c, e := wide{d.word(), d.word()}, d.word(), wide{d.word(), d.word()}, d.word()
		left := new(big.Int).Mul(a.big(), new(big.Int).SetUint64(b))
		right := new(big.Int).Mul(c.big(), new(big.Int).SetUint64(e))
		if got := compareProducts(a, b, c, e); got != left.Cmp(right) {
			return fmt.Errorf("%v*%d against %v*%d: %d", a, b, c, e, got)
		}
		return nil
	})
}
