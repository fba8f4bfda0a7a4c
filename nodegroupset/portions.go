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

// byPortions reports whether a plain policy over groups does not do.
func (r SplitRequest) byPortions() bool {
	return len(r.Portions) > 0 || slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Base > 0 })
}

// portions are those of the request, or else one for each group.
func (r SplitRequest) portions() []Portion {
	if len(r.Portions) > 0 {
		return r.Portions
	}
	each := make([]Portion, len(r.Groups))
	for i, g := range r.Groups {
		each[i] = Portion{Name: g.Name, Groups: []string{g.Name}, Weight: g.Weight, Base: g.Base}
	}
	return each
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
		for k, name := range p.Groups {
			wrong := members.add(name)
			if !isGroup(name) {
				wrong = "is none of the groups"
			}
			if wrong != "" {
				return refuse(fmt.Sprintf("groups[%d]", k), name, wrong)
			}
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

// parts finds the members of the portions.
func (s *splitter) parts() []part {
	place := make(map[string]int, len(s.groups))
	for k, g := range s.groups {
		place[g.Name] = k
	}
	portions := s.request.portions()
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

func (p *part) size(sizes []int64) (total int64) {
	for _, k := range p.members {
		total += sizes[k]
	}
	return total
}

// shareByPortions gives the portions their bases and then what the policy says.
func (s *splitter) shareByPortions() error {
	if err := s.raiseToMin(); err != nil {
		return err
	}
	parts := s.parts()
	for i := range parts {
		if short := parts[i].Base - parts[i].size(s.sizes); short > 0 {
			if err := s.fill(&parts[i], short); err != nil {
				return err
			}
		}
	}
	switch s.request.Policy {
	case Proportional:
		return s.proportionalPortions(parts)
	case Priority:
		for i := range parts {
			if err := s.fill(&parts[i], s.left); err != nil {
				return err
			}
		}
		return nil
	default:
		all := part{}
		for k := range s.groups {
			all.members = append(all.members, k)
		}
		return s.fill(&all, s.left)
	}
}

// fill levels up to so many nodes over the groups of a portion.
func (s *splitter) fill(p *part, nodes int64) error {
	nodes = min(nodes, s.left)
	levelled, err := s.levelled(s.sizes, p, nodes)
	if err != nil {
		return err
	}
	s.sizes, s.left = levelled.Sizes, s.left-nodes+levelled.Unplaced
	s.hold(p, levelled)
	return nil
}

// levelled returns the sizes after nodes have been levelled over a portion.
func (s *splitter) levelled(sizes []int64, p *part, nodes int64) (apportion.Levelled, error) {
	bins := make([]apportion.Bin, len(s.groups))
	for k, size := range sizes {
		bins[k] = apportion.Bin{Size: size, Max: size}
	}
	for _, k := range p.members {
		bins[k].Max = s.groups[k].Max
	}
	return apportion.Level(nodes, bins, s.quotas)
}

// hold notes the quotas that stopped groups of a portion.
func (s *splitter) hold(p *part, levelled apportion.Levelled) {
	for _, k := range p.members {
		if levelled.HeldBy[k] >= 0 {
			s.heldBy[k] = levelled.HeldBy[k]
		}
	}
}

// proportionalPortions spreads the final sizes of the portions. Where a quota
// leaves no room for a portion's share it gives as many nodes as keep to the
// quotas, and goes on without the portion that is stopped.
func (s *splitter) proportionalPortions(parts []part) error {
	stopped := make([]bool, len(parts))
	for s.left > 0 {
		most, fits, err := s.mostThatFits(parts, stopped)
		if err != nil {
			return err
		}
		if fits != nil {
			s.sizes, s.left = fits, s.left-most
		}
		next := slices.IndexFunc(s.claims(parts, stopped, 1), func(n int64) bool { return n > 0 })
		if s.left == 0 || next < 0 {
			return nil
		}
		one, err := s.levelled(s.sizes, &parts[next], 1)
		if err != nil {
			return err
		}
		if one.Unplaced > 0 {
			s.hold(&parts[next], one)
			stopped[next] = true
		}
	}
	return nil
}

// mostThatFits finds how many of the nodes that are left can be spread so that the
// quotas are kept, and the sizes after that.
func (s *splitter) mostThatFits(parts []part, stopped []bool) (most int64, fits []int64, err error) {
	try := func(nodes int64) ([]int64, error) {
		sizes := s.sizes
		for p, more := range s.claims(parts, stopped, nodes) {
			if more == 0 {
				continue
			}
			levelled, err := s.levelled(sizes, &parts[p], more)
			if err != nil || levelled.Unplaced > 0 {
				return nil, err
			}
			sizes = levelled.Sizes
		}
		return sizes, nil
	}
	high := int64(0)
	for _, more := range s.claims(parts, stopped, s.left) {
		high += more
	}
	if fits, err = try(high); err != nil || fits != nil {
		return high, fits, err
	}
	for high--; most < high; { // most fits, more than high does not
		middle := high - (high-most)/2
		sizes, err := try(middle)
		switch {
		case err != nil:
			return 0, nil, err
		case sizes != nil:
			most, fits = middle, sizes
		default:
			high = middle - 1
		}
	}
	return most, fits, nil
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
