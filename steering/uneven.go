package steering

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// UnevenStatus is a set whose sizes differ by more than they would if its nodes were shared anew
// within the minimums and maximums.
type UnevenStatus struct {
	Set   string    `json:"set"` // the first group of the set
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
	// Members have as NewSize what levelling would give, and why they do not have it.
	Members []PlanMember `json:"members"`
}

// uneven is what is kept about an uneven set from loop to loop.
type uneven struct {
	UnevenStatus
	grown  bool // by a scale-up that nobody was told of yet
	larger bool // of its members one grew that is larger than it should be
	wanted bool // by the pods, which could run nowhere else, or by Cluster Autoscaler on their behalf
}

// findUneven looks which sets are uneven. A set that is being split keeps the answer it had.
func (s *State) findUneven() {
	before, sizes := s.plan.uneven, s.plan.sizes
	s.plan.uneven, s.plan.sizes, s.plan.sets = map[string]*uneven{}, map[string]int{}, nil
	if s.view == nil {
		return
	}
	members, terms := map[string][]string{}, s.terms(nil)
	first := s.firstOf()
	for _, id := range slices.Sorted(maps.Keys(s.view.Groups)) {
		if g := s.view.Groups[id]; first[id] != "" && !g.ZeroOrMax {
			members[first[id]] = append(members[first[id]], id)
			s.plan.sizes[id] = s.state(id).confirmedSize()
		}
	}
	for _, set := range slices.Sorted(maps.Keys(members)) {
		u := before[set]
		if len(members[set]) > 1 {
			s.plan.sets = append(s.plan.sets, set)
		}
		if slices.ContainsFunc(members[set], s.plan.current.has) {
			if u != nil {
				s.plan.uneven[set] = u
			}
			continue
		}
		levelled := s.levelled(members[set], terms[members[set][0]])
		if levelled == nil {
			for _, id := range members[set] {
				b := s.state(id)
				b.inFull, b.held, b.unsplit = "", "", 0
			}
			continue
		}
		if u == nil {
			u = &uneven{UnevenStatus: UnevenStatus{Set: set, Since: s.now}}
		}
		grew := func(m PlanMember) bool { n, known := sizes[m.Name]; return known && m.Size > n }
		grown := slices.ContainsFunc(levelled, grew)
		u.larger = u.grown && u.larger || slices.ContainsFunc(levelled, func(m PlanMember) bool { return grew(m) && m.Size > m.NewSize })
		u.Members, u.grown = levelled, u.grown || grown
		u.Why, u.wanted = s.whyUneven(u)
		s.plan.uneven[set] = u
		if u.grown && !grown { // the scale-up has ended
			u.grown = false
			s.log(Log{Message: "Set is uneven after a scale-up", Values: []any{"set", set, "reason", u.Why}})
			publish := s.event
			if u.wanted {
				publish = s.inform
			}
			publish("SetUneven", fmt.Sprintf("The set of node group %s is uneven after a scale-up: %s", set, u.Why))
		}
	}
}

// levelled shares the nodes of a set anew within the minimums and maximums; nil if the set is as
// level as that, a node more or less.
func (s *State) levelled(members []string, terms *nodegroupset.Terms) []PlanMember {
	if len(members) < 2 {
		return nil
	}
	request := nodegroupset.SplitRequest{}
	for _, id := range members {
		g, size := s.view.Groups[id], int64(max(0, s.plan.sizes[id]))
		least, most := min(size, int64(g.MinSize)), max(size, int64(g.MaxSize))
		if size > int64(g.MaxSize) {
			least = size // it neither grows nor is it shrunk
		}
		request.Groups = append(request.Groups, nodegroupset.Group{Name: id, Size: least, Max: most})
		request.Nodes += size - least
	}
	result, err := nodegroupset.Split(terms.Of(request, members[0]))
	if err != nil {
		return nil // a policy that does not hold for these members
	}
	out := make([]PlanMember, 0, len(members))
	short, over := 0, 0
	for i, g := range result.Groups {
		m := PlanMember{Name: g.Name, Size: s.plan.sizes[members[i]], NewSize: int(g.NewSize)}
		short, over = max(short, m.NewSize-m.Size), max(over, m.Size-m.NewSize)
		out = append(out, m)
	}
	if apart := short + over; short == 0 || over == 0 || apart < 2 || apart == 2 && !s.apart(out, terms) {
		return nil
	}
	for i := range out {
		if m := &out[i]; m.Size < m.NewSize {
			m.Why = s.whySmall(m.Name)
		}
	}
	return out
}

// apart reports whether members that are one node from what levelling gives are further apart than
// it makes them: with equal shares 3 and 4 are as good as 4 and 3.
func (s *State) apart(members []PlanMember, terms *nodegroupset.Terms) bool {
	if !terms.Level() {
		return false
	}
	for _, small := range members {
		for _, large := range members {
			if small.Size < small.NewSize && large.Size > large.NewSize && large.Size-small.Size > 1 {
				return true
			}
		}
	}
	return false
}

// whySmall returns what keeps a group from having more nodes, or kept it when it was to grow last.
func (s *State) whySmall(id string) string {
	g, b := s.view.Groups[id], s.state(id)
	if why := s.zones.away(id); why != "" {
		return why
	}
	if until, why, off := s.failures.backoff.Active(id, s.now); off {
		return fmt.Sprintf("backed off until %s: %s", until.UTC().Format(time.RFC3339), why)
	}
	if why := g.leftAlone(); why != "" {
		return "backed off by Cluster Autoscaler: " + why
	}
	if g.Err != nil {
		return "it cannot be read: " + g.Err.Error()
	}
	if _, why := allowance(b.onTrial, s.nodes.at.count(g, b)); why != "" {
		return why
	}
	if b.held == "" && b.pinned {
		return pinned
	}
	return b.held
}

// whyUneven names what is known of the cause, that of a failure first, and reports whether the pods
// wanted it so.
func (s *State) whyUneven(u *uneven) (why string, wanted bool) {
	unsplit := ""
	for _, m := range u.Members {
		if b := s.state(m.Name); m.Size > m.NewSize {
			if b.inFull != "" {
				return fmt.Sprintf("%s was increased in full: %s", m.Name, b.inFull), false
			}
			if b.unsplit > 0 {
				unsplit = fmt.Sprintf("%s has %d of %d: Cluster Autoscaler added %d nodes to it at once (--max-nodes-per-scaleup)", m.Name, m.Size,
					m.NewSize, b.unsplit)
			}
		}
		if byPods := m.Why == pinned || m.Why == boundTo || m.Why == sparse; m.Why != "" && (why == "" || wanted && !byPods) {
			why, wanted = fmt.Sprintf("%s has %d of %d: %s", m.Name, m.Size, m.NewSize, m.Why), byPods
		}
	}
	switch {
	case why != "":
		return why, wanted
	case u.Why != "" && !u.grown:
		return u.Why, u.wanted
	case unsplit != "":
		return unsplit, true
	case u.larger:
		return "Cluster Autoscaler asked for nodes of the larger groups only", true
	case u.grown:
		return "the nodes of the scale-up were too few to level it", true
	}
	return "the nodes were removed, or added by others", false
}
