package apportion

import (
	"cmp"
	"slices"
)

// Bin is something that units are added to one by one, such as a node group.
type Bin struct {
	// Size is how many units the bin holds now, 0 or more.
	Size int64
	// Min is how many units the bin holds at least: bins below their Min are raised to it before
	// any levelling. At most Max.
	Min int64
	// Max is how many units the bin may hold. A bin above it keeps its size. Use math.MaxInt64 for
	// no bound.
	Max int64
}

// Levelled is the answer of [Level].
type Levelled struct {
	// Sizes are the new sizes, in the order of the bins; none is smaller than before.
	Sizes []int64
	// Unplaced is how many units no bin has room for.
	Unplaced int64
	// HeldBy has, for each bin, the index of the quota that stopped it: a unit that would have gone
	// to the bin went elsewhere or remained unplaced, and this is the first quota without room for
	// one more unit in the bin. It is -1 for all other bins.
	HeldBy []int
}

// Level adds n units to the bins so that the sizes come out even.
//
// First the bins below their Min are raised: the smallest of them gets the next unit, until all
// have reached their Min or no units are left. Then every unit goes to the smallest bin that has
// room. Bins of equal size are served in the order of the slice. A bin has room while it is below
// its Max and one more unit exceeds none of its quotas. A quota that is exceeded from the start
// keeps its members at their sizes, which is not an error.
//
// The result is exactly that of adding unit after unit. The cost is O(G log G) for G bins, whatever
// n is, plus G for each quota that stops a bin. Quotas are nested if any two of them are disjoint
// or one lies within the other, and each counts all of its members alike. Under nested quotas, as
// many units are placed as the bounds allow and, if no Min applies, the sum of the squared sizes is
// the least possible. Under other quotas the result is only feasible.
//
// The error is an [*InvalidError] about a negative number, a Min above Max, or a quota with an
// unknown or repeated member or with another number of units than members.
func Level(n int64, bins []Bin, quotas []Quota) (Levelled, error) {
	if err := validateLevel(n, bins, quotas); err != nil {
		return Levelled{}, err
	}
	levelling := newLevelling(bins, quotas)
	bounds := make([]int64, len(bins))
	for i, bin := range bins {
		bounds[i] = bin.Min
	}
	n = levelling.raise(n, bounds)
	for i, bin := range bins {
		bounds[i] = bin.Max
	}
	n = levelling.raise(n, bounds)
	return Levelled{Sizes: levelling.sizes, Unplaced: n, HeldBy: levelling.heldBy()}, nil
}

// levelling is the state while the level rises. A bin is waiting (the level has not reached its
// size), rising with the level, or stopped (by its bound or a quota). The sizes of
// rising bins are not up to date.
type levelling struct {
	sizes  []int64
	rising []bool
	count  int64 // of rising bins
	passed []bool
	usage
}

func newLevelling(bins []Bin, quotas []Quota) *levelling {
	b := &levelling{
		sizes:  make([]int64, len(bins)),
		rising: make([]bool, len(bins)),
		usage:  newUsage(bins, quotas),
	}
	for i, bin := range bins {
		b.sizes[i] = bin.Size
	}
	if len(quotas) > 0 {
		b.passed = make([]bool, len(bins))
	}
	return b
}

// raise raises the level until n units are used up or every bin that was below its bound has
// stopped. It returns how many units are left.
func (b *levelling) raise(n int64, bounds []int64) int64 {
	if n == 0 {
		return 0
	}
	waiting, filling := b.marks(bounds)
	if len(waiting) == 0 {
		return n
	}
	starts := slices.Clone(b.sizes)
	level := waiting[0].height
	for n > 0 {
		for len(filling) > 0 && filling[0].height <= level {
			b.stop(filling[0].bin, level)
			filling = filling[1:]
		}
		for len(waiting) > 0 && waiting[0].height == level {
			b.admit(waiting[0].bin)
			waiting = waiting[1:]
		}
		if b.count == 0 {
			if len(waiting) == 0 {
				break
			}
			level = waiting[0].height
			continue
		}
		next := filling[0].height
		if len(waiting) > 0 {
			next = min(next, waiting[0].height)
		}
		step := min(next-level, n/b.count, b.headroom())
		level += step
		n -= step * b.count
		b.rise(step)
		if level < next && n > 0 {
			n = b.oneEach(n, level)
			level++
		}
	}
	for i := range b.rising {
		b.stop(i, level)
	}
	b.markPassed(n, starts, bounds)
	return n
}

// mark is a level at which a bin starts or stops rising.
type mark struct {
	height int64
	bin    int
}

// marks lists the bins below their bound by their size, at which they start rising, and by their
// bound, at which they stop.
func (b *levelling) marks(bounds []int64) (starts, tops []mark) {
	starts = make([]mark, 0, 2*len(bounds))
	for i, bound := range bounds {
		if b.sizes[i] < bound {
			starts = append(starts, mark{b.sizes[i], i})
		}
	}
	tops = starts[len(starts) : 2*len(starts) : 2*len(starts)]
	for i, m := range starts {
		tops[i] = mark{bounds[m.bin], m.bin}
	}
	for _, list := range [...][]mark{starts, tops} {
		byHeight := func(a, b mark) int { return cmp.Compare(a.height, b.height) }
		if !slices.IsSortedFunc(list, byHeight) { // bounds are mostly equal
			slices.SortFunc(list, byHeight)
		}
	}
	return starts, tops
}

// admit lets a bin rise from now on, unless a quota has no room for it.
func (b *levelling) admit(i int) {
	if b.fits(i) {
		b.rising[i] = true
		b.count++
		b.join(i)
	}
}

// stop sets the size of a bin and stops it, if it is rising.
func (b *levelling) stop(i int, size int64) {
	if b.rising[i] {
		b.rising[i] = false
		b.count--
		b.leave(i)
		b.sizes[i] = size
	}
}

// oneEach adds one unit to each rising bin in turn, as far as units and quotas allow. The bins that
// it passes over stop at the level.
func (b *levelling) oneEach(n, level int64) int64 {
	for i, rising := range b.rising {
		switch {
		case !rising:
		case n > 0 && b.fits(i):
			b.use(i)
			n--
		default:
			b.stop(i, level)
		}
	}
	return n
}

// markPassed marks the bins that a unit passed over because a quota had no room: they are below
// their bound although units are left, or although the last unit went to a bin that comes after
// them.
func (b *levelling) markPassed(left int64, starts, bounds []int64) {
	if b.passed == nil {
		return
	}
	height, place := int64(-1), -1
	for i, size := range b.sizes {
		if size > starts[i] && size > height {
			height, place = size-1, i
		}
	}
	for i, size := range b.sizes {
		if size < bounds[i] && (left > 0 || size < height || size == height && i < place) {
			b.passed[i] = true
		}
	}
}

func (b *levelling) heldBy() []int {
	held := make([]int, len(b.sizes))
	for i := range held {
		held[i] = -1
		if b.passed != nil && b.passed[i] {
			held[i] = b.firstFull(i)
		}
	}
	return held
}
