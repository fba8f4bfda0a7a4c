package spreadplan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// Request is what to plan for. New changes nothing of it but what it keeps in kinds, which belong to
// one request at a time.
type Request struct {
	Kinds    []*Kind
	Members  []Member   // of a set of similar groups
	Machines []*Machine // of the cluster, those on their way included
	Others   []*Machine // new nodes of groups that are no members, and that pods without room may get next
	// Terms completes a split of nodes by the policy of the members' set, where planned returns the
	// sizes of members so far; nil if they share nodes evenly.
	Terms func(request nodegroupset.SplitRequest, member string, planned func(group string) (size int64, known bool)) nodegroupset.SplitRequest
}

// Member is a group of the set.
type Member struct {
	nodegroupset.Group
	// Held says that it gets no more than Allowed nodes as long as others can take the rest.
	Held    bool
	Allowed int64
	// New returns a new node of the group; nil if nobody knows what one looks like.
	New func() *Machine
	// Estimate returns how many pods of a kind Cluster Autoscaler has put alone on how many new nodes
	// of the group, 0 if it has not; nil where that is not known.
	Estimate func(*Kind) (pods, nodes int)
}

// Plan says what each member needs.
type Plan struct {
	Sizes map[string]int64 // of the members
	Left  int64            // pods that no plan has room for
	// Added are the members that get new nodes, one entry for each node. These nodes are numbered
	// after the machines of the request.
	Added []string
	Put   []Put // where pods go, in an order in which all of their spreads hold at any time
}

// Put is a number of pods of a kind on a machine.
type Put struct {
	Kind    *Kind
	Machine int
	Pods    int64
}

// planner is a plan while it is worked out.
type planner struct {
	Plan
	request  *Request
	opened   map[string]bool // members that get new nodes in any case
	opens    []string        // members that would get nodes after this plan
	machines []*Machine
}

// New plans nodes for all pods. Without a plan, why says what is in the way.
//
// A zone without nodes does not count for a spread until pods of another kind open it, or pods for which the plan has no room.
// So where one is opened, the plan is made anew with that zone counting from the start.
func New(r *Request) (plan *Plan, why string) {
	opened := map[string]bool{}
	for {
		p, why := pass(r, opened)
		if why != "" {
			return nil, why
		}
		known := len(opened)
		if len(r.Kinds) > 1 {
			p.opens = append(p.opens, p.Added...)
		}
		for _, name := range p.opens {
			opened[name] = true
		}
		if len(opened) == known {
			return &p.Plan, ""
		}
	}
}

// pass plans nodes for all pods where some members have new nodes for certain.
func pass(r *Request, opened map[string]bool) (p *planner, why string) {
	p = &planner{request: r, opened: opened, Plan: Plan{Sizes: map[string]int64{}}}
	for i, m := range r.Machines {
		copied := *m
		copied.Free, copied.placed, copied.id = maps.Clone(m.Free), nil, i
		p.machines = append(p.machines, &copied)
	}
	for i := range r.Members {
		p.Sizes[r.Members[i].Name] = r.Members[i].Size
	}
	for _, k := range r.Kinds {
		if why := p.fit(k); why != "" {
			return nil, why
		}
	}
	kinds := slices.SortedStableFunc(slices.Values(r.Kinds), before)
	plain := slices.IndexFunc(kinds, func(k *Kind) bool { return k.zones == nil })
	if plain < 0 {
		plain = len(kinds)
	}
	for _, k := range kinds[:plain] {
		if err := p.provideAll(k, k.Count); err != nil {
			return nil, err.Error()
		}
	}
	if err := p.providePlain(kinds[plain:]); err != nil {
		return nil, err.Error()
	}
	return p, ""
}

// before is the order of kinds: those that are the hardest to place, then the largest ones.
func before(a, b *Kind) int {
	spread := func(k *Kind) int {
		if k.zones != nil {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(spread(a), spread(b)),
		cmp.Compare(len(a.members), len(b.members)),
		cmp.Compare(a.perNode, b.perNode),
		cmp.Compare(a.Key, b.Key),
	)
}

// fit finds the members that a kind may run on, and how many of its pods fit on a new node. Cluster
// Autoscaler's own count shows whether that is right.
func (p *planner) fit(k *Kind) (why string) {
	k.members, k.perNode = nil, math.MaxInt32
	most := int64(0)
	for i := range p.request.Members {
		m := &p.request.Members[i]
		fresh := m.New()
		if fresh == nil || !k.rules.Admit(fresh.Node) {
			continue
		}
		if k.zones != nil {
			if _, ok := k.domain(fresh.Node); !ok {
				return "node group " + m.Name + " takes no part in the topology spread"
			}
		}
		n := fresh.Free.Takes(k.requests)
		if k.hosts != nil {
			n = min(n, int64(k.hosts.MaxSkew))
		}
		if n == 0 {
			continue
		}
		k.perNode, most = min(k.perNode, n), max(most, n)
		k.members = append(k.members, m)
	}
	if p.request.Terms != nil && most > k.perNode {
		return "a set with a policy of its own has nodes that take more pods than others"
	}
	for _, m := range k.members {
		if m.Estimate == nil {
			continue
		}
		pods, nodes := m.Estimate(k)
		if pods == 0 || nodes == 0 {
			continue
		}
		if (pods+int(k.perNode)-1)/int(k.perNode) > nodes {
			return "more pods fit on a node of " + m.Name + " than its template shows"
		}
		if nodes > 1 { // the first ones are full
			k.perNode = min(k.perNode, int64((pods+nodes-2)/(nodes-1)-1))
		}
	}
	if k.perNode < 1 {
		return "fewer pods fit on a node than its template shows"
	}
	return ""
}

// provideAll plans nodes for so many pods of a kind, and notes how many have no room.
func (p *planner) provideAll(k *Kind, pods int64) error {
	left, err := p.provide(k, pods, true)
	if err == nil && left > 0 && slices.ContainsFunc(k.members, func(m *Member) bool { return m.Held }) {
		left, err = p.provide(k, left, false)
	}
	if err == nil && left > 0 && k.zones != nil {
		err = p.reopen(k)
	}
	p.Left += left
	return err
}

// reopen notes the members that may get nodes next, for pods that have no room, in a zone that the plan leaves closed: then
// fewer pods would fit in the other zones than the plan has put there. Where other groups may, there is no plan.
func (p *planner) reopen(k *Kind) error {
	zones := p.zonesOf(k)
	closed := func(node *v1.Node) bool {
		name, ok := k.domain(node)
		return ok && zones[name] == nil
	}
	for _, m := range k.members {
		if p.Sizes[m.Name] < p.top(m, false) && closed(m.New().Node) {
			p.opens = append(p.opens, m.Name)
		}
	}
	if slices.ContainsFunc(p.request.Others, func(m *Machine) bool { return closed(m.Node) && k.slots(m) > 0 }) {
		return errors.New("pods that have no room in the set may open a zone with nodes of another set")
	}
	return nil
}

// provide plans nodes for so many pods of a kind, and puts the pods on machines. Members that are
// held get no more than they are allowed, if that is limited. It returns how many pods are left.
func (p *planner) provide(k *Kind, pods int64, limited bool) (left int64, err error) {
	if k.zones != nil {
		return p.provideSpread(k, pods, limited)
	}
	if pods = p.fill(k, pods, p.machines); pods == 0 || len(k.members) == 0 {
		return pods, nil
	}
	request := nodegroupset.SplitRequest{Nodes: (pods + k.perNode - 1) / k.perNode}
	for _, m := range k.members {
		request.Groups = append(request.Groups, p.group(m, limited))
	}
	result, err := p.split(request)
	if err != nil {
		return pods, err
	}
	before := len(p.machines)
	for i, g := range result.Groups[:len(k.members)] {
		for range g.NewSize - g.Size {
			p.add(k.members[i])
		}
	}
	return p.fill(k, pods, p.machines[before:]), nil
}

// split shares nodes by the terms of the members' set.
func (p *planner) split(request nodegroupset.SplitRequest) (nodegroupset.SplitResult, error) {
	if p.request.Terms != nil {
		request = p.request.Terms(request, request.Groups[0].Name, func(name string) (int64, bool) {
			size, known := p.Sizes[name]
			return size, known
		})
	}
	return nodegroupset.Split(request)
}

// group is a member as it takes part in a split.
func (p *planner) group(m *Member, limited bool) nodegroupset.Group {
	size := p.Sizes[m.Name]
	return nodegroupset.Group{Name: m.Name, Size: size, Min: min(m.Min, size), Max: p.top(m, limited)}
}

// top is the size that a member may grow to.
func (p *planner) top(m *Member, limited bool) int64 {
	top := max(m.Size, m.Max)
	if limited && m.Held {
		top = min(top, m.Size+m.Allowed)
	}
	return max(top, p.Sizes[m.Name])
}

// add adds a node to a member.
func (p *planner) add(m *Member) *Machine {
	fresh := m.New()
	fresh.id = len(p.machines)
	p.machines = append(p.machines, fresh)
	p.Added = append(p.Added, m.Name)
	p.Sizes[m.Name]++
	return fresh
}

// fill puts pods on machines in their order.
func (p *planner) fill(k *Kind, pods int64, on []*Machine) (left int64) {
	for _, m := range on {
		if n := min(pods, k.slots(m)); n > 0 {
			p.put(k, m, n)
			pods -= n
		}
	}
	return pods
}

// put puts pods on a machine.
func (p *planner) put(k *Kind, m *Machine, n int64) {
	if m.placed == nil {
		m.placed = map[*Kind]int64{}
	}
	m.placed[k] += n
	m.Free.Add(-n, k.requests)
	p.Put = append(p.Put, Put{Kind: k, Machine: m.id, Pods: n})
}

// provideSpread is provide for a kind with a topology spread over zones.
func (p *planner) provideSpread(k *Kind, pods int64, limited bool) (left int64, err error) {
	zones := p.zonesOf(k)
	request := topologyspread.SplitRequest{Pods: pods, MaxSkew: int64(k.zones.MaxSkew), MinDomains: int64(k.zones.MinDomains),
		PodsPerNode: k.perNode, OpenLevel: true}
	for _, m := range k.members {
		name := m.New().Node.Labels[k.zones.Key]
		if zones[name] == nil {
			zones[name] = &zone{}
		}
		request.Groups = append(request.Groups, topologyspread.SplitGroup{Name: m.Name, Domain: name, Size: p.Sizes[m.Name],
			Max: p.top(m, limited)})
	}
	names := slices.Sorted(maps.Keys(zones))
	for _, name := range names {
		z := zones[name]
		request.Domains = append(request.Domains, topologyspread.SplitDomain{Name: name, MatchingPods: z.pods, FreeSlots: z.slots,
			Active: z.active})
	}
	result, err := topologyspread.Split(request)
	if err != nil {
		return pods, fmt.Errorf("topology spread: %w", err)
	}
	if !p.shareDomains(k, &request, &result, limited) {
		return pods, errors.New("the policy of the set allows no more nodes where the topology spread needs some")
	}
	for i, g := range result.Groups {
		for range g.NewSize - g.Size {
			z, m := zones[request.Groups[i].Domain], p.add(k.members[i])
			z.machines, z.slots, z.active = append(z.machines, m), z.slots+k.slots(m), true
		}
	}
	for range result.Placed {
		z := lowest(k.zones, names, zones)
		if z == nil {
			break
		}
		for k.slots(z.machines[0]) == 0 {
			z.machines = z.machines[1:]
		}
		p.put(k, z.machines[0], 1)
		z.pods, z.slots, pods = z.pods+1, z.slots-1, pods-1
	}
	return pods, nil
}

// shareDomains has the policy of the set say which members of each zone the new nodes are of: the
// spread says how many a zone gets.
func (p *planner) shareDomains(k *Kind, r *topologyspread.SplitRequest, result *topologyspread.SplitResult, limited bool) bool {
	if p.request.Terms == nil {
		return true
	}
	members := make(map[string]*Member, len(k.members))
	for _, m := range k.members {
		members[m.Name] = m
	}
	before := maps.Clone(p.Sizes)
	defer func() { p.Sizes = before }()
	return r.Share(result, func(names []string) int {
		request := nodegroupset.SplitRequest{Nodes: 1}
		for _, name := range names {
			request.Groups = append(request.Groups, p.group(members[name], limited))
		}
		one, err := p.split(request)
		i := slices.IndexFunc(one.Groups, func(g nodegroupset.GroupSplit) bool { return g.NewSize > g.Size })
		if err != nil || i < 0 {
			return -1
		}
		p.Sizes[names[i]]++
		return i
	})
}

// zone is a domain of a spread.
type zone struct {
	pods     int64 // that count
	slots    int64 // for more
	active   bool
	machines []*Machine
}

// zonesOf counts pods and slots in the domains of a kind's spread.
func (p *planner) zonesOf(k *Kind) map[string]*zone {
	zones := map[string]*zone{}
	for _, m := range p.machines {
		name, ok := k.domain(m.Node)
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
	for i := range p.request.Members {
		if m := &p.request.Members[i]; p.opened[m.Name] {
			name, ok := k.domain(m.New().Node)
			if ok && zones[name] == nil {
				zones[name] = &zone{active: true}
			}
		}
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
