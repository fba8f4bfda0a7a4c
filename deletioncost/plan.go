package deletioncost

import (
	"cmp"
	"maps"
	"slices"
)

// scale is by how much the cost differs from one level of the first constraint to the next if there
// is a second constraint.
const scale = 10_000

// plan finds the level of each pod, and the cost that it means. As many pods as possible keep their
// costs.
func (f *field) plan() {
	f.rank()
	for _, domain := range f.domains(0) {
		f.first(domain)
	}
	if len(f.constraints) > 1 {
		for _, domain := range f.domains(1) {
			f.second(domain)
		}
	}
	for _, s := range f.seats {
		switch {
		case s.foreign:
			s.want = s.cost
		case s.domains[0] != none:
			s.want = -int32(f.step(0)*f.value(0, s.level[0]) + f.value(1, s.level[1]))
		}
	}
}

// domains are the pods by their domain of a constraint.
func (f *field) domains(constraint int) [][]*seat {
	members := map[int][]*seat{}
	for _, s := range f.seats {
		if d := s.domains[constraint]; d != none && s.domains[0] != none {
			members[d] = append(members[d], s)
		}
	}
	out := make([][]*seat, 0, len(members))
	for _, d := range slices.Sorted(maps.Keys(members)) {
		out = append(out, members[d])
	}
	return out
}

// step is by how much the cost differs from one level of a constraint to the next.
func (f *field) step(constraint int) int {
	if constraint == 0 && len(f.constraints) > 1 {
		return scale
	}
	return 1
}

// value is the part of a cost that a level of a constraint means, without sign.
func (f *field) value(constraint, level int) int {
	switch {
	case constraint >= len(f.constraints):
		return 0
	case constraint > 0:
		return min(max(0, level-f.constraints[constraint].free), scale-1)
	}
	return max(0, level-f.constraints[constraint].free)
}

// stands is the part of a pod's present cost that belongs to a constraint.
func (f *field) stands(constraint int, s *seat) int {
	if constraint == 0 {
		return -int(s.cost) / f.step(0)
	}
	return -int(s.cost) % scale
}

// rank orders the pods within a domain of the first constraint by the second, if its domains are
// smaller ones: the pods that are alone on their node, say, stay the longest. The rank is the level
// that the pod has in the smaller domain by its age.
func (f *field) rank() {
	if len(f.constraints) < 2 || len(f.constraints[1].base) <= len(f.constraints[0].base) {
		return
	}
	for _, domain := range f.domains(1) {
		for i, s := range domain {
			s.rank = f.constraints[1].base[s.domains[1]] + i + 1
		}
	}
}

// first gives the pods of a domain of the first constraint their levels.
func (f *field) first(domain []*seat) {
	lowest := f.constraints[0].base[domain[0].domains[0]] + 1
	domain, lowest = f.stay(domain, lowest)
	slices.SortStableFunc(domain, func(a, b *seat) int { return cmp.Compare(a.rank, b.rank) })
	for len(domain) > 0 {
		n := 1
		for n < len(domain) && domain[n].rank == domain[0].rank {
			n++
		}
		f.settle(0, domain[:n], lowest)
		domain, lowest = domain[n:], lowest+n
	}
}

// stay leaves out the pods with somebody else's cost that are deleted before or after all others:
// after, if it is not negative, and then the others have higher levels.
func (f *field) stay(domain []*seat, lowest int) ([]*seat, int) {
	var out []*seat
	for _, s := range domain {
		if s.foreign && s.cost >= 0 {
			s.level[0] = lowest
			lowest++
		} else {
			out = append(out, s)
		}
	}
	for {
		n := len(out)
		highest := f.value(0, lowest+n-1)
		out = slices.DeleteFunc(out, func(s *seat) bool { return s.foreign && f.stands(0, s) > highest })
		if len(out) == n {
			return out, lowest
		}
	}
}

// second gives the pods of a domain of the second constraint their levels. Pods with the same part
// of the first constraint in their costs may be in any order.
func (f *field) second(domain []*seat) {
	slices.SortStableFunc(domain, func(a, b *seat) int { return cmp.Compare(a.level[0], b.level[0]) })
	lowest := f.constraints[1].base[domain[0].domains[1]] + 1
	for len(domain) > 0 {
		n := 1
		for n < len(domain) && f.value(0, domain[n].level[0]) == f.value(0, domain[0].level[0]) {
			n++
		}
		f.settle(1, domain[:n], lowest)
		domain, lowest = domain[n:], lowest+n
	}
}

// settle gives pods of one domain the levels from the lowest on. Those whose costs mean one of these
// levels have it, and the others take what is left, those on cordoned nodes the highest levels.
func (f *field) settle(constraint int, pods []*seat, lowest int) {
	taken := make([]bool, len(pods))
	free := f.constraints[constraint].free
	var left []*seat
	next := lowest // of the levels without a cost
	for _, s := range foreignFirst(pods) {
		at := f.stands(constraint, s) + free
		if at == free {
			at = next
			next++
			if at > free {
				at = none
			}
		}
		if i := at - lowest; i >= 0 && i < len(taken) && !taken[i] && at != none {
			taken[i] = true
			s.level[constraint] = at
		} else {
			left = append(left, s)
		}
	}
	slices.SortStableFunc(left, func(a, b *seat) int { return cmp.Compare(btoi(a.cordoned), btoi(b.cordoned)) })
	for i := range taken {
		if !taken[i] {
			left[0].level[constraint] = lowest + i
			left = left[1:]
		}
	}
}

func foreignFirst(pods []*seat) []*seat {
	if !slices.ContainsFunc(pods, func(s *seat) bool { return s.foreign }) {
		return pods
	}
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *seat) int { return cmp.Compare(btoi(b.foreign), btoi(a.foreign)) })
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
