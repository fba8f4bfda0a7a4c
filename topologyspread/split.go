package topologyspread

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/apportion"
)

// MaxCount is the largest number of pods, slots, nodes or domains in a [SplitRequest].
const MaxCount = math.MaxInt32

// SplitRequest asks in which domains new nodes are needed so that identical pods with one hard
// topology spread constraint can be scheduled. All numbers are at most [MaxCount].
type SplitRequest struct {
	Pods        int64 // pending pods that match their own selector, 0 or more
	MaxSkew     int64 // at least 1
	MinDomains  int64 // at least 1; 0 means 1
	PodsPerNode int64 // pods that fit on one new node, at least 1
	ExtraNodes  int64 // nodes to add beyond those that the pods need, 0 or more
	// OpenLevel opens the domains that would get a node if as many nodes as the plan needs were
	// levelled over all groups. It leaves a domain closed if fewer pods could be placed otherwise, and
	// all of them if they take more than one node more for each.
	OpenLevel bool
	Domains   []SplitDomain
	Groups    []SplitGroup
}

// SplitDomain is a value of the topology key, such as a zone.
type SplitDomain struct {
	Name         string
	MatchingPods int64 // pods there that the constraint counts
	FreeSlots    int64 // pods of the request that fit on nodes that exist or are ordered
	// Active is set if an eligible node exists already, so that the domain counts for the skew. A
	// domain that is not active has neither matching pods nor free slots.
	Active bool
}

// SplitGroup is a node group whose nodes are in one domain. A group above its Max is left alone.
type SplitGroup struct {
	Name      string
	Domain    string // the name of a domain
	Size, Max int64
}

// SplitResult is the plan for a [SplitRequest].
type SplitResult struct {
	Groups []GroupSize // in the order of the request
	Placed int64       // pods that can be scheduled, whatever order the scheduler takes
	// Unplaced pods cannot be scheduled on any number of nodes that the groups have room for.
	Unplaced int64
	// Binding are the domains, by name, in which one more slot would let one more pod be scheduled.
	// It is empty if all pods are placed, and may be if too few domains are active for MinDomains.
	Binding []string
}

// GroupSize is the size of a node group in a plan, which is never below the size it has.
type GroupSize struct {
	Name          string
	Size, NewSize int64
}

// Split plans new nodes so that most pods can be scheduled, with the fewest nodes, and then with the
// most even sizes: the least sum of the squares of all new sizes. Among plans equal in that, the
// group whose name comes first gets the node. A domain that is not active is opened only if that
// serves these aims: an opened domain counts for the skew and may hold the others back.
//
// The plan is exact: no other plan is better. Its cost does not depend on the number of pods, but on
// the domains, the skew and the pods per node. An impossible request is refused with an
// [*apportion.InvalidError].
func Split(request SplitRequest) (SplitResult, error) {
	p, err := newProblem(&request)
	if err != nil {
		return SplitResult{}, fmt.Errorf("spread split: %w", err)
	}
	placed := p.most()
	best := p.fewest(placed)
	if request.OpenLevel {
		best = p.openLevel(best, placed)
	}
	p.addExtra(best, placed, request.ExtraNodes)
	return p.result(&request, best, placed), nil
}

// problem is a request in the order of names.
type problem struct {
	pods, skew, minDomains, perNode int64
	zones                           []zone
	groups                          []group
	order                           []int // the position in the request of each group
}

// zone is a domain.
type zone struct {
	name        string
	count, free int64
	active      bool
	groups      []group
	bySize      []group // those with room, the smallest first
	room        int64   // new nodes that its groups have room for
}

// group is a node group; top is the size that it may grow to, at least its size. Rank is its position
// in the order of names.
type group struct {
	size, top  int64
	zone, rank int
}

func newProblem(r *SplitRequest) (*problem, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	p := &problem{pods: r.Pods, skew: r.MaxSkew, minDomains: max(1, r.MinDomains), perNode: r.PodsPerNode}
	names := make(map[string]int, len(r.Domains))
	for _, i := range sorted(len(r.Domains), func(i int) string { return r.Domains[i].Name }) {
		d := r.Domains[i]
		if _, twice := names[d.Name]; twice {
			return nil, apportion.Invalid(fmt.Sprintf("domains[%d].name", i), d.Name, "is listed twice")
		}
		names[d.Name] = len(p.zones)
		p.zones = append(p.zones, zone{name: d.Name, count: d.MatchingPods, free: d.FreeSlots, active: d.Active})
	}
	p.order = sorted(len(r.Groups), func(i int) string { return r.Groups[i].Name })
	for at, i := range p.order {
		g := r.Groups[i]
		if at > 0 && r.Groups[p.order[at-1]].Name == g.Name {
			return nil, apportion.Invalid(fmt.Sprintf("groups[%d].name", i), g.Name, "is listed twice")
		}
		z, known := names[g.Domain]
		if !known {
			return nil, apportion.Invalid(fmt.Sprintf("groups[%d].domain", i), g.Domain, "is none of the domains")
		}
		p.groups = append(p.groups, group{size: g.Size, top: max(g.Size, g.Max), zone: z, rank: at})
		p.zones[z].groups = append(p.zones[z].groups, p.groups[at])
		p.zones[z].room += max(0, g.Max-g.Size)
		if g.Max > g.Size {
			p.zones[z].bySize = append(p.zones[z].bySize, p.groups[at])
		}
	}
	for i := range p.zones {
		slices.SortStableFunc(p.zones[i].bySize, func(a, b group) int { return cmp.Compare(a.size, b.size) })
	}
	return p, nil
}

// sorted returns the positions 0..n-1 in the order of their names, and equal names as they stand.
func sorted(n int, name func(int) string) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(name(i), name(j)) })
	return order
}

func (r *SplitRequest) check() error {
	var err error
	within := func(path string, value, least int64) {
		switch {
		case err != nil:
		case value < least:
			err = apportion.Invalid(path, value, fmt.Sprintf("must be at least %d", least))
		case value > MaxCount:
			err = apportion.Invalid(path, value, fmt.Sprintf("must be at most %d", MaxCount))
		}
	}
	within("pods", r.Pods, 0)
	within("maxSkew", r.MaxSkew, 1)
	within("minDomains", r.MinDomains, 0)
	within("podsPerNode", r.PodsPerNode, 1)
	within("extraNodes", r.ExtraNodes, 0)
	for i := range r.Domains {
		d, at := &r.Domains[i], fmt.Sprintf("domains[%d].", i)
		within(at+"matchingPods", d.MatchingPods, 0)
		within(at+"freeSlots", d.FreeSlots, 0)
		if err == nil && !d.Active && d.MatchingPods > 0 {
			err = apportion.Invalid(at+"matchingPods", d.MatchingPods, "must be 0 in a domain that is not active")
		}
		if err == nil && !d.Active && d.FreeSlots > 0 {
			err = apportion.Invalid(at+"freeSlots", d.FreeSlots, "must be 0 in a domain that is not active")
		}
	}
	for i := range r.Groups {
		within(fmt.Sprintf("groups[%d].size", i), r.Groups[i].Size, 0)
		within(fmt.Sprintf("groups[%d].max", i), r.Groups[i].Max, 0)
	}
	return err
}

// lots is more slots than any level needs; slots are not counted beyond it, so that sums of products
// stay within 64 bits.
const lots = 1 << 34

// slots is how many pods of the request fit into a zone with n new nodes.
func (p *problem) slots(z *zone, n int64) int64 {
	if n > lots/p.perNode {
		return lots
	}
	return min(lots, z.free+p.perNode*n)
}

// placeable returns how many pods can be scheduled with so many new nodes per zone, whatever order
// the scheduler takes, and the level: the least number of matching pods that a zone ends up with if
// its slots are filled.
func (p *problem) placeable(nodes []int64) (pods, level int64) {
	level, active := lots, int64(0)
	for i := range p.zones {
		if z := &p.zones[i]; z.active || nodes[i] > 0 {
			active++
			level = min(level, z.count+p.slots(z, nodes[i]))
		}
	}
	if active < p.minDomains {
		level = 0
	}
	for i := range p.zones {
		if z := &p.zones[i]; z.active || nodes[i] > 0 {
			pods += p.yield(z, p.slots(z, nodes[i]), level)
		}
	}
	return pods, level
}

// yield is how many pods a zone with so many slots takes at a level.
func (p *problem) yield(z *zone, slots, level int64) int64 {
	return max(0, min(slots, level+p.skew-z.count))
}

// most is how many of the pods can be placed on all nodes that the groups have room for. What is
// placed grows with the level until a zone cannot reach it, so these levels are the only ones to
// look at.
func (p *problem) most() int64 {
	levels := []int64{0, p.highest()}
	for i := range p.zones {
		if z := &p.zones[i]; !z.active && z.room > 0 {
			levels = append(levels, p.slots(z, z.room))
		}
	}
	best := int64(0)
	for _, level := range levels {
		best = max(best, p.mostAt(level))
	}
	return min(p.pods, best)
}

// highest is the highest level that all active zones can reach, and that is of use.
func (p *problem) highest() int64 {
	reached, today, active := int64(lots), int64(lots), false
	for i := range p.zones {
		if z := &p.zones[i]; z.active {
			active = true
			reached = min(reached, z.count+p.slots(z, z.room))
			today = min(today, z.count+min(z.free, lots))
		}
	}
	if active {
		// All pods fit into the lowest zone once it has that many slots more.
		return min(reached, today+p.pods)
	}
	reached = 0
	for i := range p.zones {
		reached = max(reached, p.slots(&p.zones[i], p.zones[i].room))
	}
	return min(reached, p.pods)
}

func (p *problem) mostAt(level int64) int64 {
	pods, domains := int64(0), int64(0)
	for i := range p.zones {
		z := &p.zones[i]
		slots := p.slots(z, z.room)
		switch {
		case !z.active && z.room == 0:
		case z.count+slots >= level:
			domains++
			pods += p.yield(z, slots, level)
		case z.active:
			return 0
		}
	}
	if level > 0 && domains < p.minDomains {
		return 0
	}
	return pods
}

func (p *problem) result(r *SplitRequest, best *splitPlan, placed int64) SplitResult {
	out := SplitResult{Groups: make([]GroupSize, len(r.Groups)), Placed: placed, Unplaced: r.Pods - placed, Binding: []string{}}
	for at, i := range p.order {
		out.Groups[i] = GroupSize{Name: r.Groups[i].Name, Size: r.Groups[i].Size, NewSize: best.sizes[at]}
	}
	if out.Unplaced == 0 {
		return out
	}
	_, level := p.placeable(best.zones)
	for i := range p.zones {
		z := &p.zones[i]
		if (z.active || best.zones[i] > 0) && p.slots(z, best.zones[i]) < level+p.skew-z.count {
			out.Binding = append(out.Binding, z.name)
		}
	}
	return out
}

// openLevel is the best plan with the domains open that as many nodes as in a plan, levelled over all
// groups, would open.
func (p *problem) openLevel(plan *splitPlan, placed int64) *splitPlan {
	var opened []*zone
	for rank, size := range levelled(p.groups, plan.nodes) {
		z := &p.zones[p.groups[rank].zone]
		if z.active || size == p.groups[rank].size {
			continue
		}
		if z.active = true; p.most() < placed {
			z.active = false
			continue
		}
		opened = append(opened, z)
	}
	if len(opened) == 0 {
		return plan
	}
	level := p.fewest(placed)
	for _, z := range opened {
		z.active = false // nodes make it so, if it gets some
	}
	if pods, _ := p.placeable(level.zones); pods < placed || level.nodes > plan.nodes+int64(len(opened)) {
		return plan
	}
	return level
}

// splitPlan is a plan with what it is judged by.
type splitPlan struct {
	zones   []int64 // new nodes per zone
	nodes   int64   // their sum
	squares uint64  // by how much the sum of the squares of the sizes grows
	sizes   []int64 // new sizes, by group
}

func (p *problem) planOf(zones []int64) *splitPlan {
	plan := &splitPlan{zones: zones, sizes: make([]int64, len(p.groups))}
	for i, n := range zones {
		plan.nodes += n
		groups := p.zones[i].groups
		for k, size := range levelled(groups, n) {
			plan.sizes[groups[k].rank] = size
			plan.squares += squares(groups[k].size, size)
		}
	}
	return plan
}

// squares is by how much the square of a size grows.
func squares(size, newSize int64) uint64 { return uint64(newSize-size) * uint64(newSize+size) }

// better reports whether a plan is better than another one; every plan is better than none.
func (a *splitPlan) better(b *splitPlan) bool {
	if b == nil {
		return true
	}
	return cmp.Or(cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.squares, b.squares), slices.Compare(b.sizes, a.sizes)) < 0
}
