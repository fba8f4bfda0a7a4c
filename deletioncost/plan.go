package deletioncost

import (
	"cmp"
	"iter"
	"slices"
)

// plan finds the level of each pod, and the cost that it means. As many pods as possible keep their
// costs.
func (s *set) plan() {
	s.rank()
	s.assign(0, func(m *member) int { return m.rank })
	if len(s.constraints) > 1 {
		s.assign(1, func(m *member) int { return s.constraints[0].cost(m.level[0]) })
	}
	for _, m := range s.members {
		if m.foreign {
			m.want = m.cost
			continue
		}
		for k, c := range s.constraints {
			m.want -= c.step * c.cost(m.level[k])
		}
	}
}

// cost is the part of a cost that a level means, without sign.
func (c *constraint) cost(level int) int { return min(max(0, level-c.free), c.most) }

// runs yields the pods with the same key together, those with the lowest key first.
func runs(members []*member, key func(*member) int) iter.Seq[[]*member] {
	return func(yield func([]*member) bool) {
		rest := slices.SortedStableFunc(slices.Values(members), func(a, b *member) int { return cmp.Compare(key(a), key(b)) })
		for len(rest) > 0 {
			n := 1
			for n < len(rest) && key(rest[n]) == key(rest[0]) {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// byDomain are the pods by their domain of a constraint.
func (s *set) byDomain(k int) map[int][]*member {
	domains := map[int][]*member{}
	for _, m := range s.members {
		if d := m.domains[k]; d != none && m.domains[0] != none {
			domains[d] = append(domains[d], m)
		}
	}
	return domains
}

// rank orders the pods within a domain of the first constraint by the second, if its domains are
// smaller ones: the pods that are alone on their node, say, stay the longest. The rank is the level
// that the pod has in the smaller domain by its age.
func (s *set) rank() {
	if len(s.constraints) < 2 || len(s.constraints[1].base) <= len(s.constraints[0].base) {
		return
	}
	for d, members := range s.byDomain(1) {
		for i, m := range members {
			m.rank = s.constraints[1].base[d] + i + 1
		}
	}
}

// assign gives pods their levels of a constraint: in each domain those with a lower key have lower ones, and
// pods with the same key may be in any order. Pods of which somebody else says that they outlive all others have
// the lowest levels.
func (s *set) assign(k int, key func(*member) int) {
	for d, members := range s.byDomain(k) {
		lowest := s.constraints[k].base[d] + 1
		members = slices.DeleteFunc(members, func(m *member) bool {
			stays := m.foreign && m.cost >= 0
			if stays {
				m.level[k] = lowest
				lowest++
			}
			return stays
		})
		for same := range runs(members, key) {
			s.levels(k, same, lowest)
			lowest += len(same)
		}
	}
}

// levels gives pods of one domain the levels from the lowest on. Those whose costs mean one of these levels
// have it. The others take what is left, those without a cost the lowest, since these may need none. The highest
// are for pods on cordoned nodes, and for those that are deleted before by a cost of somebody else.
func (s *set) levels(k int, members []*member, lowest int) {
	has, c := make([]*member, len(members)), s.constraints[k]
	part := func(m *member) int { return -m.cost / c.step % (c.most + 1) }
	var left []*member
	for _, m := range members {
		if i := part(m) + c.free - lowest; part(m) != 0 && i >= 0 && i < len(has) && has[i] == nil {
			has[i] = m
		} else {
			left = append(left, m)
		}
	}
	slices.SortStableFunc(left, func(a, b *member) int {
		return cmp.Or(number(part(a) != 0)-number(part(b) != 0), number(a.foreign)-number(b.foreign), number(a.cordoned)-number(b.cordoned))
	})
	for i, m := range has {
		if m == nil {
			m, left = left[0], left[1:]
		}
		m.level[k] = lowest + i
	}
}
