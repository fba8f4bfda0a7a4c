package steering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// split says how the nodes that a set needs are shared among its members.
type split struct {
	chosen  string
	why     string
	policy  string // of a declared set
	need    int    // after what is on its way unseen
	lowered int    // what is on its way unseen
	members []member
	shares  map[string]int
	result  []PlanMember
	bound   bool           // some pods can run on some members only
	whole   bool           // planned for all pending pods, so that more may be granted than is asked
	kinds   int            // of these
	stuck   bool           // members that should grow have no option
	room    map[string]int // by member, within the limits over all nodes
	// unplaced pods of them can be scheduled on no number of nodes.
	unplaced int64
}

// member is a group of the set that can grow.
type member struct {
	nodegroupset.Group
	option  expander.Offer // without a group for one that Cluster Autoscaler leaves out for the moment
	limited bool           // its option may lack pods for want of room
	held    string         // why it gets no more than allowed as long as others can take the rest; empty for no limit
	allowed int64
	lag     int64 // in its size and maximum: its zone was shifted away and has come back lately
}

// offered reports whether the member has an option.
func (m *member) offered() bool { return m.option.Group != "" }

// share works out the split for the set of the chosen group and picks the member that grows now. It
// returns nil if all nodes needed are on their way.
func (c *choice) share(chosen, why string, growable []string) (*pick, Decision) {
	if single := c.single(chosen); single {
		reason := "a ProvisioningRequest is never split"
		if c.view.Groups[chosen].ZeroOrMax {
			reason = "the group is resized to its maximum or to zero, never split"
		}
		p := &pick{Group: chosen, count: c.options[chosen].NodeCount, full: true, why: reason}
		return p, Decision{Group: chosen, Asked: c.options[chosen].NodeCount, Reason: reason + "; " + why}
	}
	s := &split{chosen: chosen, why: why}
	if terms := c.policies[chosen]; terms != nil {
		s.policy = fmt.Sprintf("set %s, %s", terms.Set, terms)
	}
	for _, name := range growable {
		if slices.Contains(c.similarTo(chosen), name) && !c.single(name) {
			m := c.member(name)
			m.option, m.limited = *c.options[name], c.limited(name)
			s.members = append(s.members, m)
		}
	}
	if p, d, done := c.shareWhole(s); done {
		return p, d
	}
	if _, other := c.grownNow(chosen); other {
		return nil, Decision{Reason: fmt.Sprintf("the set of %s has grown in this loop, and Cluster Autoscaler counts what it got in the next one", chosen)}
	}
	s.members = append(s.members, c.away(chosen)...)
	s.need = s.asked()
	s.lowered = min(s.need, c.unseenElsewhere(s))
	s.need -= s.lowered
	if s.need <= 0 {
		return nil, Decision{Reason: fmt.Sprintf("what the set of %s needs is on its way: %d nodes that Cluster Autoscaler cannot see", chosen, s.lowered)}
	}
	if err := c.work(s); err != nil {
		return nil, Decision{Reason: "no split for the set of " + chosen, Error: err.Error()}
	}
	return c.pickNext(s)
}

// asked returns how many nodes Cluster Autoscaler asks for: those of the largest option, and those of
// others that have no pods in common with the ones before.
func (s *split) asked() (nodes int) {
	served := map[int]bool{}
	for _, m := range slices.SortedStableFunc(slices.Values(s.members), func(a, b member) int {
		return cmp.Or(cmp.Compare(b.option.NodeCount, a.option.NodeCount), cmp.Compare(len(b.option.Pods), len(a.option.Pods)), cmp.Compare(a.Name, b.Name))
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

// pickNext picks the member of a split that grows now.
func (c *choice) pickNext(s *split) (*pick, Decision) {
	next := s.next()
	if next == nil {
		return nil, Decision{Reason: fmt.Sprintf("no member of the set of %s has room, or it is to wait for its nodes that are on their way", s.chosen), Members: s.result}
	}
	now := firstOrder(c.state(next.Name).Proof, s.shares[next.Name])
	p := &pick{Group: next.Name, count: c.counts[next.Name], split: s, Share: now, pods: c.takers(s.chosen, next.Name)}
	return p, Decision{Group: next.Name, Asked: c.counts[next.Name], Granted: now, Members: s.result, Reason: s.describe(next.Name, now)}
}

// takers returns the pods of all options of the set that may run in a member: any of them may get
// its new nodes, also those that its own option leaves out for want of room. Pods with a topology
// spread are left out: they take turns.
func (c *choice) takers(chosen, name string) []types.UID {
	template := c.template(name)
	known := map[int]bool{}
	var out []types.UID
	for _, other := range c.similarTo(chosen) {
		o := c.options[other]
		if o == nil {
			continue
		}
		for _, p := range o.Pods {
			if pod := c.request.Pods[p]; !known[p] && !spreadplan.Spreads(pod) && (template == nil || spreadplan.Accepts(pod, template)) {
				known[p] = true
				out = append(out, uid(pod))
			}
		}
	}
	return out
}

// member returns a group as it takes part in a split.
func (c *choice) member(name string) member {
	g, b := c.view.Groups[name], c.state(name)
	m := member{Group: nodegroupset.Group{Name: name, Size: int64(max(0, b.target)), Min: int64(g.MinSize), Max: int64(g.MaxSize)}}
	m.lag = min(c.lag(name), max(0, nodegroupset.MaxSize-m.Max))
	m.Size, m.Max = m.Size+m.lag, m.Max+m.lag
	allowed, why := allowance(b.Proof, c.at.count(g, b))
	m.allowed, m.held = int64(allowed), why
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

// away returns members that Cluster Autoscaler leaves out for a while: a new process leaves them
// out until their nodes are ready, and any process for one loop after a failed call. They keep
// their part of the split and get it when they are back, a little later than the others.
func (c *choice) away(chosen string) []member {
	var out []member
	for _, m := range c.unoffered(chosen) {
		b := c.state(m.Name)
		if m.limited = true; b.missed == 1 || b.Away && b.absent.loops <= maxDoubts && c.Machine.unseen(c.view.Groups[m.Name], c.at) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// unoffered returns the members of a set that have no option and could grow.
func (c *choice) unoffered(chosen string) []member {
	var out []member
	for _, name := range c.similarTo(chosen) {
		if g := c.view.Groups[name]; c.options[name] == nil && g != nil && !g.ZeroOrMax && !c.shut(name) && !c.counted(name).troubled() {
			out = append(out, c.member(name))
		}
	}
	return out
}

// unseenElsewhere returns how many nodes that Cluster Autoscaler does not count are on their way in
// groups without an option, and could be used by pods of the set.
func (c *choice) unseenElsewhere(s *split) int {
	n := 0
	for _, name := range c.similarTo(s.chosen) {
		if c.options[name] != nil || c.view.Groups[name] == nil {
			continue
		}
		unseen := c.Machine.unseen(c.view.Groups[name], c.at)
		if unseen == 0 {
			continue
		}
		n += min(unseen, c.usable(s, name, unseen))
	}
	return n
}

// usable returns how many nodes that are on their way in a group the pods of the set need. What is
// only a guess counts for a few loops.
func (c *choice) usable(s *split, name string, unseen int) int {
	template, b := c.template(name), c.state(name)
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
	if b.Guessed {
		sure = 0
	}
	if sure == all || b.doubts.in(c.loop) > maxDoubts {
		return sure
	}
	return all
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

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
	result, err := nodegroupset.Split(c.underPolicy(request, s.chosen, nil))
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
			if len(names) > 0 && m.limited && !slices.Contains(names, m.Name) && c.template(m.Name) != nil && spreadplan.Accepts(c.request.Pods[i], c.template(m.Name)) {
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
		if s.shares[m.Name] > 0 && m.offered() && (best == nil || s.before(m, best)) {
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
	fewer := 0
	if s.bound {
		fewer = cmp.Compare(len(a.option.Pods), len(b.option.Pods))
	}
	return cmp.Or(
		fewer,
		cmp.Compare(s.shares[b.Name], s.shares[a.Name]),
		cmp.Compare(chosenFirst(a), chosenFirst(b)),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// cut makes the split smaller: Cluster Autoscaler is allowed fewer nodes than the pods need.
func (c *choice) cut(s *split, to int) error {
	s.need = max(0, to-s.lowered)
	return c.work(s)
}
