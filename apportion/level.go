package apportion

import (
	"cmp"
	"slices"
)

// Bin is something that takes units one by one: a node group.
type Bin struct {
	// Size is what it holds now, 0 or more.
	Size int64
	// Min is what it has to hold: a bin below it is raised to it before
	// anything is levelled. At most Max.
	Min int64
	// Max is what it may hold. A bin above it is left alone. Use
	// math.MaxInt64 for no bound.
	Max int64
}

// Levelled is the answer of [Level].
type Levelled struct {
	// Sizes are the new sizes, in the order of the bins; none is smaller than before.
	Sizes []int64
	// Unplaced is how many units no bin had room for.
	Unplaced int64
	// HeldBy tells, for each bin, the index of the cap that stopped it: a unit
	// that was its due went elsewhere or remained unplaced, and this is the
	// first cap without room for one more unit of it. -1 for all other bins.
	HeldBy []int
}

// Level adds n units to the bins so that the sizes come out even.
//
// First the bins below their Min: the smallest of them gets the next unit,
// until all have reached their Min or no units are left. Then all: every unit
// goes to the smallest bin that has room. Equals are served in the order of
// the slice. A bin has room while it is below its Max and one more unit
// exceeds no cap it is in; a cap that is exceeded from the start holds its
// members where they are, which is no error.
//
// The result is exactly the one of handing out unit after unit; the cost is
// O(G log G) for G bins, whatever n is, plus G for every cap that stops a bin.
// With caps that are [Nested] as many units are placed as the bounds allow and,
// where no Min is in play, the sum of the squared sizes is the least possible;
// with other caps the result is merely feasible.
//
// The error is an [*InvalidError]: a negative number, a Min above Max, a cap
// with an unknown or repeated member or with units for another number of
// members than it has.
func Level(n int64, bins []Bin, caps []Cap) (Levelled, error) {
	if err := validateLevel(n, bins, caps); err != nil {
		return Levelled{}, err
	}
	basin := newBasin(bins, caps)
	ceilings := make([]int64, len(bins))
	for i, bin := range bins {
		ceilings[i] = bin.Min
	}
	n = basin.raise(n, ceilings)
	for i, bin := range bins {
		ceilings[i] = bin.Max
	}
	n = basin.raise(n, ceilings)
	return Levelled{Sizes: basin.sizes, Unplaced: n, HeldBy: basin.heldBy()}, nil
}

// basin is the state while the water rises. Bins are of three kinds: waiting
// (the level has not reached their size), rising with the level, and settled
// (at their ceiling or stopped by a cap). sizes is right for all but the
// rising ones.
type basin struct {
	sizes  []int64
	rising []bool
	count  int64 // of rising bins
	passed []bool
	quotas
}

func newBasin(bins []Bin, caps []Cap) *basin {
	b := &basin{
		sizes:  make([]int64, len(bins)),
		rising: make([]bool, len(bins)),
		quotas: newQuotas(bins, caps),
	}
	for i, bin := range bins {
		b.sizes[i] = bin.Size
	}
	if len(caps) > 0 {
		b.passed = make([]bool, len(bins))
	}
	return b
}

// raise lets the level rise until n units are used up or every bin that began
// below its ceiling has settled. It returns the units that are left.
func (b *basin) raise(n int64, ceilings []int64) int64 {
	if n == 0 {
		return 0
	}
	waiting, filling := b.marks(ceilings)
	if len(waiting) == 0 {
		return n
	}
	floors := slices.Clone(b.sizes)
	level := waiting[0].height
	for n > 0 {
		for len(filling) > 0 && filling[0].height <= level {
			b.settle(filling[0].bin, level)
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
		b.settle(i, level)
	}
	b.markPassed(n, floors, ceilings)
	return n
}

// mark is a height at which something happens to a bin.
type mark struct {
	height int64
	bin    int
}

// marks lists the bins below their ceiling twice: by their size, from which the
// level takes them along, and by their ceiling, at which it leaves them.
func (b *basin) marks(ceilings []int64) (floors, tops []mark) {
	floors = make([]mark, 0, 2*len(ceilings))
	for i, ceiling := range ceilings {
		if b.sizes[i] < ceiling {
			floors = append(floors, mark{b.sizes[i], i})
		}
	}
	tops = floors[len(floors) : 2*len(floors) : 2*len(floors)]
	for i, m := range floors {
		tops[i] = mark{ceilings[m.bin], m.bin}
	}
	for _, list := range [...][]mark{floors, tops} {
		byHeight := func(a, b mark) int { return cmp.Compare(a.height, b.height) }
		if !slices.IsSortedFunc(list, byHeight) { // bounds are mostly equal
			slices.SortFunc(list, byHeight)
		}
	}
	return floors, tops
}

// admit lets a bin rise from now on, unless a cap has no room for it.
func (b *basin) admit(i int) {
	if b.fits(i) {
		b.rising[i] = true
		b.count++
		b.join(i)
	}
}

// settle fixes the size of a bin, if it is rising.
func (b *basin) settle(i int, size int64) {
	if b.rising[i] {
		b.rising[i] = false
		b.count--
		b.leave(i)
		b.sizes[i] = size
	}
}

// oneEach gives one unit to each rising bin in turn, as far as units and caps
// allow; the bins it passes over settle at the level.
func (b *basin) oneEach(n, level int64) int64 {
	for i, rising := range b.rising {
		switch {
		case !rising:
		case n > 0 && b.fits(i):
			b.take(i)
			n--
		default:
			b.settle(i, level)
		}
	}
	return n
}

// markPassed notes the bins a unit passed by for want of room under a cap:
// they are below their ceiling although units are left, or although the last
// unit went to a bin that comes after them.
func (b *basin) markPassed(left int64, floors, ceilings []int64) {
	if b.passed == nil {
		return
	}
	height, place := int64(-1), -1
	for i, size := range b.sizes {
		if size > floors[i] && size > height {
			height, place = size-1, i
		}
	}
	for i, size := range b.sizes {
		if size < ceilings[i] && (left > 0 || size < height || size == height && i < place) {
			b.passed[i] = true
		}
	}
}

func (b *basin) heldBy() []int {
	held := make([]int, len(b.sizes))
	for i := range held {
		held[i] = -1
		if b.passed != nil && b.passed[i] {
			held[i] = b.firstFull(i)
		}
	}
	return held
}
