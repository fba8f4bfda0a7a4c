package scaledown

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// pods are the pods that look for a place: pending ones, and those of candidates.
// Pods that are equal to the scheduler are one kind.
type pods struct {
	toMove  [][]*v1.Pod // of each node that is a candidate
	kinds   []predicates.Kind
	rank    []int   // of each kind: those of lower rank are placed first
	pending []int   // kinds of the pending pods, by rank
	of      [][]int // kinds of the pods to move from each node, by rank
	around  bool    // to some of them it matters what pods other nodes have
}

// kindsOfPods sorts pods into kinds and ranks these as the scheduler's queue does.
func (p *planner) kindsOfPods() error {
	all := slices.Clone(p.world.Pending)
	for _, i := range p.candidates {
		for _, pod := range p.pods.toMove[i] {
			unbound := *pod
			unbound.Spec.NodeName = ""
			all = append(all, &unbound)
		}
	}
	p.pods.of = make([][]int, len(p.world.Nodes))
	if len(all) == 0 {
		return nil
	}
	shapes, weights := p.shapes()
	fit, err := p.checker.Fits(nil, shapes, all)
	if err != nil {
		return err
	}
	p.pods.kinds = fit.Kinds()
	p.pods.rank = make([]int, len(p.pods.kinds))
	for rank, k := range scaleup.Queue(fit, shapes, weights) {
		p.pods.rank[k] = rank
	}
	for _, kind := range p.pods.kinds {
		p.pods.around = p.pods.around || looksAround(kind.Pod)
	}
	next := 0
	take := func(n int) []int {
		kinds := make([]int, n)
		for at := range kinds {
			kinds[at] = fit.KindOf(next + at)
		}
		next += n
		return p.byRank(kinds)
	}
	p.pods.pending = take(len(p.world.Pending))
	for _, i := range p.candidates {
		p.pods.of[i] = take(len(p.pods.toMove[i]))
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
		if scaleup.RunsOnEveryNode(pod) {
			stay = append(stay, pod)
		}
	}
	return predicates.Node{Node: n.Node, Pods: stay}
}

// looksAround tells pods for which it matters what pods there are on nodes other
// than their own.
func looksAround(pod *v1.Pod) bool {
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.DoNotSchedule
	}) {
		return true
	}
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return false
	}
	return affinity.PodAffinity != nil && len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		affinity.PodAntiAffinity != nil && slices.ContainsFunc(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			func(term v1.PodAffinityTerm) bool { return term.TopologyKey != v1.LabelHostname })
}

// whatIf is the cluster with some nodes gone and their pods moved to others.
// Nodes that are gone stay visible, empty and closed to pods: that is what the
// scheduler sees while they terminate.
type whatIf struct {
	*planner
	places []int // nodes in the order in which pods look for a place
	at     []int // of each node, its position in places
	closed []bool
	kinds  [][]int // pods to move from each node, those that have moved there included
	// nodes are as they stood, by position in places; cluster is how they stand.
	// Where no pod looks around, pods of nodes that are gone are left in it: nobody
	// can tell.
	nodes   []predicates.Node
	cluster *predicates.Cluster
}

// newWhatIf starts with some nodes gone that may or may not have places for their
// pods, and with the pending pods at theirs.
func (p *planner) newWhatIf(places, without []int) (*whatIf, error) {
	w := &whatIf{
		planner: p, places: places, at: make([]int, len(places)),
		closed: make([]bool, len(places)), kinds: slices.Clone(p.pods.of), nodes: make([]predicates.Node, len(places)),
	}
	for position, i := range places {
		w.at[i], w.nodes[position] = position, p.world.Nodes[i].Node
		w.closed[position] = !takesPods(&p.world.Nodes[i])
	}
	for _, i := range without {
		w.closed[w.at[i]], w.nodes[w.at[i]] = true, ghost(w.nodes[w.at[i]])
	}
	w.cluster = p.checker.Cluster(w.nodes)
	moved, err := w.place(w.cluster, p.pods.pending)
	for _, m := range moved {
		w.settle(m)
	}
	return w, err
}

// remove takes a node away if all of its pods find a place elsewhere, and tells
// whether it did.
func (w *whatIf) remove(node int) (bool, error) {
	position := w.at[node]
	wasClosed := w.closed[position]
	w.closed[position] = true
	kinds := w.kinds[node]
	if len(kinds) == 0 && !w.pods.around {
		return true, nil
	}
	trial := w.cluster.Fork()
	if w.pods.around {
		if err := trial.Replace(position, ghost(w.nodes[position])); err != nil {
			return false, err
		}
	}
	moved, err := w.place(trial, kinds)
	if err != nil {
		return false, err
	}
	if count(moved) < len(kinds) {
		w.closed[position] = wasClosed
		return false, nil
	}
	w.cluster = trial
	for _, m := range moved {
		w.settle(m)
	}
	return true, nil
}

// ghost is a node that is gone for pods.
func ghost(n predicates.Node) predicates.Node {
	n = emptied(n)
	node := *n.Node
	node.Spec.Taints = append(slices.Clip(node.Spec.Taints), v1.Taint{Key: scaleup.ToBeDeletedTaint, Effect: v1.TaintEffectNoSchedule})
	n.Node = &node
	return n
}

// move is some pods of a kind on their way to a place.
type move struct{ kind, position, pods int }

func count(moves []move) int {
	pods := 0
	for _, m := range moves {
		pods += m.pods
	}
	return pods
}

// settle books pods at their new place.
func (w *whatIf) settle(m move) {
	node := w.places[m.position]
	kinds := slices.Clip(w.kinds[node])
	for range m.pods {
		kinds = append(kinds, m.kind)
	}
	w.kinds[node] = w.byRank(kinds)
}

// place puts pods on the open nodes of a cluster, kind by kind, as far as they
// fit.
func (w *whatIf) place(cluster *predicates.Cluster, kinds []int) ([]move, error) {
	var moves []move
	for begin := 0; begin < len(kinds); {
		end := begin
		for end < len(kinds) && kinds[end] == kinds[begin] {
			end++
		}
		left := end - begin
		for lo := 0; lo < len(w.closed) && left > 0; lo++ {
			hi := lo
			for hi < len(w.closed) && !w.closed[hi] {
				hi++
			}
			if hi == lo {
				continue
			}
			placements, err := cluster.Place(w.pods.kinds[kinds[begin]].Pod, left, lo, hi)
			if err != nil {
				return nil, err
			}
			for _, p := range placements {
				for position := p.First; position < p.First+p.Nodes; position++ {
					moves = append(moves, move{kinds[begin], position, p.PerNode})
				}
				left -= p.Nodes * p.PerNode
			}
			lo = hi
		}
		begin = end
	}
	return moves, nil
}
