package nodegroupset

import (
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// ClassSplit is what happens to the nodes of one class.
type ClassSplit struct {
	Nodes    map[string]int64 // by the groups that get some
	Unplaced int64            // nodes no member had room for
	// Reason and Detail say what keeps the members from taking what is unplaced:
	// ReasonAtMax or ReasonQuota; ReasonNone if it is more than Nodes of the request.
	Reason Reason
	Detail string
}

// checkClasses refuses classes that no group can serve.
func (r SplitRequest) checkClasses(isGroup func(string) bool) error {
	for i := range r.Classes {
		c := &r.Classes[i]
		path := fmt.Sprintf("classes[%d].", i)
		switch {
		case c.Nodes < 0:
			return apportion.Invalid(path+"nodes", c.Nodes, notNegative)
		case len(c.Members) == 0:
			return apportion.Invalid(path+"members", len(c.Members), "at least one group is needed")
		}
		if err := make(words, len(c.Members)).addGroups(path+"members", c.Members, isGroup); err != nil {
			return err
		}
	}
	return nil
}

// splitClasses shares the nodes of all classes: at once, if nothing but the bounds of the groups
// and of all of them together matters, and else class after class.
func (r SplitRequest) splitClasses(byName []int) (SplitResult, error) {
	order := everyIndex(len(r.Classes))
	slices.SortStableFunc(order, func(i, j int) int { return r.Classes[i].compare(&r.Classes[j]) })
	if r.levels() {
		result, ok, err := newSplitter(r, r.tieOrder(byName)).splitAtOnce(order)
		if ok || err != nil {
			return result, err
		}
	}
	return r.splitInTurn(order)
}

// levels reports whether every node counts alike and goes to the smallest group that can have it.
func (r SplitRequest) levels() bool {
	return (r.Policy == Even || r.Policy == "") && !r.capacitiesDiffer() && !r.hasBases()
}

// splitAtOnce levels the nodes of all classes together; ok is false if quotas over several of the
// groups do not allow for the result.
func (s *splitter) splitAtOnce(order []int) (result SplitResult, ok bool, err error) {
	l := s.classLevelling(order)
	bounds := s.boundByQuotas(l)
	l.fit(bounds.nodes)
	if l.levelClasses(everyIndex(len(order)), everyIndex(len(s.groups))); l.err != nil {
		return SplitResult{}, false, fmt.Errorf("split: %w", l.err)
	}
	s.sizes = l.sizes
	for _, c := range bounds.rest {
		now := s.quotas[c].usage(s.sizes)
		if now > uint64(s.quotas[c].limit) && (now > s.quotas[c].used || now == math.MaxUint64) {
			return SplitResult{}, false, nil
		}
	}
	for k := range s.groups {
		if s.sizes[k] < l.bins[k].Max {
			s.heldBy[k] = -1
		}
	}
	s.left = min(s.left, s.request.asked())
	result.Classes = make([]ClassSplit, len(order))
	for i, at := range order {
		class := ClassSplit{Nodes: map[string]int64{}, Unplaced: s.request.Classes[at].Nodes - l.nodes[i]}
		for _, k := range l.members[i] {
			if n := l.sent[i][k]; n > 0 {
				class.Nodes[s.groups[k].Name] = n
			}
			if s.sizes[k] < l.bins[k].Max && class.Unplaced > 0 {
				s.heldBy[k] = bounds.ofAll
			}
		}
		s.left -= l.nodes[i]
		result.Classes[at] = class
	}
	result.Groups, result.Unplaced = s.result().Groups, s.left
	result.explainClasses(s.request.Classes)
	return result, true, nil
}

// asked is how many nodes the classes need in all, or the largest number.
func (r SplitRequest) asked() (all int64) {
	for i := range r.Classes {
		all += min(r.Classes[i].Nodes, math.MaxInt64-all)
	}
	return all
}

// classLevelling is the levelling of the classes in an order, the quotas left aside.
func (s *splitter) classLevelling(order []int) *classLevelling {
	at := make(map[string]int, len(s.groups))
	l := &classLevelling{
		bins: make([]apportion.Bin, len(s.groups)), preferred: make([]int64, len(s.groups)), sizes: make([]int64, len(s.groups)),
		nodes: make([]int64, len(order)),
	}
	for k, g := range s.groups {
		at[g.Name] = k
		l.bins[k], l.preferred[k] = apportion.Bin{Size: g.Size, Min: g.Min, Max: g.Max}, g.preferred()
	}
	members := make([][]int, len(order))
	for i, c := range order {
		class := &s.request.Classes[c]
		l.nodes[i] = class.Nodes
		for _, name := range class.Members {
			members[i] = append(members[i], at[name])
		}
		slices.Sort(members[i])
	}
	l.flow = newFlow(members, len(s.groups))
	return l
}

// quotaBounds are what quotas leave.
type quotaBounds struct {
	nodes int64 // in all
	ofAll int   // the quota that bounds them, or -1
	rest  []int // quotas over some of the groups, which are not taken into account
}

// boundByQuotas lowers what groups may have to the quotas that count one group only. Those that
// count all groups alike bound all nodes together.
func (s *splitter) boundByQuotas(l *classLevelling) quotaBounds {
	bounds := quotaBounds{nodes: s.left, ofAll: -1}
	useful := make([]bool, len(s.groups)) // groups that a class may make larger
	for _, members := range l.members {
		for _, k := range members {
			useful[k] = s.groups[k].Size < s.groups[k].Max
		}
	}
	for c := range s.quotas {
		counted, alike := s.quotas[c].counted(useful)
		switch {
		case len(counted) == 0:
		case len(counted) == 1:
			k := counted[0]
			if most := s.sizes[k] + s.quotas[c].headroom(k); most < l.bins[k].Max {
				l.bins[k].Max, l.bins[k].Min, s.heldBy[k] = most, min(most, l.bins[k].Min), c
				l.preferred[k] = min(l.preferred[k], most)
			}
		case alike:
			if most := s.quotas[c].headroom(counted[0]); most < bounds.nodes {
				bounds.nodes, bounds.ofAll = most, c
			}
		default:
			bounds.rest = append(bounds.rest, c)
		}
	}
	return bounds
}

// counted are those of some groups that a quota counts; alike reports whether it counts all of them,
// each with the same units.
func (q *quota) counted(some []bool) (groups []int, alike bool) {
	alike = true
	for k, units := range q.units {
		switch {
		case !some[k]:
		case units == 0:
			alike = false
		default:
			groups = append(groups, k)
			alike = alike && units == q.units[groups[0]]
		}
	}
	return groups, alike
}

// explainClasses says why nodes of classes are unplaced.
func (r *SplitResult) explainClasses(classes []Class) {
	rows := make(map[string]*GroupSplit, len(r.Groups))
	for i := range r.Groups {
		rows[r.Groups[i].Name] = &r.Groups[i]
	}
	for i := range r.Classes {
		c := &r.Classes[i]
		if c.Unplaced == 0 {
			continue
		}
		c.Reason = ReasonAtMax
		for _, name := range classes[i].Members {
			switch row := rows[name]; row.Reason {
			case ReasonQuota:
				c.Reason, c.Detail = row.Reason, row.Detail
			case ReasonAtMax, ReasonOverMax:
			default:
				if c.Reason == ReasonAtMax {
					c.Reason = ReasonNone
				}
			}
		}
	}
}

// splitInTurn shares the nodes of one class after the other, each on top of what its members have
// got so far.
func (r SplitRequest) splitInTurn(order []int) (SplitResult, error) {
	result := SplitResult{Classes: make([]ClassSplit, len(order)), Groups: make([]GroupSplit, len(r.Groups))}
	now := r
	now.Classes, now.Groups = nil, slices.Clone(r.Groups)
	for i, g := range r.Groups {
		result.Groups[i] = GroupSplit{Name: g.Name, Size: g.Size, NewSize: g.Size}
	}
	left := min(r.Nodes, r.asked())
	for _, at := range order {
		class := &r.Classes[at]
		turn := now.turnOf(class, min(left, class.Nodes))
		shared, err := turn.splitReserving(turn.byName())
		if err != nil {
			return SplitResult{}, err
		}
		split := ClassSplit{Nodes: map[string]int64{}, Unplaced: class.Nodes - turn.Nodes + shared.Unplaced}
		for i, g := range shared.Groups {
			if !slices.Contains(class.Members, g.Name) {
				continue
			}
			if n := g.NewSize - g.Size; n > 0 {
				split.Nodes[g.Name] = n
				now.Groups[i].Size = g.NewSize
			}
			result.Groups[i].NewSize, result.Groups[i].Reason, result.Groups[i].Detail = g.NewSize, g.Reason, g.Detail
		}
		left -= turn.Nodes - shared.Unplaced
		result.Classes[at] = split
	}
	result.Unplaced = left
	result.explainClasses(r.Classes)
	return result, nil
}

// turnOf asks for the nodes of one class only. Other groups count for the policy, and get nothing.
func (r SplitRequest) turnOf(class *Class, nodes int64) SplitRequest {
	r.Nodes, r.Groups = nodes, slices.Clone(r.Groups)
	standsFor := class.Members[0]
	if slices.Contains(class.Members, r.Chosen) {
		standsFor = r.Chosen
	} else {
		r.Chosen = ""
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		if !slices.Contains(class.Members, g.Name) {
			g.Min, g.Max, g.Reserve = 0, g.Size, 0
		}
		if g.Name == standsFor && r.NodeCapacity > 0 {
			r.NodeCapacity = g.Capacity
		}
	}
	return r
}
