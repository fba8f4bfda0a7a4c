package scaleup

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// policy is how later rounds are planned when they are foreseen.
type policy int

const (
	hastily     policy = iota // without looking at those after them
	asEstimated               // without simulating the scheduler
	carefully                 // as they will be
)

// future is what happens after a round, step by step.
type future struct {
	World
	*planner   // of the round
	as         policy
	round      uint64 // the next
	simulation simulation
	later      []arrival // ordered so far
}

// foresee plays what happens if these nodes are ordered now: later rounds order more, nodes come,
// and the scheduler binds pods to them, until nothing happens any more. It returns what later
// rounds order, as far as there is time to find out.
func (p *planner) foresee(planned map[string]int64, as policy) ([]arrival, error) {
	f := &future{World: *p.world, planner: p, as: as, round: p.opts.round + 1, simulation: p.simulation}
	f.Groups = slices.Clone(f.Groups)
	f.order(planned)
	more := true
	switch {
	case len(planned) > 0:
	case as == asEstimated:
		f.round-- // this one
	default:
		more = f.arrive()
	}
	for more {
		*p.simulation.work += 200_000 + 40*len(f.Pending)*len(f.Groups)
		if !p.hasTime() {
			break
		}
		grown, err := f.play()
		if err != nil {
			return nil, err
		}
		more = grown || f.arrive()
	}
	return f.later, nil
}

// play plans the next round, and reports whether it orders nodes.
func (f *future) play() (bool, error) {
	w := f.World
	next := newPlanner(&w, f.checker, f.opts.forRound(f.round))
	f.round++
	next.schedulers, next.simulation = f.schedulers, f.simulation
	next.opts.asEstimated = f.as == asEstimated
	next.foreseen, next.rehearsed = f.as != carefully, f.as == carefully
	if next.rehearsed {
		next.schedulers.work = new(int) // it will have all the time of a round
		next.simulation.work = next.schedulers.work
	}
	if err := next.make(); err != nil {
		return false, err
	}
	if next.rehearsed {
		*f.planner.simulation.work += *next.schedulers.work
	}
	f.simulation = next.simulation
	grown, ago := next.ledger.grown, f.Now.Sub(f.world.Now)
	for _, name := range slices.Sorted(maps.Keys(grown)) {
		a := fresh(f.group(name), grown[name])
		a.ordered, a.chosen = orderedLater+when(len(f.later)), next.decision.Chosen
		a.seen, a.in = a.seen+ago, a.in+ago
		f.later = append(f.later, a)
	}
	f.order(grown)
	return sum(grown) > 0, nil
}

func (f *future) group(name string) *Group {
	l := ledger{groups: f.Groups}
	return l.group(name)
}

// order has nodes on their way.
func (f *future) order(nodes map[string]int64) {
	for name, n := range nodes {
		g := f.group(name)
		g.Target += int(n)
		g.Upcoming += int(n)
		g.Orders = append(slices.Clip(g.Orders), nodegroupset.Order{At: f.Now, Nodes: int(n)})
	}
}

// bind takes over which pods have found a place.
func (f *future) bind() {
	f.Nodes = f.simulation.nodes
	var left []*v1.Pod
	position := map[int]int{}
	for i, at := range f.simulation.at {
		if at < 0 {
			position[i] = len(left)
			left = append(left, f.Pending[i])
		}
	}
	for i := range f.Groups {
		g := &f.Groups[i]
		if len(g.CameFor) == 0 {
			continue
		}
		waiting := map[int]bool{}
		for at := range g.CameFor {
			if to, waits := position[at]; waits {
				waiting[to] = true
			}
		}
		g.CameFor = waiting
	}
	f.Pending = left
}

// arrive lets the nodes come that come next, and reports whether pods wait for any.
func (f *future) arrive() bool {
	f.bind()
	next, found := time.Duration(0), false
	for i := range f.Groups {
		for _, a := range f.underway(&f.Groups[i]) {
			if a.n > 0 && (!found || a.in < next) {
				next, found = a.in, true
			}
		}
	}
	if !found || len(f.Pending) == 0 {
		return false
	}
	f.Nodes, f.GroupOf = slices.Clone(f.Nodes), slices.Clone(f.GroupOf)
	for i := range f.Groups {
		g := &f.Groups[i]
		came := 0
		for _, a := range f.underway(g) {
			if a.in > next {
				break
			}
			for n := range a.n {
				f.Nodes = append(f.Nodes, predicates.Node{Node: f.schedulers.unborn.node(g, a.from+n, a.machine.Node), Pods: a.machine.Pods})
				f.GroupOf = append(f.GroupOf, g.ID)
			}
			came += a.n
		}
		g.arrived += came
		g.Upcoming -= came
		g.Ready += came
	}
	f.Now, f.simulation = f.Now.Add(next), simulation{}
	return true
}

func (f *future) underway(g *Group) []arrival {
	if g.Template == nil || g.Upcoming == 0 {
		return nil
	}
	return underway(g, g.next(), f.Now)
}
