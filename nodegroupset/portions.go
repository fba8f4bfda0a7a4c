package nodegroupset

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// Portion is a part of the groups that a policy shares nodes between, such as the
// spot groups of all zones. The nodes of a portion are levelled over its groups.
type Portion struct {
	Name   string
	Groups []string
	// Weight counts for Proportional only, where 0 is no share beyond Base.
	Weight int64
	// Base is what the portion has before the policy applies, and does not count as
	// share: in nodes, or in the unit of Group.Capacity. Portions get their base in
	// the order of the list.
	Base int64
}

// hasBases reports whether some groups or portions have nodes before the policy applies.
func (r SplitRequest) hasBases() bool {
	return slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Base > 0 }) ||
		slices.ContainsFunc(r.Portions, func(p Portion) bool { return p.Base > 0 })
}

// checkPortions refuses portions that do not divide the groups.
func (r SplitRequest) checkPortions(isGroup func(string) bool) error {
	if len(r.Portions) == 0 {
		return nil
	}
	names, members := make(words, len(r.Portions)), make(words, len(r.Groups))
	for i, p := range r.Portions {
		refuse := func(field string, value any, reason string) error {
			return apportion.Invalid(fmt.Sprintf("portions[%d].%s", i, field), value, reason)
		}
		switch wrong := names.add(p.Name); {
		case wrong != "":
			return refuse("name", p.Name, wrong)
		case p.Weight < 0:
			return refuse("weight", p.Weight, notNegative)
		case p.Base < 0:
			return refuse("base", p.Base, notNegative)
		}
		if err := members.addGroups(fmt.Sprintf("portions[%d].groups", i), p.Groups, isGroup); err != nil {
			return err
		}
	}
	for i, g := range r.Groups {
		if !members[g.Name] {
			return apportion.Invalid(fmt.Sprintf("groups[%d].name", i), g.Name, "is in no portion")
		}
	}
	return nil
}

// part is a portion as the splitter sees it.
type part struct {
	Portion
	members []int // in the order in which equals are served
}

// parts finds the members of the portions. Without portions each group is one: in the order of the
// request if that is the priority or groups have a base, and else in that in which equals are served.
func (s *splitter) parts() []part {
	place := make(map[string]int, len(s.groups))
	for k, g := range s.groups {
		place[g.Name] = k
	}
	portions := s.request.Portions
	if len(portions) == 0 {
		ordered := s.request.Policy == Priority || s.request.hasBases()
		for k, g := range s.groups {
			if ordered {
				g = &s.request.Groups[k]
			}
			portions = append(portions, Portion{Name: g.Name, Groups: []string{g.Name}, Weight: g.Weight, Base: g.Base})
		}
	}
	parts := make([]part, len(portions))
	for p, portion := range portions {
		parts[p].Portion = portion
		for _, name := range portion.Groups {
			parts[p].members = append(parts[p].members, place[name])
		}
		slices.Sort(parts[p].members)
	}
	return parts
}

func (s *splitter) all() *part { return &part{members: everyIndex(len(s.groups))} }

func (p *part) size(sizes []int64) (total int64) {
	for _, k := range p.members {
		total += sizes[k]
	}
	return total
}

// shareByPortions raises groups to their min, gives the portions their bases and then what the
// policy says.
func (s *splitter) shareByPortions() {
	s.fill(s.all(), s.left, func(g *Group) int64 { return g.Min })
	parts := s.parts()
	for i := range parts {
		s.fill(&parts[i], parts[i].Base-parts[i].size(s.sizes), upToMax)
	}
	switch s.request.Policy {
	case Proportional:
		s.proportional(parts)
	case Priority:
		for i := range parts {
			s.fill(&parts[i], s.left, upToMax)
		}
	default:
		s.fill(s.all(), s.left, upToMax)
	}
}

func upToMax(g *Group) int64 { return g.Max }

// fill levels up to so many nodes over the groups of a portion, each up to a bound of its own.
func (s *splitter) fill(p *part, nodes int64, most func(*Group) int64) {
	if nodes = min(nodes, s.left); nodes > 0 {
		sizes, unplaced := s.levelled(s.sizes, p, nodes, most, true)
		s.sizes, s.left = sizes, s.left-nodes+unplaced
	}
}

// levelled returns the sizes after nodes have been levelled over a portion, and how many have no
// place. It notes which quotas stopped groups, if that is wanted.
func (s *splitter) levelled(sizes []int64, p *part, nodes int64, most func(*Group) int64, note bool) (after []int64, unplaced int64) {
	bins := make([]apportion.Bin, len(p.members))
	for i, k := range p.members {
		bins[i] = apportion.Bin{Size: sizes[k], Max: most(s.groups[k])}
	}
	levelled := s.level(nodes, bins, s.quotasOf(p.members, sizes))
	after = slices.Clone(sizes)
	for i, k := range p.members {
		after[k] = levelled.Sizes[i]
		if note && levelled.HeldBy[i] >= 0 {
			s.heldBy[k] = levelled.HeldBy[i]
		}
	}
	return after, levelled.Unplaced
}

// proportional spreads the final sizes of the portions. Where a quota
// leaves no room for a portion's share it gives as many nodes as keep to the
// quotas, and goes on without the portion that is stopped.
func (s *splitter) proportional(parts []part) {
	stopped := make([]bool, len(parts))
	for s.left > 0 {
		most, fits := s.mostThatFits(parts, stopped)
		if fits != nil {
			s.sizes, s.left = fits, s.left-most
		}
		next := slices.IndexFunc(s.claims(parts, stopped, 1), func(n int64) bool { return n > 0 })
		if s.left == 0 || next < 0 {
			return
		}
		_, unplaced := s.levelled(s.sizes, &parts[next], 1, upToMax, true)
		stopped[next] = unplaced > 0
	}
}

// mostThatFits finds how many of the nodes that are left can be spread so that the
// quotas are kept, and the sizes after that.
func (s *splitter) mostThatFits(parts []part, stopped []bool) (most int64, fits []int64) {
	try := func(nodes int64) []int64 {
		sizes := s.sizes
		for p, more := range s.claims(parts, stopped, nodes) {
			if more == 0 {
				continue
			}
			var unplaced int64
			if sizes, unplaced = s.levelled(sizes, &parts[p], more, upToMax, false); unplaced > 0 {
				return nil
			}
		}
		return sizes
	}
	high := int64(0)
	for _, more := range s.claims(parts, stopped, s.left) {
		high += more
	}
	if all := try(high); all != nil {
		return high, all
	}
	for high--; most < high; { // most fits, more than high does not
		middle := high - (high-most)/2
		if sizes := try(middle); sizes != nil {
			most, fits = middle, sizes
		} else {
			high = middle - 1
		}
	}
	return most, fits
}

// claims says how many of the nodes go to each portion by their weights.
func (s *splitter) claims(parts []part, stopped []bool, nodes int64) []int64 {
	claims := make([]apportion.Claim, len(parts))
	var total, room int64
	for i := range parts {
		p := &parts[i]
		size := p.size(s.sizes)
		claims[i] = apportion.Claim{Weight: p.Weight, Offset: min(p.Base, size), Low: size, High: size}
		if p.Weight > 0 && !stopped[i] {
			for _, k := range p.members {
				claims[i].High += max(0, s.groups[k].Max-s.sizes[k])
			}
		}
		total += size
		room += claims[i].High - size
	}
	more := apportion.Spread(total+min(nodes, room), claims, apportion.LargestRemainder)
	for i := range more {
		more[i] -= claims[i].Low
	}
	return more
}
