package apportion

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

var roundings = []Rounding{LargestRemainder, Webster, DHondt}

func TestSpreadTable(t *testing.T) {
	weights := func(weights ...int64) (claims []Claim) {
		for _, w := range weights {
			claims = append(claims, Claim{Weight: w, High: unbounded})
		}
		return claims
	}
	tests := []struct {
		name                             string
		total                            int64
		claims                           []Claim
		largestRemainder, webster, dHont []int64
	}{
		{"nobody", 5, nil, []int64{}, []int64{}, []int64{}},
		{"90/5/5", 10, weights(90, 5, 5), []int64{9, 1, 0}, []int64{9, 1, 0}, []int64{10, 0, 0}},
		{"2:1", 2, weights(2, 1), []int64{1, 1}, []int64{1, 1}, []int64{2, 0}},
		{"3:2:1", 13, weights(3, 2, 1), []int64{7, 4, 2}, []int64{7, 4, 2}, []int64{7, 4, 2}},
		{"170:110:60 with 5", 5, weights(170, 110, 60), []int64{2, 2, 1}, []int64{2, 2, 1}, []int64{3, 1, 1}},
		{"170:110:60 with 6", 6, weights(170, 110, 60), []int64{3, 2, 1}, []int64{3, 2, 1}, []int64{3, 2, 1}},
		{"nothing", 0, weights(1, 1), []int64{0, 0}, []int64{0, 0}, []int64{0, 0}},
		{"less than nothing", -4, weights(1, 1), []int64{0, 0}, []int64{0, 0}, []int64{0, 0}},
		{"weight 0 comes last, as equals", 9, []Claim{{0, 0, 1, 8}, {5, 0, 0, 2}, {0, 0, 0, 9}},
			[]int64{4, 2, 3}, []int64{4, 2, 3}, []int64{4, 2, 3}},
		{"bounds are respected in this order: low, high, offset", 8, []Claim{{1, 9, 3, 1}, {1, 0, -5, 2}},
			[]int64{3, 2}, []int64{3, 2}, []int64{3, 2}},
		{"lows beyond the total", 3, []Claim{{1, 0, 3, 4}, {1, 0, 2, 9}}, []int64{3, 2}, []int64{3, 2}, []int64{3, 2}},
		{"lows beyond the numbers", unbounded, []Claim{{1, 0, unbounded, unbounded}, {1, 0, unbounded, unbounded}, {1, 0, 2, 9}},
			[]int64{unbounded, unbounded, 2}, []int64{unbounded, unbounded, 2}, []int64{unbounded, unbounded, 2}},
		{"everything at its largest", unbounded, weights(unbounded, unbounded, unbounded),
			[]int64{unbounded/3 + 1, unbounded / 3, unbounded / 3}, []int64{unbounded/3 + 1, unbounded / 3, unbounded / 3},
			[]int64{unbounded/3 + 1, unbounded / 3, unbounded / 3}},
	}
	for _, test := range tests {
		for r, want := range [][]int64{test.largestRemainder, test.webster, test.dHont} {
			if got := Spread(test.total, test.claims, roundings[r]); !slices.Equal(got, want) {
				t.Errorf("%s, %s: got %v; want %v", test.name, roundings[r], got, want)
			}
		}
	}
}

func TestFillTable(t *testing.T) {
	claims := []Claim{{0, 0, 1, 9}, {1, 0, 0, 3}, {-7, 0, 0, 2}, {2, 0, 2, 4}}
	for total, want := range map[int64][]int64{
		0: {1, 0, 0, 2}, 5: {1, 2, 0, 2}, 8: {1, 3, 0, 4}, 17: {9, 3, 1, 4}, 99: {9, 3, 2, 4}, unbounded: {9, 3, 2, 4},
	} {
		if got := Fill(total, claims); !slices.Equal(got, want) {
			t.Errorf("Fill(%d) = %v; want %v", total, got, want)
		}
	}
}

func spreadEqualsOracle(total int64, claims []Claim, r Rounding, priority bool) error {
	before := slices.Clone(claims)
	got := Spread(total, claims, r)
	if priority {
		got = Fill(total, claims)
	}
	if want := oracleSpread(total, claims, r, priority); !slices.Equal(got, want) {
		return fmt.Errorf("%s (priority %v) of %d over %+v = %v; oracle %v", r, priority, total, claims, got, want)
	}
	if !slices.Equal(claims, before) {
		return fmt.Errorf("input changed from %+v to %+v", before, claims)
	}
	return nil
}

func TestLargestRemainderEqualsExactFractions(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		total, claims := d.claims(pick(d, 10, 40, 1000, math.MaxInt32))
		return spreadEqualsOracle(total, claims, LargestRemainder, false)
	})
}

// The greatest values, where sums of values and weights exceed 64 bits.
func TestLargestRemainderEqualsExactFractionsAtAnySize(t *testing.T) {
	forAll(t, 20_000, func(d dice) error {
		var claims []Claim
		for range d(pick(d, 6, 6, 30)) {
			low := d.count(unbounded)
			claims = append(claims, Claim{Weight: d.weight(), Offset: d.count(low), Low: low, High: d.count(unbounded)})
		}
		return spreadEqualsOracle(d.count(unbounded), claims, LargestRemainder, false)
	})
}

func TestWebsterEqualsUnitByUnit(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		total, claims := d.claims(pick(d, 5, 16, 40))
		return spreadEqualsOracle(total, claims, Webster, false)
	})
}

func TestDHondtEqualsUnitByUnit(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		total, claims := d.claims(pick(d, 5, 16, 40))
		return spreadEqualsOracle(total, claims, DHondt, false)
	})
}

func TestFillEqualsUnitByUnit(t *testing.T) {
	forAll(t, 50_000, func(d dice) error {
		total, claims := d.claims(pick(d, 5, 16, 40))
		return spreadEqualsOracle(total, claims, "", true)
	})
}

// A layout is the one of a divisor method exactly if no seat given comes after one that is free in
// the order of quotients; so any size can be checked.
func TestDivisorMethodsAtAnySize(t *testing.T) {
	forAll(t, 30_000, func(d dice) error {
		claims := make([]Claim, 1+d(pick(d, 6, 6, 40)))
		for i := range claims {
			low := d.count(unbounded / 8)
			claims[i] = Claim{Weight: max(1, d.weight()), Offset: d.count(low), Low: low, High: low + d.count(unbounded/8)}
		}
		total := d.count(unbounded)
		r := pick(d, Webster, DHondt)
		got := Spread(total, claims, r)
		quotient := func(i int, value int64) *big.Rat {
			divisor := big.NewInt(value - claims[i].Offset)
			if r == Webster {
				divisor.Lsh(divisor, 1)
			}
			divisor.Add(divisor, big.NewInt(1))
			return new(big.Rat).SetFrac(big.NewInt(claims[i].Weight), divisor)
		}
		lows, highs, placed := new(big.Int), new(big.Int), new(big.Int)
		for i, c := range claims {
			lows.Add(lows, big.NewInt(c.Low))
			highs.Add(highs, big.NewInt(c.High))
			placed.Add(placed, big.NewInt(got[i]))
			for j := range claims {
				if got[i] == c.Low || got[j] == claims[j].High {
					continue
				}
				order := quotient(j, got[j]).Cmp(quotient(i, got[i]-1))
				if order > 0 || order == 0 && j < i {
					return fmt.Errorf("%s of %d over %+v = %v: a unit of %d was due to %d", r, total, claims, got, i, j)
				}
			}
		}
		want := big.NewInt(total)
		if want.Cmp(lows) < 0 {
			want = lows
		}
		if want.Cmp(highs) > 0 {
			want = highs
		}
		if placed.Cmp(want) != 0 {
			return fmt.Errorf("%s of %d over %+v = %v, placed %v; want %v", r, total, claims, got, placed, want)
		}
		return nil
	})
}

// Levelling is D'Hondt with equal weights over final sizes.
func TestLevelEqualsDHondtOfEquals(t *testing.T) {
	forAll(t, 20_000, func(d dice) error {
		bins := make([]Bin, d(pick(d, 8, 8, 60)))
		claims := make([]Claim, len(bins))
		var total int64
		for i := range bins {
			bins[i] = Bin{Size: d.count(unbounded / 64), Max: d.count(unbounded / 64)}
			claims[i] = Claim{Weight: 1, Low: bins[i].Size, High: bins[i].Max}
			total += bins[i].Size
		}
		n := d.count(unbounded - total)
		level, err := Level(n, bins, nil)
		if err != nil {
			return err
		}
		if spread := Spread(total+n, claims, DHondt); !slices.Equal(level.Sizes, spread) {
			return fmt.Errorf("%d over %v: level %v, D'Hondt %v", n, bins, level.Sizes, spread)
		}
		return nil
	})
}
