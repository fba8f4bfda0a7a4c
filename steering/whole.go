package steering

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// Pods with a topology spread over zones are planned as a whole. Cluster Autoscaler asks for them
// bit by bit: as many nodes as one zone may get before another one must grow. From all pending pods,
// those on nodes, and the nodes there are and on their way, the plan says what each member needs. It
// is worked out anew at every question, so it holds whatever was refused, lost or taken back. A
// member is granted more than was asked where the plan says so: Cluster Autoscaler then counts all
// of it, and one increase per member is enough.

// planWhole works out the split of a set for all pending pods. Without a plan, why says what is in
// the way: the pods get nodes as Cluster Autoscaler asks for them.
func (c *choice) planWhole(s *split) (why string) {
	members := c.wholeSet(s)
	kinds, why := c.pendingKinds(members)
	if why != "" {
		return why
	}
	f, ok := c.newFleet()
	if !ok {
		return "pods on nodes that are not known yet"
	}
	for _, asked := range []bool{false, true} {
		p, why := f.plan(members, kinds, asked)
		if why != "" {
			return why
		}
		s.members, s.whole, s.stuck, s.need, s.lowered = members, true, asked, 0, 0
		s.shares, s.result, s.unplaced = map[string]int{}, nil, p.Left
		for i := range members {
			m := &members[i]
			share := int(p.Sizes[m.Name] - m.Size)
			s.shares[m.Name], s.need = share, s.need+share
			s.result = append(s.result, PlanMember{Name: m.Name, Size: int(m.Size - m.lag), NewSize: int(p.Sizes[m.Name] - m.lag)})
		}
		if s.need == 0 || s.next() != nil {
			break
		}
	}
	s.kinds, s.room = len(kinds), map[string]int{}
	for i := range members {
		if template := c.template(members[i].Name); template != nil {
			s.room[members[i].Name] = c.o.Totals.room(f.machines, template)
		}
	}
	return ""
}

// wholeSet returns the members of the set that may grow. Those without an option are among them:
// their zone may have to wait for others.
func (c *choice) wholeSet(s *split) []member {
	members := slices.DeleteFunc(slices.Clone(s.members), func(m member) bool { return !m.offered() })
	members = append(members, c.unoffered(s.chosen)...)
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// plan works out what the members need. With asked, only members that have an option grow.
func (f *fleet) plan(members []member, kinds []*spreadplan.Kind, asked bool) (*spreadplan.Plan, string) {
	request := &spreadplan.Request{Kinds: kinds, Machines: f.machines, KeepsClosed: len(kinds) == 1}
	if len(members) > 0 && !f.policies[members[0].Name].Level() {
		request.Terms = f.underPolicy
	}
	for i := range members {
		m := &members[i]
		one := spreadplan.Member{Group: m.Group, Held: m.held != "", Allowed: m.allowed, New: func() *spreadplan.Machine { return f.copyOf(m.Name) }}
		if asked && !m.offered() {
			one.Max = one.Size
		}
		if m.offered() {
			one.Estimate = func(k *spreadplan.Kind) (pods, nodes int) { return f.estimate(k, &m.option) }
		}
		request.Members = append(request.Members, one)
	}
	return spreadplan.New(request)
}

// estimate returns how many pods and nodes an option has if all of its pods are of the kind.
func (c *choice) estimate(k *spreadplan.Kind, o *expander.Offer) (pods, nodes int) {
	if slices.ContainsFunc(o.Pods, func(i int) bool { return spreadplan.KeyOf(c.request.Pods[i]) != k.Key }) {
		return 0, 0
	}
	return len(o.Pods), o.NodeCount
}

// grownNow reports whether a member of the set was increased in this loop, and whether one got other
// than was asked. With --salvo-scale-up Cluster Autoscaler asks again in the same loop, and assumes
// that it gets what it has asked for.
func (c *choice) grownNow(chosen string) (grown, other bool) {
	for _, name := range c.similarTo(chosen) {
		differs, raised := c.raised[name]
		grown, other = grown || raised, other || differs
	}
	return grown, other
}

// NeedsWorkload reports whether pods and nodes are looked at for a question: if pods are spread, or
// if Cluster Autoscaler may have taken the room of pods on nodes on their way for others.
func (s *Machine) NeedsWorkload(q *Question) bool {
	return !s.o.NotSpreadAware && (len(s.provided.kinds) > 1 || slices.ContainsFunc(q.Pods, spreadplan.Spreads))
}

// canPlan reports whether there may be a plan for all pending pods.
func (c *choice) canPlan() bool {
	if mode, _ := c.Mode(); mode != Steering || c.request.Workload == nil || !c.NeedsWorkload(&c.request) {
		return false
	}
	if ok, _ := c.CanShare(); !ok && (c.writer == "" || !c.mayWaitForJournal()) {
		return false
	}
	for _, name := range c.names {
		if terms := c.policies[name]; !terms.Alike() {
			c.noPlan("nodes of set " + terms.Set + " have different capacities, which its policy counts")
			return false
		}
	}
	for _, pod := range c.request.Pods {
		if _, why := spreadplan.ReadKind("", pod); why != "" {
			c.noPlan(why)
			return false
		}
	}
	return true
}

// noPlan says in the log why there is no plan.
func (c *choice) noPlan(why string) {
	c.log(Log{Verbosity: 2, Message: "No plan for all pending pods, they get nodes as Cluster Autoscaler asks for them", Values: []any{"reason", why}})
}

// scanInterval is how often Cluster Autoscaler looks while nothing happens.
const scanInterval = 10 * time.Second

// shareWhole shares the nodes of a set out by a plan for all pending pods. It is not done where
// there is no such plan, or where the plan sees no need: then the pods get nodes as Cluster
// Autoscaler asks for them.
func (c *choice) shareWhole(s *split) (p *pick, d Decision, done bool) {
	if !c.plannable {
		return nil, Decision{}, false
	}
	members := s.members
	if why := c.planWhole(s); why != "" {
		c.noPlan(why)
		return nil, Decision{}, false
	}
	if s.need > 0 && s.next() != nil {
		p, d = c.pickNext(s)
		return p, d, true
	}
	// Where some pods have no room at all, a node more in a zone of its own would hold those back
	// that have room on nodes on their way. That is certain for pods of one kind only.
	full := s.unplaced > 0 && s.kinds == 1 && !s.stuck
	// Where pods differ one may have taken the room of another. For pods that are spread that is
	// found out within a loop per member, or they would run later than with Cluster Autoscaler alone.
	soon := c.at.now.Sub(c.provided.at) < time.Duration(len(s.members))*scanInterval
	grown, _ := c.grownNow(s.chosen)
	wait := grown || c.holds(c.at) && (full || max(s.kinds, len(c.provided.kinds)) > 1 && (soon || !slices.ContainsFunc(c.request.Pods, spreadplan.Spreads)))
	for _, name := range c.similarTo(s.chosen) {
		if g := c.view.Groups[name]; g != nil {
			wait = wait || c.Machine.unseen(g, c.at) > 0 || full && c.at.count(g, c.state(name)).inFlight > 0
		}
	}
	if wait {
		return nil, Decision{Reason: fmt.Sprintf("all pods that the set of %s can take have room on nodes that are on their way", s.chosen), Members: s.result}, true
	}
	*s = split{chosen: s.chosen, why: s.why, policy: s.policy, members: members}
	return nil, Decision{}, false
}
