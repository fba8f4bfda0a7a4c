package apportion

import (
	"math"
	"testing"
)

// FuzzLevel compares small cases of Level with handing out unit by unit.
func FuzzLevel(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 1, 10, 1, 3, 10, 1, 6, 10, 1, 0, 4})
	f.Add([]byte{5, 9, 2, 0, 1, 8, 15, 0, 3, 2, 7, 1, 1, 0, 1, 3, 0, 1, 0, 2, 0, 1, 4, 59})
	f.Fuzz(func(t *testing.T, data []byte) {
		n, bins, quotas := fromBytes(data).levelling()
		if err := levelEqualsUnitByUnit(n, bins, quotas); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzSpread compares Spread and Fill with their definitions; only the method that has an oracle
// independent of the total meets large ones.
func FuzzSpread(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3, 9, 1, 0, 20, 1, 4, 7, 3, 1, 30, 1, 19})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := fromBytes(data)
		rounding, priority := pick(d, LargestRemainder, Webster, DHondt), d(4) == 0
		limit := 40
		if rounding == LargestRemainder && !priority {
			limit = pick(d, 40, math.MaxInt32)
		}
		total, claims := d.claims(limit)
		if err := spreadEqualsOracle(total, claims, rounding, priority); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDistribute compares Distribute with its specification.
func FuzzDistribute(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{30, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 1, 1, 1, 1, 0, 6})
	f.Add([]byte{20, 2, 3, 1, 2, 1, 2, 1, 1, 0, 2, 5, 1, 2, 7, 0, 4, 0, 9, 0, 3, 0, 1, 2, 2, 0, 5, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := distributeEqualsOracle(fromBytes(data).request(40)); err != nil {
			t.Fatal(err)
		}
	})
}
