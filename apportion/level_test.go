package apportion

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

const unbounded = math.MaxInt64

func TestLevelTable(t *testing.T) {
	tests := []struct {
		name     string
		n        int64
		bins     []Bin
		want     []int64
		unplaced int64
	}{
		{"no bins", 3, nil, []int64{}, 3},
		{"no units", 0, []Bin{{1, 5, 9}}, []int64{1}, 0},
		{"the proposal's example", 4, []Bin{{1, 0, 10}, {3, 0, 10}, {6, 0, 10}}, []int64{4, 4, 6}, 0},
		{"room for all", 10, []Bin{{1, 0, 100}, {3, 0, 100}, {5, 0, 100}, {5, 0, 100}}, []int64{6, 6, 6, 6}, 0},
		{"first and last fill up", 9, []Bin{{1, 0, 3}, {3, 0, 10}, {5, 0, 7}}, []int64{3, 8, 7}, 0},
		{"over its max", 1, []Bin{{1, 0, 3}, {6, 0, 3}}, []int64{2, 6}, 0},
		{"equals in slice order", 2, []Bin{{2, 0, 9}, {2, 0, 9}, {2, 0, 9}}, []int64{3, 3, 2}, 0},
		{"too many", 9, []Bin{{0, 0, 2}, {1, 0, 3}}, []int64{2, 3}, 5},
		{"minimum first", 4, []Bin{{3, 6, 9}, {0, 0, 9}}, []int64{6, 1}, 0},
		{"smallest below its minimum first", 3, []Bin{{3, 9, 9}, {1, 9, 9}, {0, 0, 9}}, []int64{3 + 1, 1 + 2, 0}, 0},
		{"a billion", 1e9, []Bin{{0, 0, unbounded}, {10, 0, unbounded}, {0, 0, 7}}, []int64{500000002, 500000001, 7}, 0},
		{"near the end of the numbers", unbounded, []Bin{{1 << 62, 0, unbounded}, {1<<62 - 3, 0, 1 << 62}},
			[]int64{unbounded, 1 << 62}, unbounded - (unbounded - 1<<62) - 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Level(test.n, test.bins, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Sizes, test.want) || got.Unplaced != test.unplaced {
				t.Errorf("sizes %v, unplaced %d; want %v, %d", got.Sizes, got.Unplaced, test.want, test.unplaced)
			}
		})
	}
}

func TestLevelCapsTable(t *testing.T) {
	three := []Bin{{0, 0, 10}, {0, 0, 10}, {0, 0, 10}}
	tests := []struct {
		name     string
		n        int64
		bins     []Bin
		quotas   []Quota
		want     []int64
		unplaced int64
		held     []int
	}{
		{"a shared quota", 9, three, []Quota{{Members: []int{0, 1}, Limit: 3}}, []int64{2, 1, 6}, 0, []int{0, 0, -1}},
		{"a total", 9, three, []Quota{{Members: []int{0, 1, 2}, Limit: 7}}, []int64{3, 2, 2}, 2, []int{0, 0, 0}},
		{"a total that just suffices", 7, three, []Quota{{Members: []int{0, 1, 2}, Limit: 7}}, []int64{3, 2, 2}, 0, []int{-1, -1, -1}},
		{"cores", 9, three, []Quota{{Members: []int{0, 1}, Units: []int64{4, 2}, Limit: 15}}, []int64{2, 3, 4}, 0, []int{0, 0, -1}},
		{"exceeded already", 4, []Bin{{5, 0, 9}, {0, 0, 9}}, []Quota{{Members: []int{0}, Limit: 3}}, []int64{5, 4}, 0, []int{-1, -1}},
		{"exceeded already and passed by", 7, []Bin{{5, 0, 9}, {0, 0, 9}}, []Quota{{Members: []int{0}, Limit: 3}}, []int64{5, 7}, 0,
			[]int{0, -1}},
		{"a minimum beyond a quota", 6, []Bin{{0, 5, 9}, {0, 0, 9}}, []Quota{{Members: []int{0}, Limit: 2}}, []int64{2, 4}, 0, []int{0, -1}},
		{"counts nothing", 4, []Bin{{0, 0, 9}, {0, 0, 9}}, []Quota{{Members: []int{0, 1}, Units: []int64{1, 0}, Limit: 0}}, []int64{0, 4}, 0,
			[]int{0, -1}},
		{"sums beyond 64 bits", 4, []Bin{{1 << 62, 0, unbounded}, {0, 0, 9}},
			[]Quota{{Members: []int{0, 1}, Units: []int64{1 << 62, 1}, Limit: unbounded}}, []int64{1 << 62, 0}, 4, []int{0, 0}},
		{"steep slopes", 6, three, []Quota{{Members: []int{0, 1, 2}, Units: []int64{unbounded, unbounded, unbounded}, Limit: unbounded}},
			[]int64{1, 0, 0}, 5, []int{0, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Level(test.n, test.bins, test.quotas)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Sizes, test.want) || got.Unplaced != test.unplaced || !slices.Equal(got.HeldBy, test.held) {
				t.Errorf("got %+v; want %v, unplaced %d, held by %v", got, test.want, test.unplaced, test.held)
			}
		})
	}
}

// Room 5/1/1 under a quota each and a need of 9 gives 5/1/1, whichever bin stands first.
func TestLevelFillsTheRoomWhoeverIsFirst(t *testing.T) {
	limits := []int64{5, 1, 1}
	for first := range limits {
		bins := make([]Bin, 3)
		var quotas []Quota
		want := make([]int64, 3)
		for i := range bins {
			bins[i].Max = 100
			want[i] = limits[(first+i)%3]
			quotas = append(quotas, Quota{Members: []int{i}, Limit: want[i]})
		}
		got, err := Level(9, bins, quotas)
		if err != nil || !slices.Equal(got.Sizes, want) || got.Unplaced != 2 {
			t.Errorf("got %+v, %v; want %v", got, err, want)
		}
	}
}

func TestLevelRefuses(t *testing.T) {
	bins := []Bin{{0, 0, 5}, {0, 0, 5}}
	tests := []struct {
		n      int64
		bins   []Bin
		quotas []Quota
		want   string
	}{
		{-1, bins, nil, "n: Invalid value: -1: must not be negative"},
		{1, []Bin{{-2, 0, 5}}, nil, "bins[0].size: Invalid value: -2: must not be negative"},
		{1, []Bin{{0, 0, 5}, {0, -1, 5}}, nil, "bins[1].min: Invalid value: -1: must not be negative"},
		{1, []Bin{{0, 0, -5}}, nil, "bins[0].max: Invalid value: -5: must not be negative"},
		{1, []Bin{{0, 6, 5}}, nil, "bins[0].min: Invalid value: 6: must not be greater than max"},
		{1, bins, []Quota{{Limit: -1}}, "quotas[0].limit: Invalid value: -1: must not be negative"},
		{1, bins, []Quota{{Members: []int{0, 2}}}, "quotas[0].members[1]: Invalid value: 2: is not the index of a bin"},
		{1, bins, []Quota{{Members: []int{-1}}}, "quotas[0].members[0]: Invalid value: -1: is not the index of a bin"},
		{1, bins, []Quota{{}, {Members: []int{1, 1}}}, "quotas[1].members[1]: Invalid value: 1: must not be repeated"},
		{1, bins, []Quota{{Members: []int{1}, Units: []int64{}}}, "quotas[0].units: Invalid value: 0: must be as many as members"},
		{1, bins, []Quota{{Members: []int{1}, Units: []int64{-3}}}, "quotas[0].units[0]: Invalid value: -3: must not be negative"},
	}
	for _, test := range tests {
		_, err := Level(test.n, test.bins, test.quotas)
		var typed *InvalidError
		if !errors.As(err, &typed) || err.Error() != test.want {
			t.Errorf("got %v; want %s", err, test.want)
		}
	}
}

func TestNested(t *testing.T) {
	tests := []struct {
		quotas []Quota
		want   bool
	}{
		{nil, true},
		{[]Quota{{Members: []int{0, 1}}, {Members: []int{2}}}, true},
		{[]Quota{{Members: []int{1}}, {Members: []int{0, 1, 2}}, {Members: []int{2, 1}}}, true},
		{[]Quota{{Members: []int{0, 1}}, {Members: []int{1, 0}}}, true},
		{[]Quota{{Members: []int{0, 1}}, {Members: []int{1, 2}}}, false},
		{[]Quota{{Members: []int{0, 1, 2}}, {Members: []int{1, 2, 3}}}, false},
		{[]Quota{{Members: []int{0, 1}, Units: []int64{4, 4}}}, true},
		{[]Quota{{Members: []int{0, 1}, Units: []int64{4, 2}}}, false},
		{[]Quota{{Members: []int{0, 1}}, {Members: []int{1, 2}, Units: []int64{1, 0}}}, true},
	}
	for _, test := range tests {
		if got := nested(test.quotas); got != test.want {
			t.Errorf("nested(%+v) = %v", test.quotas, got)
		}
	}
}

// levelByUnit is Level, said plainly: one unit after the other.
func levelByUnit(n int64, bins []Bin, quotas []Quota) Levelled {
	out := Levelled{Unplaced: n, Sizes: make([]int64, len(bins)), HeldBy: make([]int, len(bins))}
	for i, bin := range bins {
		out.Sizes[i] = bin.Size
	}
	full := func(i int) int {
		for c, quota := range quotas {
			var used, more int64
			for k, member := range quota.Members {
				used += quota.counts(k) * out.Sizes[member]
				if member == i {
					more = quota.counts(k)
				}
			}
			if more > 0 && used+more > quota.Limit {
				return c
			}
		}
		return -1
	}
	passed := make([]bool, len(bins))
	for _, ceiling := range []func(Bin) int64{func(b Bin) int64 { return b.Min }, func(b Bin) int64 { return b.Max }} {
		for placed := true; placed && out.Unplaced > 0; {
			var queue []int
			for i, bin := range bins {
				if out.Sizes[i] < ceiling(bin) {
					queue = append(queue, i)
				}
			}
			slices.SortStableFunc(queue, func(i, j int) int { return cmp.Compare(out.Sizes[i], out.Sizes[j]) })
			placed = false
			for _, i := range queue {
				if full(i) < 0 {
					out.Sizes[i]++
					out.Unplaced--
					placed = true
					break
				}
				passed[i] = true
			}
		}
	}
	for i := range bins {
		out.HeldBy[i] = -1
		if passed[i] {
			out.HeldBy[i] = full(i)
		}
	}
	return out
}

func sameLevelled(a, b Levelled) bool {
	return slices.Equal(a.Sizes, b.Sizes) && a.Unplaced == b.Unplaced && slices.Equal(a.HeldBy, b.HeldBy)
}

func TestLevelEqualsUnitByUnit(t *testing.T) {
	forAll(t, 60_000, func(d dice) error {
		n, bins, quotas := d.levelling()
		return levelEqualsUnitByUnit(n, bins, quotas)
	})
}

func levelEqualsUnitByUnit(n int64, bins []Bin, quotas []Quota) error {
	before := fmt.Sprint(bins, quotas)
	got, err := Level(n, bins, quotas)
	if err != nil {
		return err
	}
	if want := levelByUnit(n, bins, quotas); !sameLevelled(got, want) {
		return fmt.Errorf("Level(%d, %+v, %+v) = %+v; unit by unit %+v", n, bins, quotas, got, want)
	}
	if after := fmt.Sprint(bins, quotas); after != before {
		return fmt.Errorf("input changed from %s to %s", before, after)
	}
	return nil
}

// The sizes matter only relative to each other: lifting all bins by the same height, up to the end
// of the numbers, lifts the result.
func TestLevelAtAnyHeight(t *testing.T) {
	forAll(t, 20_000, func(d dice) error {
		n, bins, _ := d.levelling()
		height := int64(1)<<62 + int64(d(1<<30))
		lifted := slices.Clone(bins)
		for i := range lifted {
			lifted[i].Size += height
			lifted[i].Min += height
			lifted[i].Max += height
		}
		low, err := Level(n, bins, nil)
		if err != nil {
			return err
		}
		high, err := Level(n, lifted, nil)
		if err != nil {
			return err
		}
		for i := range high.Sizes {
			high.Sizes[i] -= height
		}
		if !sameLevelled(low, high) {
			return fmt.Errorf("%d units over %v: %v, lifted by %d: %v", n, bins, low, height, high)
		}
		return nil
	})
}

// With any number of units the result is level: no bin with room lies below, in the order of the
// greedy, the last unit of another.
func TestLevelIsLevelAtAnySize(t *testing.T) {
	forAll(t, 20_000, func(d dice) error {
		bins := make([]Bin, 1+d(8))
		for i := range bins {
			bins[i] = Bin{Size: d.count(unbounded), Max: d.count(unbounded)}
		}
		n := d.count(unbounded)
		got, err := Level(n, bins, nil)
		if err != nil {
			return err
		}
		placed := uint64(0)
		for i, size := range got.Sizes {
			placed += uint64(size - bins[i].Size)
			if size < bins[i].Size || size > max(bins[i].Size, bins[i].Max) || size < bins[i].Max && got.Unplaced > 0 {
				return fmt.Errorf("%d over %+v: bin %d ends at %d, unplaced %d", n, bins, i, size, got.Unplaced)
			}
			for j, other := range got.Sizes {
				room := other < bins[j].Max
				if room && size > bins[i].Size && (other < size-1 || other == size-1 && j < i) {
					return fmt.Errorf("%d over %+v: %v, a unit of %d was due to %d", n, bins, got.Sizes, i, j)
				}
			}
		}
		if placed+uint64(got.Unplaced) != uint64(n) {
			return fmt.Errorf("%d over %+v: placed %d, unplaced %d", n, bins, placed, got.Unplaced)
		}
		return nil
	})
}
