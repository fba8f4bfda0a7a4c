package steering

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// Pods with a topology spread over zones are planned as a whole. Cluster Autoscaler asks for them
// bit by bit: as many nodes as one zone may get before another one must grow. From all pending pods,
// those on nodes, and the nodes there are and on their way, the plan says what each member needs. It
// is worked out anew at every question, so it holds whatever was refused, lost or taken back. A
// member is granted more than was asked where the plan says so: Cluster Autoscaler then counts all
// of it, and one increase per member is enough.

// wholePlan is a plan while it is worked out.
type wholePlan struct {
	*fleet
	members []member
	sizes   map[string]int64 // with what is planned
	tops    map[string]int64 // that members may grow to
	left    int64            // pods that no plan has room for
}

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
		s.shares, s.result, s.unplaced = map[string]int{}, nil, p.left
		for i := range members {
			m := &members[i]
			share := int(p.sizes[m.Name] - m.Size)
			s.shares[m.Name], s.need = share, s.need+share
			s.result = append(s.result, PlanMember{Name: m.Name, Size: int(m.Size - m.lag), NewSize: int(p.sizes[m.Name] - m.lag)})
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
	members := slices.DeleteFunc(slices.Clone(s.members), func(m member) bool { return m.option == nil })
	for _, name := range c.similarTo(s.chosen) {
		g, b := c.view.Groups[name], c.state(name)
		if c.options[name] != nil || g == nil || g.ZeroOrMax || c.shiftedAway(name) != "" || c.at.count(g, b).troubled() {
			continue
		}
		if _, _, off := c.backoff.Active(name, c.at.now); !off {
			members = append(members, c.member(name))
		}
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// plan works out the sizes of the members. With asked, only members that have an option grow.
func (f *fleet) plan(members []member, kinds []*kind, asked bool) (*wholePlan, string) {
	p := &wholePlan{fleet: &fleet{choice: f.choice, overhead: f.overhead}, members: members, sizes: map[string]int64{}, tops: map[string]int64{}}
	for _, m := range f.machines {
		copied := *m
		copied.free, copied.placed = maps.Clone(m.free), nil
		p.machines = append(p.machines, &copied)
	}
	for i := range members {
		m := &members[i]
		p.sizes[m.Name], p.tops[m.Name] = m.Size, max(m.Size, m.Max)
		if asked && m.option == nil {
			p.tops[m.Name] = m.Size
		}
	}
	for _, k := range kinds {
		if why := p.fit(k); why != "" {
			return nil, why
		}
	}
	slices.SortStableFunc(kinds, before)
	for _, k := range kinds {
		left, err := p.provide(k, k.count, true)
		if err == nil && left > 0 && slices.ContainsFunc(k.members, func(m *member) bool { return m.held != "" }) {
			left, err = p.provide(k, left, false)
		}
		if err != nil {
			return nil, err.Error()
		}
		p.left += left
	}
	return p, ""
}

// before is the order of kinds: those that are the hardest to place, then the largest ones.
func before(a, b *kind) int {
	spread := func(k *kind) int {
		if k.zones != nil {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(spread(a), spread(b)),
		cmp.Compare(len(a.members), len(b.members)),
		cmp.Compare(a.perNode, b.perNode),
		cmp.Compare(a.key, b.key),
	)
}

// fit finds the members that a kind may run on, and how many of its pods fit on a new node. Cluster
// Autoscaler's own count shows whether that is right.
func (p *wholePlan) fit(k *kind) (why string) {
	k.members, k.perNode = nil, math.MaxInt32
	for i := range p.members {
		m := &p.members[i]
		fresh := p.copyOf(m.Name)
		if fresh == nil || !admits(k.pod, fresh.node) {
			continue
		}
		if k.zones != nil {
			if _, ok := k.domain(fresh.node); !ok {
				return "node group " + m.Name + " takes no part in the topology spread"
			}
		}
		n := fresh.free.fits(k.requests)
		if k.hosts != nil {
			n = min(n, int64(k.hosts.MaxSkew))
		}
		if n == 0 {
			continue
		}
		k.perNode = min(k.perNode, n)
		k.members = append(k.members, m)
	}
	for _, m := range k.members {
		if m.option == nil || len(m.option.Pods) == 0 || !p.only(k, m.option) {
			continue
		}
		pods, nodes := m.option.Pods, m.option.NodeCount
		if ceilDiv(len(pods), int(k.perNode)) > nodes {
			return "more pods fit on a node of " + m.Name + " than its template shows"
		}
		if nodes > 1 { // the first ones are full
			k.perNode = min(k.perNode, int64(ceilDiv(len(pods), nodes-1)-1))
		}
	}
	if k.perNode < 1 {
		return "fewer pods fit on a node than its template shows"
	}
	return ""
}

// only reports whether all pods of an option are of the kind.
func (p *wholePlan) only(k *kind, o *Option) bool {
	return !slices.ContainsFunc(o.Pods, func(i int) bool { return kindKey(p.request.Pods[i]) != k.key })
}

// provide plans nodes for so many pods of a kind, and puts the pods on machines. Members that are
// held get no more than they are allowed, if that is limited. It returns how many pods are left.
func (p *wholePlan) provide(k *kind, pods int64, limited bool) (left int64, err error) {
	if k.zones != nil {
		return p.provideSpread(k, pods, limited)
	}
	if pods = p.fill(k, pods, p.machines); pods == 0 || len(k.members) == 0 {
		return pods, nil
	}
	request := nodegroupset.SplitRequest{Nodes: (pods + k.perNode - 1) / k.perNode}
	for _, m := range k.members {
		size := p.sizes[m.Name]
		request.Groups = append(request.Groups, nodegroupset.Group{Name: m.Name, Size: size, Min: min(m.Min, size), Max: p.top(m, limited)})
	}
	result, err := nodegroupset.Split(p.underPolicy(request, k.members[0].Name, func(name string) (int64, bool) {
		size, known := p.sizes[name]
		return size, known
	}))
	if err != nil {
		return pods, err
	}
	before := len(p.machines)
	for _, g := range result.Groups {
		p.grow(g.Name, g.NewSize)
	}
	return p.fill(k, pods, p.machines[before:]), nil
}

// top is the size that a member may grow to.
func (p *wholePlan) top(m *member, limited bool) int64 {
	top := p.tops[m.Name]
	if limited && m.held != "" {
		top = min(top, m.Size+m.allowed)
	}
	return max(top, p.sizes[m.Name])
}

// grow adds nodes to a member up to a size.
func (p *wholePlan) grow(name string, to int64) {
	for ; p.sizes[name] < to; p.sizes[name]++ {
		p.machines = append(p.machines, p.copyOf(name))
	}
}

// fill puts pods on machines in their order.
func (p *wholePlan) fill(k *kind, pods int64, on []*machine) (left int64) {
	for _, m := range on {
		if n := min(pods, k.slots(m)); n > 0 {
			k.place(m, n)
			pods -= n
		}
	}
	return pods
}

// provideSpread is provide for a kind with a topology spread over zones.
func (p *wholePlan) provideSpread(k *kind, pods int64, limited bool) (left int64, err error) {
	zones := p.zonesOf(k)
	request := topologyspread.SplitRequest{Pods: pods, MaxSkew: int64(k.zones.MaxSkew), MinDomains: int64(k.zones.MinDomains), PodsPerNode: k.perNode}
	for _, m := range k.members {
		name := p.template(m.Name).Labels[k.zones.Key]
		if zones[name] == nil {
			zones[name] = &zone{}
		}
		request.Groups = append(request.Groups, topologyspread.SplitGroup{Name: m.Name, Domain: name, Size: p.sizes[m.Name], Max: p.top(m, limited)})
	}
	names := slices.Sorted(maps.Keys(zones))
	for _, name := range names {
		z := zones[name]
		request.Domains = append(request.Domains, topologyspread.SplitDomain{Name: name, MatchingPods: z.pods, FreeSlots: z.slots, Active: z.active})
	}
	result, err := topologyspread.Split(request)
	if err != nil {
		return pods, fmt.Errorf("topology spread: %w", err)
	}
	for i, g := range result.Groups {
		for range g.NewSize - g.Size {
			z := zones[request.Groups[i].Domain]
			m := p.copyOf(g.Name)
			p.machines = append(p.machines, m)
			z.machines, z.slots, z.active = append(z.machines, m), z.slots+k.slots(m), true
		}
		p.sizes[g.Name] = g.NewSize
	}
	for range result.Placed {
		z := lowest(k.zones, names, zones)
		if z == nil {
			break
		}
		for k.slots(z.machines[0]) == 0 {
			z.machines = z.machines[1:]
		}
		k.place(z.machines[0], 1)
		z.pods, z.slots, pods = z.pods+1, z.slots-1, pods-1
	}
	return pods, nil
}

// zone is a domain of a spread.
type zone struct {
	pods     int64 // that count
	slots    int64 // for more
	active   bool
	machines []*machine
}

// zonesOf counts pods and slots in the domains of a kind's spread.
func (p *wholePlan) zonesOf(k *kind) map[string]*zone {
	zones := map[string]*zone{}
	for _, m := range p.machines {
		name, ok := k.domain(m.node)
		if !ok {
			continue
		}
		z := zones[name]
		if z == nil {
			z = &zone{active: true}
			zones[name] = z
		}
		z.pods += k.counts(k.zones, m)
		z.slots += k.slots(m)
		z.machines = append(z.machines, m)
	}
	return zones
}

// lowest returns the zone that the next pod goes to: the one with the fewest pods, of those with
// room.
func lowest(t *topologyspread.Constraint, names []string, zones map[string]*zone) *zone {
	least, active := int64(math.MaxInt64), 0
	var best *zone
	for _, name := range names {
		z := zones[name]
		if !z.active {
			continue
		}
		active++
		least = min(least, z.pods)
		if z.slots > 0 && (best == nil || z.pods < best.pods) {
			best = z
		}
	}
	if active < t.MinDomains {
		least = 0
	}
	if best == nil || best.pods+1-least > int64(t.MaxSkew) {
		return nil
	}
	return best
}

// NeedsWorkload reports whether pods and nodes are looked at for a question: if pods are spread, or
// if Cluster Autoscaler may have taken the room of pods on nodes on their way for others.
func (s *Machine) NeedsWorkload(q *Question) bool {
	return !s.o.NotSpreadAware && (len(s.provided.kinds) > 1 || slices.ContainsFunc(q.Pods, spreads))
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
		if terms := c.policies[name]; !terms.Level() {
			c.noPlan("set " + terms.Set + " has a policy of its own")
			return false
		}
	}
	for _, pod := range c.request.Pods {
		if _, why := readKind("", pod); why != "" {
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
	wait := c.holds(c.at) && (full || max(s.kinds, len(c.provided.kinds)) > 1 && (soon || !slices.ContainsFunc(c.request.Pods, spreads)))
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
