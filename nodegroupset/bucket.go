package nodegroupset

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
)

// bucket holds the groups of one exact part in order of their amount in one
// dimension. In one dimension the groups similar to a given one stand side by
// side, so only those have to be compared in the others.
type bucket struct {
	key     string
	dim     int32 // noDimension while there are too few groups to choose one
	rows    []row
	changes int // since the dimension was chosen

	mu       sync.Mutex
	clusters map[*entry]*cluster // nil until Alike asks for one
}

const noDimension = -1

// rechooseAfter is the least number of changes before the dimension is chosen
// again; beyond it the bucket's size is, so that choosing costs little per change.
const rechooseAfter = 8

type row struct {
	at    amount // in the bucket's dimension; zero without one
	entry *entry
}

func (r row) compare(o row) int {
	return cmp.Or(r.at.compare(o.at), strings.Compare(r.entry.name, o.entry.name))
}

func (b *bucket) rowOf(e *entry) row { return row{amountIn(e.numbers, b.dim), e} }

func amountIn(numbers []number, dim int32) amount {
	for _, n := range numbers {
		if n.dim == dim {
			return n.amount
		}
	}
	return amount{}
}

func (b *bucket) insert(e *entry, p *printer) {
	b.rows = insertRow(b.rows, b.rowOf(e))
	b.changed(p)
}

func (b *bucket) remove(e *entry, p *printer) {
	if i, ok := slices.BinarySearchFunc(b.rows, b.rowOf(e), row.compare); ok {
		b.rows = slices.Delete(b.rows, i, i+1)
	}
	b.changed(p)
}

func insertRow(rows []row, r row) []row {
	i, _ := slices.BinarySearchFunc(rows, r, row.compare)
	return slices.Insert(rows, i, r)
}

func (b *bucket) changed(p *printer) {
	b.changes++
	b.clusters = nil
	if b.changes < max(rechooseAfter, len(b.rows)) {
		return
	}
	b.changes = 0
	if dim := b.narrowest(p); dim != b.dim {
		b.dim = dim
		for i := range b.rows {
			b.rows[i] = b.rowOf(b.rows[i].entry)
		}
		slices.SortFunc(b.rows, row.compare)
	}
}

// narrowest returns the dimension that leaves the fewest pairs to compare.
func (b *bucket) narrowest(p *printer) int32 {
	best, fewest := int32(noDimension), len(b.rows)*(len(b.rows)-1)/2
	amounts := make([]amount, len(b.rows))
	for dim := range int32(len(p.ratios)) {
		for i, r := range b.rows {
			amounts[i] = amountIn(r.entry.numbers, dim)
		}
		slices.SortFunc(amounts, amount.compare)
		if pairs := pairsWithin(amounts, p.ratios[dim]); pairs < fewest {
			best, fewest = dim, pairs
		}
	}
	return best
}

// pairsWithin counts the pairs of sorted amounts that are within the ratio.
func pairsWithin(sorted []amount, ratio Ratio) int {
	pairs, end := 0, 0
	for i, a := range sorted {
		for end = max(end, i+1); end < len(sorted) && within(a, sorted[end], ratio); end++ {
		}
		pairs += end - i - 1
	}
	return pairs
}

// near yields the rows whose amount in the bucket's dimension is within the
// ratio of at. Rows may be any that are sorted as the bucket's are.
func (b *bucket) near(rows []row, at amount, p *printer) iter.Seq[row] {
	return func(yield func(row) bool) {
		start, _ := slices.BinarySearchFunc(rows, at, func(r row, at amount) int { return r.at.compare(at) })
		for i := start; i < len(rows) && b.within(rows[i].at, at, p); i++ {
			if !yield(rows[i]) {
				return
			}
		}
		for i := start - 1; i >= 0 && b.within(rows[i].at, at, p); i-- {
			if !yield(rows[i]) {
				return
			}
		}
	}
}

func (b *bucket) within(x, y amount, p *printer) bool {
	return b.dim == noDimension || within(x, y, p.ratios[b.dim])
}
