package removal

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
)

// pods are the pods that look for a place: pending ones, and those of candidates.
// Pods that are equal to the scheduler are one kind.
type pods struct {
	toMove  [][]*v1.Pod // of each node that is a candidate
	kinds   []predicates.Kind
	rank    []int   // of each kind: those of lower rank are placed first
	pending []int   // kinds of the pending pods, by rank
	leaving [][]int // kinds of the pods to move from each node, by rank
	around  bool    // to some of them it matters what pods other nodes have
}

// kindsOfPods sorts pods into kinds and ranks these as the scheduler's queue does.
func (p *planner) kindsOfPods() error {
	all := slices.Clone(p.world.Pending)
	for _, i := range p.candidates {
		all = append(all, p.pods.toMove[i]...)
	}
	p.pods.leaving = make([][]int, len(p.world.Nodes))
	if len(all) == 0 {
		return nil
	}
	shapes, weights := p.shapes()
	fit, err := p.checker.FitsElsewhere(shapes, all)
	if err != nil {
		return err
	}
	p.pods.kinds = fit.Kinds()
	p.pods.rank = make([]int, len(p.pods.kinds))
	for rank, k := range estimator.Queue(fit, shapes, weights) {
		p.pods.rank[k] = rank
	}
	for _, kind := range p.pods.kinds {
		p.pods.around = p.pods.around || looksAround(kind.Pod)
	}
	next := 0
	kindsOfNext := func(n int) []int {
		kinds := make([]int, n)
		for at := range kinds {
			kinds[at] = fit.KindOf(next + at)
		}
		next += n
		return p.byRank(kinds)
	}
	p.pods.pending = kindsOfNext(len(p.world.Pending))
	for _, i := range p.candidates {
		p.pods.leaving[i] = kindsOfNext(len(p.pods.toMove[i]))
	}
	return nil
}

func (p *planner) byRank(kinds []int) []int {
	slices.SortFunc(kinds, func(a, b int) int { return p.pods.rank[a] - p.pods.rank[b] })
	return kinds
}

// shapes returns one node for every group, empty but for what runs on all of its
// nodes, and every node of no group, with how many nodes each stands for.
func (p *planner) shapes() (shapes []predicates.Node, weights []int) {
	ofGroup := map[string]int{}
	for i := range p.world.Nodes {
		n := &p.world.Nodes[i]
		if !takesPods(n) {
			continue
		}
		if at, known := ofGroup[n.Group]; known && n.Group != "" {
			weights[at]++
			continue
		}
		ofGroup[n.Group] = len(shapes)
		shapes, weights = append(shapes, emptied(n.Node)), append(weights, 1)
	}
	return shapes, weights
}

// emptied is the node with only the pods that come and go with it.
func emptied(n predicates.Node) predicates.Node {
	var stay []*v1.Pod
	for _, pod := range n.Pods {
		if template.RunsOnEveryNode(pod) {
			stay = append(stay, pod)
		}
	}
	return predicates.Node{Node: n.Node, Pods: stay}
}

// looksAround reports whether it matters for a pod what pods there are on other nodes than its own.
func looksAround(pod *v1.Pod) bool {
	affinity, anti := podfit.PodTerms(pod)
	return len(podfit.HardSpread(pod)) > 0 || len(affinity) > 0 ||
		slices.ContainsFunc(anti, func(term v1.PodAffinityTerm) bool { return term.TopologyKey != v1.LabelHostname })
}

// whatIf is the cluster with some nodes gone and their pods moved to others.
// Nodes that are gone stay visible, empty and closed to pods: that is what the
// scheduler sees while they terminate.
type whatIf struct {
	*planner
	places []int   // nodes in the order in which pods look for a place
	at     []int   // of each node, its position in places
	kinds  [][]int // pods to move from each node, those that have moved there included
	moves  *predicates.Moves
}

// newWhatIf starts with the pending pods at their places.
func (p *planner) newWhatIf(places []int) (*whatIf, error) {
	w := &whatIf{planner: p, places: places, at: make([]int, len(places)), kinds: slices.Clone(p.pods.leaving)}
	moving := predicates.Moving{Nodes: make([]predicates.Node, len(places)), Closed: make([]bool, len(places))}
	for position, i := range places {
		w.at[i], moving.Nodes[position] = position, p.world.Nodes[i].Node
		moving.Closed[position] = !takesPods(&p.world.Nodes[i])
	}
	for _, kind := range p.pods.kinds {
		moving.Pods = append(moving.Pods, kind.Pod)
	}
	if p.pods.around { // otherwise nobody can tell
		moving.Gone = func(position int) predicates.Node { return departed(moving.Nodes[position]) }
	}
	var err error
	if w.moves, err = p.checker.Moves(moving); err != nil {
		return nil, err
	}
	moved, err := w.moves.Place(p.pods.pending)
	w.book(moved)
	return w, err
}

// remove takes a node away if all of its pods find a place elsewhere, and reports
// whether it did.
func (w *whatIf) remove(node int) (bool, error) {
	moved, gone, err := w.moves.Remove(w.at[node], w.kinds[node])
	w.book(moved)
	return gone, err
}

// departed returns the node as it looks to pods once it is being removed.
func departed(n predicates.Node) predicates.Node {
	n = emptied(n)
	node := *n.Node
	node.Spec.Taints = append(slices.Clip(node.Spec.Taints), v1.Taint{Key: template.ToBeDeletedTaint, Effect: v1.TaintEffectNoSchedule})
	n.Node = &node
	return n
}

// book notes pods at their new places.
func (w *whatIf) book(moves []predicates.Move) {
	for _, m := range moves {
		node := w.places[m.Node]
		kinds := slices.Clip(w.kinds[node])
		for range m.Pods {
			kinds = append(kinds, m.Kind)
		}
		w.kinds[node] = w.byRank(kinds)
	}
}
