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
	limit   int64
}

// placeOneByOne places the pods for which it matters what runs on other nodes: each on a new node
// where it may run, else on one more node of the smallest member where it may. On nodes of a single
// group such pods soon keep each other out. Other pods of the option then use the room that is left
// on these nodes.
func (p *planner) placeOneByOne() error {
	l := &placer{planner: p, cluster: p.cluster.Fork(), from: p.cluster.Len(), limit: p.roundLimit()}
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
	c.placed = make([]estimator.Placed, len(c.kinds))
	for _, j := range l.largestFirst(c.kinds) {
		placed, err := l.place(c.members, c.kinds[j])
		if err != nil {
			return err
		}
		c.placed[j] = placed
	}
	c.nodes = int64(len(l.opened) - first)
	s := share{class: i, groups: c.members, nodes: map[string]int64{}}
	for _, name := range l.opened[first:] {
		s.nodes[name]++
	}
	l.share(s)
	return nil
}

// place finds places for all pods of a kind, as far as they go.
func (l *placer) place(members []string, kind int) (estimator.Placed, error) {
	pod, want := l.kinds[kind].Pod, len(l.kinds[kind].Pods)
	placed := estimator.Placed{}
	for placed.Count < want {
		on, err := l.cluster.Place(pod, want-placed.Count, l.from, l.cluster.Len())
		if err != nil {
			return placed, err
		}
		if placed.Count += podsOf(on); placed.Count == want {
			break
		}
		opened, full, err := l.open(members, pod)
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

// open adds a node for the pod to the smallest member where it may run; full reports whether a
// member without room might have taken it.
func (l *placer) open(members []string, pod *v1.Pod) (opened, full bool, err error) {
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
