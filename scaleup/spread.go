package scaleup

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// spreadKind is a kind of pods with one hard spread constraint over domains wider than a host, whose
// nodes can be planned for all domains at once.
type spreadKind struct {
	free   *v1.Pod // the pod without that constraint
	counts *topologyspread.Counts
	at     int // the constraint's position in counts
	// exact says that nothing else decides where the pods may go but what a single node has room
	// for, so that no other plan can be better.
	exact bool
	taken map[int]bool // whether new nodes of a class of templates take the free pod
	// What was found out about nodes and about pods to place; today is how many matching pods there
	// are in each domain before any is placed, nil until they are counted.
	lies     map[*v1.Node]lie
	matching map[*v1.Pod]bool
	today    map[string]int64
}

// lie is the domain of a node; known is false if the node does not count for the constraint.
type lie struct {
	domain string
	known  bool
}

func (s *spreadKind) constraint() *topologyspread.Constraint {
	return s.counts.Counters[s.at].Constraint
}

// domain is where a node counts for the constraint; known is false if it does not.
func (s *spreadKind) domain(n *v1.Node) (name string, known bool) {
	at, seen := s.lies[n]
	if !seen {
		if site := s.counts.Site(n); site.Keyed && site.Included[s.at] {
			at = lie{n.Labels[s.constraint().Key], true}
		}
		s.lies[n] = at
	}
	return at.domain, at.known
}

// spreadOf returns what is planned for pods of a kind, nil if they are placed one by one: if they do
// not match their own selector, or other rules reach beyond a host.
func (p *planner) spreadOf(kind int) *spreadKind {
	if p.opts.DisableSpreadSplit {
		return nil
	}
	s, known := p.spreads[kind]
	if !known {
		s = newSpreadKind(p.kinds[kind].Pod)
		p.spreads[kind] = s
		if s != nil {
			s.exact = s.exact && !slices.ContainsFunc(everyIndex(len(p.kinds)), func(other int) bool {
				return other != kind && s.constraint().Counts(p.kinds[other].Pod)
			})
		}
	}
	return s
}

func newSpreadKind(pod *v1.Pod) *spreadKind {
	hard, err := topologyspread.Hard(pod)
	if err != nil || reachesBeyondHost(pod) || len(pod.Spec.ResourceClaims) > 0 || hasClaims(pod) {
		return nil
	}
	s := &spreadKind{at: -1, exact: len(hard) == 1 && !repels(pod), taken: map[int]bool{}, lies: map[*v1.Node]lie{}, matching: map[*v1.Pod]bool{}}
	counters := make([]*topologyspread.Counter, len(hard))
	for i := range hard {
		counters[i] = topologyspread.NewNodeCounter(&hard[i])
		if hard[i].Key == v1.LabelHostname {
			continue
		}
		if s.at >= 0 || hard[i].Self == 0 || hard[i].Step == 0 {
			return nil
		}
		s.at = i
	}
	if s.at < 0 {
		return nil
	}
	s.counts = topologyspread.NewCounts(pod, counters)
	s.free = pod.DeepCopy()
	key := hard[s.at].Key
	s.free.Spec.TopologySpreadConstraints = slices.DeleteFunc(s.free.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.TopologyKey == key && c.WhenUnsatisfiable == v1.DoNotSchedule
	})
	return s
}

// reachesBeyondHost reports whether a pod has required affinity, or anti-affinity over domains wider
// than a host.
func reachesBeyondHost(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil {
		return false
	}
	return a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			func(term v1.PodAffinityTerm) bool { return term.TopologyKey != v1.LabelHostname })
}

// spreadAlone reports whether new nodes of a group take no pod of a kind for no other reason than
// the spread so far. As that changes with nodes elsewhere, the group remains a member of its set.
func (p *planner) spreadAlone(group string, kind int) bool {
	s := p.spreadOf(kind)
	t := p.template[group]
	if s == nil || !slices.ContainsFunc(p.fit.Reasons(t, kind), func(r predicates.Reason) bool { return r.Plugin == spreadPlugin }) {
		return false
	}
	node := p.group(group).Template
	if _, known := s.domain(node.Node); !known {
		return false
	}
	class := p.fit.ClassOf(t)
	takes, known := s.taken[class]
	if !known {
		var err error
		takes, err = p.cluster.TakesOnNew(machine(node), s.free)
		takes = takes && err == nil
		s.taken[class] = takes
	}
	return takes
}

// spreadPlugin is the name of the scheduler's plugin for spread constraints.
const spreadPlugin = "PodTopologySpread"

// spreadPlan is where new nodes for pods of one kind are planned.
type spreadPlan struct {
	topologyspread.SplitResult
	whole bool // no limit of the round or of several groups together has made it smaller
	exact bool // no other plan is better
	// closed are the members in domains that have no nodes and get none.
	closed []string
}

// planSpread plans in which domains new nodes are needed for the pods of a kind; nil if it cannot. If
// all are open, it takes every domain that can have nodes for one that has some.
func (l *placer) planSpread(members []string, kind int, open bool) (*spreadPlan, error) {
	pods := len(l.kinds[kind].Pods)
	s := l.spreadOf(kind)
	if s == nil {
		return nil, nil
	}
	request, err := l.spreadRequest(s, members, pods)
	if err != nil || len(request.Groups) == 0 {
		return nil, err
	}
	for i := range request.Groups {
		if g := &request.Groups[i]; open && g.Max > g.Size {
			request.Domains[slices.IndexFunc(request.Domains, func(d topologyspread.SplitDomain) bool { return d.Name == g.Domain })].Active = true
		}
	}
	result, err := topologyspread.Split(request)
	if err != nil {
		return nil, fmt.Errorf("pods like %s: %w", podName(l.kinds[kind].Pod), err)
	}
	plan := &spreadPlan{SplitResult: result, whole: true, exact: s.exact && !open, closed: closedOf(&request, &result)}
	if l.affords(&result) {
		l.shareDomains(&request, &plan.SplitResult)
		return plan, nil
	}
	// As many pods as the limits leave nodes for.
	plan.whole = false
	most := sort.Search(pods, func(n int) bool {
		fewer := request
		fewer.Pods = int64(n + 1)
		result, err := topologyspread.Split(fewer)
		return err != nil || !l.affords(&result)
	})
	request.Pods = int64(most)
	plan.SplitResult, err = topologyspread.Split(request)
	l.shareDomains(&request, &plan.SplitResult)
	return plan, err
}

// closedOf lists the groups in domains that are not active in a plan.
func closedOf(r *topologyspread.SplitRequest, plan *topologyspread.SplitResult) (names []string) {
	active := map[string]bool{}
	for _, d := range r.Domains {
		active[d.Name] = d.Active
	}
	for i, g := range plan.Groups {
		active[r.Groups[i].Domain] = active[r.Groups[i].Domain] || g.NewSize > g.Size
	}
	for _, g := range r.Groups {
		if !active[g.Domain] {
			names = append(names, g.Name)
		}
	}
	return names
}

// affords reports whether all limits allow for the nodes of a plan.
func (l *placer) affords(plan *topologyspread.SplitResult) bool {
	left, books := l.limit-int64(len(l.opened)), l.ledger.fork()
	for _, g := range plan.Groups {
		n := g.NewSize - g.Size
		if left -= n; left < 0 || n > 0 && books.room([]string{g.Name}, n) < n {
			return false
		}
		books.give(g.Name, n)
	}
	return true
}

func (l *placer) spreadRequest(s *spreadKind, members []string, pods int) (topologyspread.SplitRequest, error) {
	c := s.constraint()
	r := topologyspread.SplitRequest{Pods: int64(pods), MaxSkew: int64(c.MaxSkew), MinDomains: int64(c.MinDomains), OpenLevel: true}
	index := map[string]int{}
	domain := func(name string) *topologyspread.SplitDomain {
		i, known := index[name]
		if !known {
			i = len(r.Domains)
			index[name] = i
			r.Domains = append(r.Domains, topologyspread.SplitDomain{Name: name})
		}
		return &r.Domains[i]
	}
	l.countSpread(s, domain)
	if err := l.freeSlots(s, pods*(1+len(r.Domains)), domain); err != nil {
		return r, err
	}
	perNode := map[int]int64{}
	for _, name := range members {
		g := l.group(name)
		zone, known := s.domain(g.Template.Node)
		if !known {
			continue
		}
		class := l.fit.ClassOf(l.template[name])
		if _, known := perNode[class]; !known {
			on, err := l.cluster.Fork().PlaceOnNew(machine(g.Template), s.free, math.MaxInt32, 1)
			if err != nil {
				return r, err
			}
			perNode[class] = int64(podsOf(on))
		}
		n := perNode[class]
		if n == 0 {
			continue
		}
		if r.PodsPerNode == 0 || n < r.PodsPerNode {
			r.PodsPerNode = n
		}
		domain(zone)
		size := l.ledger.counted(name)
		r.Groups = append(r.Groups, topologyspread.SplitGroup{Name: name, Domain: zone, Size: size, Max: size + l.ledger.room([]string{name}, l.limit)})
	}
	return r, nil
}

// countSpread counts the matching pods of each domain, on nodes and on those that are planned.
func (l *placer) countSpread(s *spreadKind, domain func(string) *topologyspread.SplitDomain) {
	if s.today == nil {
		s.today = map[string]int64{}
		for id := range l.from {
			if zone, pods, known := s.held(l.nodeAt(id)); known {
				s.today[zone] += pods
			}
		}
	}
	add := func(zone string, pods int64) {
		d := domain(zone)
		d.Active, d.MatchingPods = true, d.MatchingPods+pods
	}
	for _, zone := range slices.Sorted(maps.Keys(s.today)) {
		add(zone, s.today[zone])
	}
	for id := l.from; id < l.from+len(l.opened); id++ {
		if zone, pods, known := s.held(l.nodeAt(id)); known {
			add(zone, pods)
		}
	}
	for id, on := range l.placed {
		zone, known := s.domain(l.nodeAt(id).Node)
		for _, p := range on {
			if known && s.matches(p.pod) {
				add(zone, int64(p.n))
			}
		}
	}
}

// held is the domain of a node and how many matching pods it has; known is false if the node does
// not count.
func (s *spreadKind) held(n predicates.Node) (domain string, pods int64, known bool) {
	domain, known = s.domain(n.Node)
	for _, pod := range n.Pods {
		if known && s.constraint().Counts(pod) {
			pods++
		}
	}
	return domain, pods, known
}

// matches reports whether a pod to place matches.
func (s *spreadKind) matches(pod *v1.Pod) bool {
	is, known := s.matching[pod]
	if !known {
		is = s.constraint().Counts(pod)
		s.matching[pod] = is
	}
	return is
}

// freeSlots counts for how many more of the pods there is room in each domain, up to a limit.
func (l *placer) freeSlots(s *spreadKind, limit int, domain func(string) *topologyspread.SplitDomain) error {
	on, err := l.cluster.Fork().Place(s.free, limit, 0, l.cluster.Len())
	for _, run := range on {
		for id := run.First; id < run.First+run.Nodes; id++ {
			if zone, known := s.domain(l.nodeAt(id).Node); known {
				domain(zone).FreeSlots += int64(run.PerNode)
			}
		}
	}
	return err
}

// nodeAt is a node of the cluster: one that exists or is on its way, with its pods, or a new one.
func (l *placer) nodeAt(id int) predicates.Node {
	if id >= l.from {
		return machine(l.group(l.opened[id-l.from]).Template)
	}
	if closed := l.simulation.closed; id >= closed {
		return l.before.nodes[id-closed]
	}
	return l.simulation.nodes[id]
}

// whySpread says what keeps pods of a kind from being placed: the domains that take no more, and
// why.
func (l *placer) whySpread(kind int, plan *spreadPlan) string {
	c := l.spreadOf(kind).constraint()
	if len(plan.Binding) == 0 {
		text := fmt.Sprintf("minDomains %d is more than the domains of %s that can have nodes", c.MinDomains, c.Key)
		if away := l.whyAway(c.Key); away != "" {
			text += " (" + away + ")"
		}
		return text
	}
	var zones []string
	for _, zone := range plan.Binding {
		zones = append(zones, fmt.Sprintf("%s takes no more (%s)", zone, l.whyFull(c.Key, zone)))
	}
	return fmt.Sprintf("%s %s; maxSkew %d holds the others", c.Key, strings.Join(zones, ", "), c.MaxSkew)
}

// whyFull says why no more nodes can be had in a domain.
func (l *placer) whyFull(key, zone string) string {
	var why []string
	here := false
	for i := range l.world.Groups {
		g := &l.world.Groups[i]
		if g.Template == nil || g.Template.Node.Labels[key] != zone {
			continue
		}
		here = true
		reason, skipped := l.skipped[g.ID]
		quota, blocked := full(l.ledger.quotas, g.ID)
		switch {
		case g.Away != "":
			why = append(why, g.Away)
		case skipped:
			why = append(why, g.ID+" is "+reason)
		case l.ledger.size(g.ID) >= int64(g.Max):
			why = append(why, fmt.Sprintf("%s is at its maximum of %d", g.ID, g.Max))
		case blocked:
			why = append(why, fmt.Sprintf("%s has no room under %s", g.ID, quota))
		}
	}
	switch {
	case !here:
		return "no node group is there"
	case len(why) == 0:
		return "no node group that takes the pods can grow there"
	}
	return fewNames(slices.Compact(why))
}

// whyAway says which domains of a key are shifted away.
func (l *placer) whyAway(key string) string {
	var why []string
	for i := range l.world.Groups {
		g := &l.world.Groups[i]
		if g.Away == "" || g.Template == nil || slices.Contains(why, g.Away) {
			continue
		}
		if _, has := g.Template.Node.Labels[key]; has {
			why = append(why, g.Away)
		}
	}
	return fewNames(why)
}

// placePlanned opens the planned nodes and places the pods on them, and on others that have become
// open to them.
func (l *placer) placePlanned(kind int, plan *spreadPlan) (estimator.Placed, error) {
	for _, g := range plan.Groups {
		if n := g.NewSize - g.Size; n > 0 {
			l.ledger.give(g.Name, n)
			l.open(g.Name, int(n))
		}
	}
	on, err := l.put(kind, len(l.kinds[kind].Pods), 0)
	return estimator.Placed{Count: on}, err
}

// whyHeldBySpread says why pods of a kind that no option serves wait, if the spread alone keeps them
// from groups that could grow.
func (p *planner) whyHeldBySpread(kind int) string {
	if p.spreadOf(kind) == nil {
		return ""
	}
	members := p.takers(p.standing, kind)
	if len(members) == 0 {
		return ""
	}
	l := p.newPlacer()
	plan, err := l.planSpread(members, kind, false)
	if err != nil || plan == nil || plan.Unplaced == 0 || plan.Placed > 0 {
		return ""
	}
	return l.whySpread(kind, plan)
}
