package steering

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
)

// split says how the nodes that a set needs are shared among its members.
type split struct {
	chosen  string
	why     string
	policy  string // of a declared set
	need    int    // after what is on its way unseen
	granted int    // of it
	lowered int    // what is on its way unseen
	members []member
	shares  map[string]int
	result  []PlanMember
	bound   bool // some pods can run on some members only
	// oneByOne: only the member that grows next counts, since Cluster Autoscaler asks anew before each increase.
	oneByOne bool
	sparse   []string // members left out: their nodes take fewer of the pods
}

// member is a group of the set that can grow.
type member struct {
	nodegroupset.Group
	option  expander.Offer
	limited bool   // its option may lack pods for want of room
	held    string // why it gets no more than allowed as long as others can take the rest; empty for no limit
	allowed int64
	lag     int64 // in its size and maximum: its zone was shifted away and has come back lately
}

// share works out the split for the set of the chosen group and picks the member that grows now. It
// returns nil if all nodes needed are on their way.
func (c *choice) share(chosen, why string, growable []string) (*pick, Decision) {
	if single := c.single(chosen); single {
		reason := "a ProvisioningRequest is never split"
		if c.s.view.Groups[chosen].ZeroOrMax {
			reason = "the group is resized to its maximum or to zero, never split"
		}
		p := &pick{Group: chosen, count: c.options[chosen].NodeCount, full: true, why: reason}
		return p, Decision{Group: chosen, Asked: c.options[chosen].NodeCount, Reason: reason + "; " + why}
	}
	s := &split{chosen: chosen, why: why, oneByOne: c.s.o.ExpanderOnly}
	if terms := c.policies[chosen]; terms != nil {
		s.policy = terms.Describe()
	}
	for _, name := range growable {
		if slices.Contains(c.similarTo(chosen), name) && !c.single(name) {
			m := c.member(name)
			m.option, m.limited = *c.options[name], c.limited(name)
			s.members = append(s.members, m)
		}
	}
	if c.grownNow(chosen) {
		reason := fmt.Sprintf("the set of %s has grown in this loop, and Cluster Autoscaler counts what it got in the next one", chosen)
		return nil, Decision{Reason: reason}
	}
	c.leaveOutSparse(s)
	offered := len(s.members)
	s.members = append(s.members, c.capped(chosen)...)
	s.need = c.needOf(s)
	s.lowered = min(s.need, c.unseenElsewhere(s))
	s.need -= s.lowered
	if s.need <= 0 {
		return nil, Decision{Reason: fmt.Sprintf("what the set of %s needs is on its way: %d nodes that Cluster Autoscaler cannot see", chosen,
			s.lowered)}
	}
	err := c.work(s)
	if err == nil && s.next() == nil && len(s.members) > offered {
		s.members = s.members[:offered]
		err = c.work(s)
	}
	if err != nil {
		return nil, Decision{Reason: "no split for the set of " + chosen, Error: err.Error()}
	}
	return c.pickNext(s)
}

// leaveOutSparse leaves out the members that need more nodes than the chosen one for the same pods, as daemon sets take more of their
// nodes, if the others have room: nodes come before evenness. Cluster Autoscaler does not even take them for similar, since less of their
// nodes is free; that is not known here.
func (c *choice) leaveOutSparse(s *split) {
	if s.policy != "" { // its members may be of any size
		return
	}
	chosen := c.options[s.chosen]
	pods := slices.Sorted(slices.Values(chosen.Pods))
	room, seen := int64(0), false
	var dense []member
	for i := range s.members {
		m := &s.members[i]
		if m.option.NodeCount > chosen.NodeCount && slices.Equal(slices.Sorted(slices.Values(m.option.Pods)), pods) {
			s.sparse = append(s.sparse, m.Name)
			continue
		}
		dense, seen = append(dense, *m), seen || c.counted(m.Name).ready > 0
		if m.held != "" {
			room += m.allowed
		} else {
			room += max(0, m.Max-m.Size)
		}
	}
	// What is known of a group without nodes is what the cloud says of its machines, which lacks what runs on real ones: it may seem to
	// take more pods for that reason alone.
	promised := !seen && slices.ContainsFunc(s.sparse, func(name string) bool { return c.counted(name).ready > 0 })
	if promised || room < int64(chosen.NodeCount) {
		s.sparse = nil
		return
	}
	s.members = dense
}

// capped returns the members that Cluster Autoscaler is not to ask in this loop. They keep their part of the split.
func (c *choice) capped(chosen string) []member {
	var out []member
	for _, name := range c.similarTo(chosen) {
		if b := c.s.state(name); b.full && b.held != sparse && c.options[name] == nil && c.s.view.Groups[name] != nil && !c.s.shut(name) {
			m := c.member(name)
			m.limited = true
			out = append(out, m)
		}
	}
	return out
}

// asked returns how many nodes Cluster Autoscaler asks for: those of the largest option, and those of
// others that have no pods in common with the ones before.
func (s *split) asked() (nodes int) {
	served := map[int]bool{}
	for _, m := range slices.SortedStableFunc(slices.Values(s.members), func(a, b member) int {
		return cmp.Or(cmp.Compare(b.option.NodeCount, a.option.NodeCount), cmp.Compare(len(b.option.Pods), len(a.option.Pods)),
			cmp.Compare(a.Name, b.Name))
	}) {
		if slices.ContainsFunc(m.option.Pods, func(pod int) bool { return served[pod] }) {
			continue
		}
		nodes += m.option.NodeCount
		for _, pod := range m.option.Pods {
			served[pod] = true
		}
	}
	return nodes
}

// needOf returns how many nodes the pods of the set need. Where a node of one member takes fewer of them than
// one of another, as daemons take more of it, that follows from what each member gets.
func (c *choice) needOf(s *split) int {
	most := s.asked()
	pods, least := 0, most
	for i := range s.members {
		o := &s.members[i].option
		if pods = max(pods, len(o.Pods)); len(o.Pods) > 0 {
			least = min(least, ceilDiv(o.NodeCount*pods, len(o.Pods)))
		}
	}
	if least == most {
		return most
	}
	fits := func(nodes int) bool {
		try := *s
		try.need, try.members = nodes, slices.Clone(s.members)
		if err := c.work(&try); err != nil || try.bound {
			return false
		}
		room := 0.0
		for i := range try.members {
			if o := &try.members[i].option; o.NodeCount > 0 {
				room += float64(try.shares[o.Group]) * float64(len(o.Pods)) / float64(o.NodeCount)
			}
		}
		return room >= float64(pods)-0.001
	}
	return least + sort.Search(most-least, func(n int) bool { return fits(least + n) })
}

// pickNext picks the member of a split that grows now.
func (c *choice) pickNext(s *split) (*pick, Decision) {
	next := s.next()
	if next == nil {
		return nil, Decision{Reason: fmt.Sprintf("no member of the set of %s has room, or it is to wait for its nodes that are on their way",
			s.chosen), Members: s.result}
	}
	now := s.shares[next.Name]
	if c.s.o.ExpanderOnly { // nobody splits it further
		now = c.counts[next.Name]
	}
	p := &pick{Group: next.Name, count: c.counts[next.Name], split: s, Shares: s.shares}
	return p, Decision{Group: next.Name, Asked: c.counts[next.Name], Granted: now, Members: s.result, Reason: s.describe(next.Name, now)}
}

// member returns a group as it takes part in a split.
func (c *choice) member(name string) member {
	g, b := c.s.view.Groups[name], c.s.state(name)
	m := member{Group: nodegroupset.Group{Name: name, Size: int64(max(0, b.target)), Min: int64(g.MinSize), Max: int64(g.MaxSize)}}
	m.lag = min(c.s.zones.lag(name), max(0, nodegroupset.MaxSize-m.Max))
	m.Size, m.Max = m.Size+m.lag, m.Max+m.lag
	allowed, why := allowance(b.onTrial, c.at.count(g, b))
	m.allowed, m.held = int64(allowed), why
	if _, why, off := c.s.failures.backoff.Active(name, c.at.now); off && c.s.o.ExpanderOnly { // others leave it out of the split
		m.allowed, m.held = 0, "backed off: "+why
	}
	if c.barred(name) {
		m.allowed, m.held = 0, "nothing yet, since it has failed and another member is backed off"
	}
	return m
}

func (s *split) describe(next string, now int) string {
	parts := []string{fmt.Sprintf("%d nodes for the set of %s, %d of them in %s now", s.need, s.chosen, now, next)}
	if s.lowered > 0 {
		parts = append(parts, fmt.Sprintf("%d less for nodes on their way that Cluster Autoscaler cannot see", s.lowered))
	}
	if s.policy != "" {
		parts = append(parts, s.policy)
	}
	if s.why != "" {
		parts = append(parts, s.why)
	}
	return strings.Join(parts, "; ")
}

// unseenElsewhere returns how many nodes that Cluster Autoscaler does not count are on their way in
// groups without an option, and could be used by pods of the set.
func (c *choice) unseenElsewhere(s *split) int {
	n := 0
	for _, name := range c.similarTo(s.chosen) {
		if c.options[name] != nil || c.s.view.Groups[name] == nil {
			continue
		}
		unseen := c.s.unseen(c.s.view.Groups[name], c.at)
		if unseen == 0 {
			continue
		}
		n += min(unseen, c.usable(s, name, unseen))
	}
	return n
}

// usable returns how many nodes that are on their way in a group the pods of the set need. What is
// not certain counts for a few loops, and nothing does for long: if Cluster Autoscaler goes on asking, it
// gets what it asks for.
func (c *choice) usable(s *split, name string, unseen int) int {
	template, b := c.template(name), c.s.state(name)
	if template == nil {
		return unseen
	}
	sure, all := 0, 0
	for _, m := range s.members {
		if pods := len(m.option.Pods); pods > 0 {
			certain, accepted := c.accepted(&m.option, template)
			sure = max(sure, ceilDiv(certain*m.option.NodeCount, pods))
			all = max(all, ceilDiv(accepted*m.option.NodeCount, pods))
		}
	}
	switch {
	case !c.patient(name):
		return 0
	case b.doubts.loops <= maxDoubts:
		return all
	}
	return sure
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// grownNow reports whether a member of the set was increased in this loop and got other than was asked.
// With --salvo-scale-up Cluster Autoscaler asks again in the same loop, and assumes that it gets what it
// has asked for.
func (c *choice) grownNow(chosen string) bool {
	return slices.ContainsFunc(c.similarTo(chosen), func(name string) bool { return c.s.caller.raised[name] })
}

// work splits the need. Pods that run only on some members get their nodes there, and the sizes of
// all are as even as that allows. Limited members get more only if no other member can take it.
func (c *choice) work(s *split) error {
	request := nodegroupset.SplitRequest{Nodes: int64(s.need), Classes: c.bound(s)}
	var names []string
	for i := range s.members {
		m, g := &s.members[i], s.members[i].Group
		if m.held != "" {
			g.Reserve = max(0, g.Max-max(g.Size, m.Size+m.allowed))
		}
		if g.Name == s.chosen {
			request.Chosen = g.Name
		}
		request.Groups, names = append(request.Groups, g), append(names, g.Name)
	}
	if s.bound = len(request.Classes) > 0; s.bound {
		slices.Sort(names)
		request.Classes = append(request.Classes, nodegroupset.Class{Members: names, Nodes: int64(s.need)})
	}
	result, err := nodegroupset.Split(c.policies[s.chosen].Completed(request, s.chosen, func(name string) (int64, bool) {
		return int64(max(0, c.s.state(name).target)), true // of a group of the set that is no member: it gets nothing
	}))
	if err != nil {
		return err
	}
	s.shares, s.result = map[string]int{}, nil
	for i, g := range result.Groups[:len(s.members)] { // in the order of the request
		m := &s.members[i]
		s.shares[m.Name] = int(g.NewSize - g.Size)
		s.result = append(s.result, PlanMember{Name: m.Name, Size: int(m.Size - m.lag), NewSize: int(g.NewSize - m.lag), Why: m.why(g.Reason)})
	}
	return nil
}

// why says what kept the member from growing.
func (m *member) why(reason nodegroupset.Reason) string {
	var why string
	switch reason {
	case nodegroupset.ReasonReserve:
		why = m.held
	case nodegroupset.ReasonAtMax:
		why = fmt.Sprintf("max %d", m.Max-m.lag)
	default:
		why = string(reason)
	}
	if m.lag > 0 {
		why = strings.TrimPrefix(fmt.Sprintf("%s; its zone has come back and it catches up slowly, counting as larger by %d", why, m.lag), "; ")
	}
	return why
}

// bound finds the pods that only some members take, and how many nodes they need.
func (c *choice) bound(s *split) []nodegroupset.Class {
	takers := make([][]string, len(c.request.Pods))
	for _, m := range s.members {
		for _, i := range m.option.Pods {
			takers[i] = append(takers[i], m.Name)
		}
	}
	for i, names := range takers {
		for _, m := range s.members {
			if len(names) > 0 && m.limited && !slices.Contains(names, m.Name) && c.template(m.Name) != nil &&
				podfit.RulesOf(c.request.Pods[i]).Select(c.template(m.Name)) {
				takers[i] = append(takers[i], m.Name)
			}
		}
	}
	classes := nodegroupset.Classes(len(takers), func(i int) []string { return takers[i] })
	classes = slices.DeleteFunc(classes, func(class nodegroupset.Class) bool { return len(class.Members) == len(s.members) })
	for i := range classes {
		class := &classes[i]
		for _, m := range s.members {
			if pods := len(m.option.Pods); pods > 0 && slices.Contains(class.Members, m.Name) {
				class.Nodes = max(class.Nodes, int64(ceilDiv(len(class.Items)*m.option.NodeCount, pods)))
			}
		}
	}
	return classes
}

// next returns the member that grows now: the one with the largest share, so that most pods start
// soonest. If some pods are bound to some members, the member whose option holds the fewest pods
// comes first: Cluster Autoscaler puts pods on new nodes in its own order, and the pods left over
// then are those that only the other members can take.
func (s *split) next() *member {
	var best *member
	for i := range s.members {
		m := &s.members[i]
		if s.shares[m.Name] > 0 && m.option.Group != "" && (best == nil || s.before(m, best)) {
			best = m
		}
	}
	return best
}

func (s *split) before(a, b *member) bool {
	chosenFirst := func(m *member) int {
		if m.Name == s.chosen {
			return 0
		}
		return 1
	}
	fewer, smaller := 0, 0
	if s.oneByOne {
		smaller = cmp.Compare(a.Size, b.Size)
	}
	if s.bound {
		fewer = cmp.Compare(len(a.option.Pods), len(b.option.Pods))
	}
	return cmp.Or(
		fewer,
		cmp.Compare(s.shares[b.Name], s.shares[a.Name]),
		smaller,
		cmp.Compare(chosenFirst(a), chosenFirst(b)),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// cut makes the split smaller: Cluster Autoscaler is allowed fewer nodes than the pods need.
func (c *choice) cut(s *split, to int) error {
	s.need = max(0, to-s.lowered)
	return c.work(s)
}

// moveLastNode gives a member the last node of another one if it is asked for more than its share and all sizes are then as even
// as before. Of three nodes for a and b with 4 each, a should get two. If Cluster Autoscaler, which balances by itself, asks b for
// two, b gets them, and a gets one: with 5 and 6 nodes as even as with 6 and 5, and a loop sooner. Members that were increased
// already keep what they have got.
func (p *pick) moveLastNode(id string, increased map[string]bool) {
	s := p.split
	to := slices.IndexFunc(s.members, func(m member) bool {
		return m.Name == id && m.held == "" && m.Size+int64(s.shares[id]) < m.Max
	})
	if to < 0 || s.policy != "" || s.bound {
		return
	}
	size := s.members[to].Size + int64(s.shares[id])
	from := slices.IndexFunc(s.members, func(m member) bool {
		return !increased[m.Name] && s.shares[m.Name] > 0 && m.Size+int64(s.shares[m.Name]) == size+1 && size >= m.Min
	})
	if from < 0 {
		return
	}
	s.shares, s.result = maps.Clone(s.shares), slices.Clone(s.result)
	s.shares[s.members[from].Name]--
	s.result[from].NewSize--
	s.shares[id]++
	s.result[to].NewSize++
	p.Shares = s.shares
}
