package deletioncost

import (
	"maps"
	"math"
	"slices"
)

// skews returns for each constraint the highest skew to which deleting 1, 2, … pods may lead, in any of the
// orders that the costs allow.
func (s *set) skews(cost func(*member) int) [][]int {
	out := make([][]int, len(s.constraints))
	for k := range s.constraints {
		l := s.newLevels(k)
		for same := range runs(s.members, cost) {
			out[k] = l.remove(out[k], k, same)
		}
	}
	return out
}

// asGood reports whether an order is right: no skew is above maxSkew, or else above that of the
// other order.
func (s *set) asGood(order, other [][]int) bool {
	for k, c := range s.constraints {
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
}

func (s *set) newLevels(k int) *levels {
	l := &levels{pods: maps.Clone(s.constraints[k].base)}
	for _, m := range s.members {
		if d := m.domains[k]; d != none {
			l.pods[d]++
		}
	}
	l.having = make([]int, slices.Max(slices.Collect(maps.Values(l.pods)))+1)
	for _, n := range l.pods {
		l.having[n]++
	}
	if len(l.pods) < s.constraints[k].MinDomains {
		l.having[0]++ // the least count is 0 then
	}
	return l
}

// kind is domains with the same number of pods, of which the same number is deleted.
type kind struct{ pods, deleted int }

// remove deletes pods with the same cost, and appends the highest skew after each of them.
func (l *levels) remove(skews []int, k int, members []*member) []int {
	deleted, counted, kinds := map[int]int{}, 0, map[kind]bool{}
	for _, m := range members {
		if d := m.domains[k]; d != none {
			deleted[d]++
			counted++
		}
	}
	for d, n := range deleted {
		kinds[kind{l.pods[d], n}] = true
		l.having[l.pods[d]]--
	}
	// Of the domains that lose none those with the most and the fewest pods matter.
	some := func(n int) bool { return n > 0 }
	if least := slices.IndexFunc(l.having, some); least >= 0 {
		most := len(l.having) - 1
		for l.having[most] == 0 {
			most--
		}
		kinds[kind{least, 0}], kinds[kind{most, 0}] = true, true
	}
	for i := range members {
		skews = append(skews, highest(kinds, min(i+1, counted), counted))
	}
	for d, n := range deleted {
		l.pods[d] -= n
		l.having[l.pods[d]]++
	}
	return skews
}

// highest is the highest skew after n of so many pods are deleted: some domain loses as few as it can, and
// some as many.
func highest(kinds map[kind]bool, n, of int) int {
	most, least := 0, math.MaxInt
	for k := range kinds {
		most = max(most, k.pods-max(0, n-(of-k.deleted)))
		least = min(least, k.pods-min(n, k.deleted))
	}
	return most - least
}
