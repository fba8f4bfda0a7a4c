package deletioncost

import (
	"cmp"
	"slices"
)

// orders returns for each constraint the highest skew to which deleting 1, 2, … pods may lead, in
// any of the orders that the costs allow.
func (f *field) orders(cost func(*seat) int32) [][]int {
	groups := slices.Clone(f.seats)
	slices.SortStableFunc(groups, func(a, b *seat) int { return cmp.Compare(cost(a), cost(b)) })
	out := make([][]int, len(f.constraints))
	for k := range f.constraints {
		l := f.newLevels(k)
		for rest := groups; len(rest) > 0; {
			n := 1
			for n < len(rest) && cost(rest[n]) == cost(rest[0]) {
				n++
			}
			out[k] = l.remove(out[k], k, rest[:n])
			rest = rest[n:]
		}
	}
	return out
}

// asGood reports whether an order is right: no skew is above maxSkew, or else above that of the
// other order.
func (f *field) asGood(order, other [][]int) bool {
	for k, c := range f.constraints {
		for i, skew := range order[k] {
			if skew > max(c.MaxSkew, other[k][i]) {
				return false
			}
		}
	}
	return true
}

// levels are the numbers of pods in the domains of a constraint while pods are deleted.
type levels struct {
	pods   map[int]int // by domain
	having []int       // domains, by their number of pods
	top    int         // no domain has more
}

func (f *field) newLevels(constraint int) *levels {
	c := f.constraints[constraint]
	l := &levels{pods: map[int]int{}}
	for d, n := range c.base {
		l.pods[d] = n
	}
	for _, s := range f.seats {
		if d := s.domains[constraint]; d != none {
			l.pods[d]++
		}
	}
	for _, n := range l.pods {
		l.top = max(l.top, n)
	}
	l.having = make([]int, l.top+1)
	for _, n := range l.pods {
		l.having[n]++
	}
	if len(l.pods) < c.MinDomains {
		l.having[0]++ // the least count is 0 then
	}
	return l
}

// kind is domains with the same number of pods, of which the same number is deleted.
type kind struct{ pods, deleted int }

// remove deletes pods with the same cost, and appends the highest skew after each of them.
func (l *levels) remove(skews []int, constraint int, group []*seat) []int {
	deleted := map[int]int{}
	counted := 0
	for _, s := range group {
		if d := s.domains[constraint]; d != none {
			deleted[d]++
			counted++
		}
	}
	kinds := map[kind]int{}
	for d, n := range deleted {
		kinds[kind{l.pods[d], n}]++
		l.having[l.pods[d]]--
	}
	if most, least, some := l.bounds(); some {
		kinds[kind{most, 0}]++
		if most != least || l.having[most] > 1 {
			kinds[kind{least, 0}]++
		}
	}
	for j := range group {
		skews = append(skews, highest(kinds, min(j+1, counted), counted))
	}
	for d, n := range deleted {
		l.pods[d] -= n
		l.having[l.pods[d]]++
	}
	return skews
}

// bounds are the most and the least pods of a domain from which none is deleted now.
func (l *levels) bounds() (most, least int, some bool) {
	for most = l.top; most >= 0 && l.having[most] == 0; most-- {
	}
	if most < 0 {
		return 0, 0, false
	}
	for least = 0; l.having[least] == 0; least++ {
	}
	return most, least, true
}

// highest is the highest skew after j of so many pods are deleted: one domain loses as many as it
// can, another as few.
func highest(kinds map[kind]int, j, of int) int {
	skew := 0
	for full, n := range kinds {
		for empty := range kinds {
			if full == empty && n < 2 {
				continue
			}
			kept := full.pods - max(0, j-(of-full.deleted))
			skew = max(skew, kept-(empty.pods-min(j, empty.deleted)))
		}
	}
	return skew
}
