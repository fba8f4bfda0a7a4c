package scaleup

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
)

// placer places pods one by one on new nodes of all members.
type placer struct {
	*planner
	cluster *predicates.Cluster
	from    int      // the first new node
	opened  []string // the group of each new node
	placed  map[int][]placement
	limit   int64
}

// placement is pods of one kind that were placed on a node.
type placement struct {
	pod *v1.Pod
	n   int
}

func (p *planner) newPlacer() *placer {
	return &placer{planner: p, cluster: p.cluster.Fork(), from: p.cluster.Len(), placed: map[int][]placement{}, limit: p.roundLimit()}
}

// placeOneByOne places the pods for which it matters what runs on other nodes: each on a new node
// where it may run, else on one more node of the smallest member where it may. On nodes of a single
// group such pods soon keep each other out. Other pods of the option then use the room that is left
// on these nodes.
func (p *planner) placeOneByOne() error {
	l := p.newPlacer()
	for i := range p.classes {
		if !p.classes[i].oneByOne {
			continue
		}
		if err := l.class(i); err != nil {
			return err
		}
	}
	if len(l.opened) == 0 {
		return nil
	}
	p.estimator = estimator.New(l.cluster)
	return l.fillUp()
}

func (l *placer) class(i int) error {
	c := &l.classes[i]
	first := len(l.opened)
	best, err := l.best(c)
	if err != nil {
		return err
	}
	l.ledger, l.cluster, l.opened, l.placed = best.ledger, best.cluster, best.opened, best.placed
	c.placed, c.why, c.closed = best.result, best.why, best.closed
	c.nodes = int64(len(l.opened) - first)
	s := share{class: i, groups: c.members, nodes: map[string]int64{}}
	for _, name := range l.opened[first:] {
		s.nodes[name]++
	}
	l.share(s)
	return nil
}

// attempt is a way to place the pods of a class.
type attempt struct {
	*placer
	result []estimator.Placed // in the order of the class's kinds
	why    map[int]string
	closed []string // members in domains without nodes, if they get none
	exact  bool     // no other way is better
}

// The ways to place the pods of a class.
type way int

const (
	planned  way = iota // on nodes that are planned for all domains at once
	opening             // the same, as if all domains that can be opened were open
	oneByOne            // one pod after the other
	levelled            // on as many nodes as one group would need, levelled as for other pods
)

// best places the pods of a class in several ways, unless the first one is known to be the best. A
// plan is for the pods of one kind. With several, the nodes of one may serve another, more of them in
// more domains; the largest pods come first, or if some of them find no place, the first kind.
func (l *placer) best(c *class) (best *attempt, err error) {
	for _, order := range [][]int{l.largestFirst(c.kinds), everyIndex(len(c.kinds))} {
		for _, how := range []way{planned, opening, oneByOne, levelled} {
			if how == opening && len(c.kinds) == 1 || how > opening && best.all() {
				continue
			}
			next, err := l.attempt(c, how, order)
			if err != nil {
				return nil, err
			}
			if best == nil || next.better(best, c) {
				best = next
			}
			if next.exact {
				return best, nil
			}
		}
		if len(c.kinds) == 1 || best.all() {
			break
		}
	}
	return best, nil
}

func (l *placer) attempt(c *class, how way, order []int) (*attempt, error) {
	a := &attempt{placer: l.fork(), result: make([]estimator.Placed, len(c.kinds)), why: map[int]string{}}
	if how == levelled {
		if err := a.levelNodes(c); err != nil {
			return nil, err
		}
	}
	for _, j := range order {
		if err := a.kind(c, j, how); err != nil {
			return nil, err
		}
	}
	a.exact = a.exact && len(c.kinds) == 1
	return a, nil
}

// kind places the pods of the j-th kind of a class: first those that can be planned, then the rest
// one by one, unless it is known that they have no place.
func (a *attempt) kind(c *class, j int, how way) error {
	kind := c.kinds[j]
	if how == levelled {
		n, err := a.put(kind, len(a.kinds[kind].Pods), 0)
		a.result[j].Count = n
		if n < len(a.kinds[kind].Pods) {
			a.result[j].Reason = estimator.ReasonHeldBack
		}
		return err
	}
	if how != oneByOne {
		plan, err := a.planSpread(c.members, kind, how == opening)
		if err != nil {
			return err
		}
		if plan != nil {
			a.closed = plan.closed
			if a.result[j], err = a.placePlanned(kind, plan); err != nil {
				return err
			}
			if plan.whole && plan.Unplaced > 0 {
				a.why[kind] = a.whySpread(kind, plan)
				a.result[j].Reason = estimator.ReasonHeldBack
			}
			if a.exact = plan.exact && plan.whole && a.result[j].Count == int(plan.Placed); a.exact {
				return nil
			}
		}
	}
	var err error
	a.result[j], err = a.place(c.members, kind, a.result[j].Count)
	return err
}

// levelNodes opens as many nodes as one group would need for the pods of a class.
func (a *attempt) levelNodes(c *class) error {
	phase := a.phase(a.standFor(c.members), a.demands(c.kinds))
	phase.MaxNodes = int(a.ledger.room(c.members, a.limit))
	need, err := estimator.Estimate(a.cluster, []estimator.Phase{phase}, int(a.limit)-len(a.opened))
	if err != nil {
		return err
	}
	split, err := a.ledger.split(int64(need.NodeCount), a.decision.Chosen, c.members)
	for _, g := range split.Groups {
		a.open(g.Name, int(g.NewSize-g.Size))
	}
	return err
}

// all reports whether all pods have a place.
func (a *attempt) all() bool {
	return !slices.ContainsFunc(a.result, func(r estimator.Placed) bool { return r.Reason != "" })
}

// better reports whether more pods have a place, or as many on fewer nodes or in groups of more even
// sizes.
func (a *attempt) better(b *attempt, c *class) bool {
	count := func(a *attempt) (pods int) {
		for _, r := range a.result {
			pods += r.Count
		}
		return pods
	}
	squares := func(a *attempt) (sum int64) {
		for _, name := range c.members {
			sum += a.ledger.counted(name) * a.ledger.counted(name)
		}
		return sum
	}
	return cmp.Or(cmp.Compare(count(b), count(a)), cmp.Compare(len(a.opened), len(b.opened)), cmp.Compare(squares(a), squares(b))) < 0
}

// fork is a placer for a what-if.
func (l *placer) fork() *placer {
	f := *l
	planner := *l.planner
	planner.ledger = l.ledger.fork()
	f.planner, f.cluster, f.opened, f.placed = &planner, l.cluster.Fork(), slices.Clone(l.opened), map[int][]placement{}
	for id, on := range l.placed {
		f.placed[id] = slices.Clone(on)
	}
	return &f
}

// put places up to so many pods of a kind on nodes there are, from one on.
func (l *placer) put(kind, count, from int) (int, error) {
	pod := l.kinds[kind].Pod
	on, err := l.cluster.Place(pod, count, from, l.cluster.Len())
	for _, run := range on {
		for id := run.First; id < run.First+run.Nodes; id++ {
			l.placed[id] = append(l.placed[id], placement{pod, run.PerNode})
		}
	}
	return podsOf(on), err
}

// place finds places for the pods of a kind one by one, as far as they go; some have one already.
func (l *placer) place(members []string, kind, have int) (estimator.Placed, error) {
	pod, want := l.kinds[kind].Pod, len(l.kinds[kind].Pods)
	placed := estimator.Placed{Count: have}
	for placed.Count < want {
		on, err := l.put(kind, want-placed.Count, l.from)
		if err != nil {
			return placed, err
		}
		if placed.Count += on; placed.Count == want {
			break
		}
		opened, full, err := l.openFor(members, pod)
		if err != nil {
			return placed, err
		}
		if !opened {
			placed.Reason = estimator.ReasonHeldBack
			if full {
				placed.Reason = estimator.ReasonNodeLimit
			}
			break
		}
		placed.Count++
	}
	return placed, nil
}

// open adds nodes that the ledger has booked.
func (l *placer) open(name string, n int) {
	if n > 0 {
		l.cluster.AddCopies(machine(l.group(name).Template), n)
		l.opened = append(l.opened, slices.Repeat([]string{name}, n)...)
	}
}

// openFor adds a node for the pod to the smallest member where it may run; full reports whether a
// member without room might have taken it.
func (l *placer) openFor(members []string, pod *v1.Pod) (opened, full bool, err error) {
	for _, name := range l.smallestFirst(members) {
		if int64(len(l.opened)) >= l.limit || l.ledger.room([]string{name}, 1) == 0 {
			full = true
			continue
		}
		g := l.group(name)
		on, err := l.cluster.PlaceOnNew(predicates.Node{Node: g.Template.Node, Pods: g.Template.Pods}, pod, 1, 1)
		if err != nil {
			return false, full, err
		}
		if podsOf(on) == 1 {
			l.ledger.give(name, 1)
			l.placed[l.from+len(l.opened)] = []placement{{pod, 1}}
			l.opened = append(l.opened, name)
			return true, full, nil
		}
	}
	return false, full, nil
}

func (l *placer) smallestFirst(members []string) []string {
	if l.ledger.terms[members[0]] != nil {
		return l.ledger.inOrder(members, l.decision.Chosen)
	}
	order := slices.Clone(members)
	slices.SortFunc(order, func(a, b string) int {
		if by := cmp.Compare(l.ledger.counted(a), l.ledger.counted(b)); by != 0 {
			return by
		}
		switch l.decision.Chosen {
		case a:
			return -1
		case b:
			return 1
		}
		return cmp.Compare(a, b)
	})
	return order
}

// fillUp gives the room that is left on the new nodes to pods that may run on any of them.
func (l *placer) fillUp() error {
	groups := slices.Compact(slices.Sorted(slices.Values(l.opened)))
	for _, c := range l.classes {
		if c.oneByOne || !subset(groups, c.members) {
			continue
		}
		for _, j := range l.largestFirst(c.kinds) {
			kind := c.kinds[j]
			on, err := l.cluster.Place(l.kinds[kind].Pod, len(l.kinds[kind].Pods), l.from, l.cluster.Len())
			if err != nil {
				return err
			}
			l.helped[kind] += podsOf(on)
		}
	}
	l.filledUp = groups
	return nil
}

// largestFirst orders kinds of one class, by their positions.
func (l *placer) largestFirst(kinds []int) []int {
	return estimator.LargestFirst(l.group(l.decision.Chosen).Template.Node, l.workload.Demands(kinds...))
}

func podsOf(placements []predicates.Placement) int {
	n := 0
	for _, p := range placements {
		n += p.Nodes * p.PerNode
	}
	return n
}
