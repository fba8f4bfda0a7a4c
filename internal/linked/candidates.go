package linked

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Candidates orders the nodes of which the autoscaler tries whether it can do without them. A node
// it can do without is no place for the pods of those tried later, so without an order unneeded
// nodes gather in some groups, and the pods of their sets in the others.
//
// Within each set the nodes change places until they are in the order in which they would keep the
// set level. Each group's nodes stay in the order in which they are given, and so do all nodes that
// are in no set.
type Candidates[G NodeGroup] struct {
	Cloud     Cloud[G]
	Deletions Deletions // nil: nothing is on its way out
	SetOf     func(group string) string
	TermsOf   func(group string) *nodegroupset.Terms // nil where no sets are declared
	// Moves reports whether a node has pods to move. The autoscaler tries empty nodes first,
	// because one that is tried after others may have become the place of their pods: it would then
	// be drained, of which few may be at a time, where it could just go.
	Moves func(node *v1.Node) bool
}

// ByName sorts nodes, which the autoscaler has in a map.
func ByName(nodes []*v1.Node) []*v1.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
}

// Order refills the places of each set with its nodes in the order that keeps it level.
func (c Candidates[G]) Order(nodes []*v1.Node) []*v1.Node {
	fleet := newFleet(c.Cloud, c.Deletions, c.SetOf, c.TermsOf)
	places := c.places(fleet, nodes)
	if len(places) == 0 {
		return nodes
	}
	request := nodegroupset.ShrinkRequest{Groups: fleet.withPartners(), Nodes: nodegroupset.Unlimited, Drains: nodegroupset.Unlimited}
	request.Terms = fleet.termsBySet()
	later := make([]bool, len(places))
	free := map[string][]int{} // set to the places its nodes hold
	for i, p := range places {
		request.Candidates = append(request.Candidates, nodegroupset.ShrinkCandidate{Group: p.group, Overdue: true})
		later[i] = c.Moves(nodes[p.at])
		free[p.set] = append(free[p.set], p.at)
	}
	result, err := shrinkInTurns(request, later)
	if err != nil {
		klog.ErrorS(err, "Candidates for scale-down are not put in order")
		return nodes
	}
	order := result.Go
	for _, wait := range result.Waits {
		order = append(order, wait.Candidate)
	}
	levelled := slices.Clone(nodes)
	for _, i := range order {
		p := places[i]
		left := free[p.set]
		levelled[left[0]], free[p.set] = nodes[p.at], left[1:]
	}
	return levelled
}

// place is where a node of a set stands among the candidates.
type place struct {
	at         int
	group, set string
}

// places are those of nodes in sets, without nodes on their way out, which the planner leaves out
// too.
func (c Candidates[G]) places(fleet *fleet[G], nodes []*v1.Node) []place {
	going := map[string]bool{}
	if c.Deletions != nil {
		empty, drained := c.Deletions.DeletionsInProgress()
		for _, node := range slices.Concat(empty, drained) {
			going[node] = true
		}
	}
	var out []place
	for i, node := range nodes {
		if group, ours := fleet.groupOf(node); ours && group.Set != "" && !going[node.Name] {
			out = append(out, place{i, group.Name, group.Set})
		}
	}
	return out
}
