package nodegroupset

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/apportion"
)

// ratioDigits is the largest number of decimals of a Ratio; 10^18 fits a word.
const ratioDigits = 18

// Ratio is an exact decimal between 0 and 1: how much two amounts may differ,
// measured against the larger one. The zero value is 0, which lets only equal
// amounts pass.
type Ratio struct {
	num    uint64 // in units of 10^-digits
	digits int
}

// defaultRatios are Cluster Autoscaler's.
var defaultRatios = ratios{capacity: {num: 15, digits: 3}, allocatable: {num: 5, digits: 2}, free: {num: 5, digits: 2}}

// ParseRatio reads a decimal such as 0.015 or 1.5e-2. It is exact: what has more
// than 18 decimals or lies outside 0..1 is refused with an *apportion.InvalidError.
func ParseRatio(s string) (Ratio, error) {
	refuse := func(reason string) (Ratio, error) {
		return Ratio{}, apportion.Invalid("", s, reason)
	}
	const wrong, outside = "must be a decimal number between 0 and 1", "must be between 0 and 1"
	mantissa, negative := strings.CutPrefix(s, "-")
	exponent := 0
	if at := strings.IndexAny(mantissa, "eE"); at >= 0 {
		var err error
		exponent, err = strconv.Atoi(mantissa[at+1:])
		if err != nil || exponent < -999 || exponent > 999 {
			return refuse(wrong)
		}
		mantissa = mantissa[:at]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	number := whole + fraction
	if number == "" || strings.Trim(number, "0123456789") != "" {
		return refuse(wrong)
	}
	digits := len(fraction) - exponent
	number = strings.TrimLeft(number, "0")
	for digits > ratioDigits && strings.HasSuffix(number, "0") {
		number, digits = number[:len(number)-1], digits-1
	}
	switch {
	case number == "":
		return Ratio{digits: min(max(digits, 0), ratioDigits)}, nil
	case negative, len(number) > digits+1:
		return refuse(outside)
	case digits > ratioDigits:
		return refuse("must have at most 18 decimals")
	case digits < 0:
		return refuse(outside)
	}
	num, err := strconv.ParseUint(number, 10, 64)
	if err != nil || num > pow10[digits] {
		return refuse(outside)
	}
	return Ratio{num: num, digits: digits}, nil
}

// String returns the decimal with the digits it was given with.
func (r Ratio) String() string {
	if r.digits == 0 {
		return strconv.FormatUint(r.num, 10)
	}
	den := pow10[r.digits]
	return fmt.Sprintf("%d.%0*d", r.num/den, r.digits, r.num%den)
}

// compare orders by value: 0.05 and 0.050 are the same ratio.
func (r Ratio) compare(o Ratio) int { return r.rat().Cmp(o.rat()) }

func (r Ratio) rat() *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(r.num), new(big.Int).SetUint64(pow10[r.digits]))
}

var pow10 = func() (p [ratioDigits + 1]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// gap is how much two amounts differ against the larger one, exactly: diff/base,
// 0 where both are zero.
type gap struct{ diff, base *big.Int }

func gapBetween(a, b amount) gap {
	diff, base := spread(a, b)
	if base == (magnitude{}) {
		base.lo = 1
	}
	return gap{diff.big(), base.big()}
}

// text rounds to the nearest at 4 decimals, and at more where 4 would not show
// that the limit is exceeded. It must exceed the limit.
func (g gap) text(limit Ratio) string {
	for places := 4; ; places++ {
		scaled := g.scaled(2, places)
		scaled.Add(scaled, g.base)
		scaled.Quo(scaled, new(big.Int).Lsh(g.base, 1))
		rounded := new(big.Rat).SetFrac(scaled, exp10(places))
		if rounded.Cmp(limit.rat()) > 0 {
			return rounded.FloatString(places)
		}
	}
}

// needed returns the smallest ratio of at most 4 decimals that lets the amounts
// pass, and false where even 1 does not.
func (g gap) needed() (Ratio, bool) {
	const places = 4
	up := g.scaled(1, places)
	up.Add(up, g.base)
	up.Sub(up, big.NewInt(1))
	up.Quo(up, g.base)
	if up.Cmp(exp10(places)) > 0 {
		return Ratio{}, false
	}
	return Ratio{num: up.Uint64(), digits: places}.short(), true
}

// short drops the zeros at the end.
func (r Ratio) short() Ratio {
	for r.digits > 0 && r.num%10 == 0 {
		r.num, r.digits = r.num/10, r.digits-1
	}
	return r
}

func (g gap) scaled(factor int64, places int) *big.Int {
	out := new(big.Int).Mul(g.diff, big.NewInt(factor))
	return out.Mul(out, exp10(places))
}

func exp10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
