package nodegroupset

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Alike returns the groups similar to the named one, sorted and with itself. It is empty for an
// unknown group. Where all groups of a list are similar to each other and to no other group, they
// share it: shared is true, the list is made once until the next Set or Delete, and the caller must
// not change it.
func (x *Index) Alike(name string) (names []string, shared bool) {
	e := x.groups[name]
	switch {
	case e == nil:
		return nil, false
	case e.set > 0:
		return x.declared[e.set], true
	case e.bucket == nil:
		return []string{name}, false
	}
	c := e.bucket.clusterOf(e, x.printer)
	if c.names != nil {
		return c.names, true
	}
	for _, other := range c.entries {
		if x.printer.similar(e.numbers, other.numbers) {
			names = append(names, other.name)
		}
	}
	return names, false
}

// AreSimilar reports whether two groups are similar. It is false for a group and itself, and where
// one is unknown.
func (x *Index) AreSimilar(left, right string) bool {
	a, b := x.groups[left], x.groups[right]
	if a != nil && b != nil && a != b && a.set > 0 {
		return a.set == b.set
	}
	return a != nil && b != nil && a != b && a.bucket != nil && a.bucket == b.bucket && x.printer.similar(a.numbers, b.numbers)
}

// bucket holds the groups of one exact part.
type bucket struct {
	key     string
	entries map[*entry]bool

	mu       sync.Mutex
	clusters map[*entry]*cluster // nil until they are asked for
}

// cluster is a part of a bucket that no group outside is similar to any of.
type cluster struct {
	entries []*entry // by name
	names   []string // of all entries where every two are similar, else nil
}

// clusterOf finds the cluster of a group. Questions may be asked concurrently.
func (b *bucket) clusterOf(e *entry, p *printer) *cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clusters == nil {
		b.clusters = make(map[*entry]*cluster, len(b.entries))
		b.divide(slices.Collect(maps.Keys(b.entries)), p)
	}
	return b.clusters[e]
}

// divide cuts entries where their amounts in a dimension leave a gap that is wider than the ratio,
// until there is none.
func (b *bucket) divide(entries []*entry, p *printer) {
	for dim := range int32(len(p.ratios)) {
		slices.SortFunc(entries, byAmount(dim))
		start := 0
		for i := 1; i <= len(entries); i++ {
			if i < len(entries) && within(entries[i-1].amountIn(dim), entries[i].amountIn(dim), p.ratios[dim]) {
				continue
			}
			if start == 0 && i == len(entries) {
				break // no gap
			}
			b.divide(entries[start:i:i], p)
			start = i
		}
		if start > 0 {
			return
		}
	}
	b.add(entries, p)
}

// add makes a cluster of entries. They are all similar to each other where the least amounts are to
// the greatest.
func (b *bucket) add(entries []*entry, p *printer) {
	c := &cluster{entries: entries}
	slices.SortFunc(entries, func(x, y *entry) int { return strings.Compare(x.name, y.name) })
	var least, most []number
	for dim := range int32(len(p.ratios)) {
		low, high := slices.MinFunc(entries, byAmount(dim)), slices.MaxFunc(entries, byAmount(dim))
		least, most = append(least, number{dim, low.amountIn(dim)}), append(most, number{dim, high.amountIn(dim)})
	}
	alike := p.similar(least, most)
	for _, e := range entries {
		if b.clusters[e] = c; alike {
			c.names = append(c.names, e.name)
		}
	}
}

func byAmount(dim int32) func(x, y *entry) int {
	return func(x, y *entry) int { return x.amountIn(dim).compare(y.amountIn(dim)) }
}

func (e *entry) amountIn(dim int32) amount {
	for _, n := range e.numbers {
		if n.dim == dim {
			return n.amount
		}
	}
	return amount{}
}
