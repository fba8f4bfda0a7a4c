package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// lostPodsNote says how many pods are bound to nodes that no file has: such a node went, or came,
// between two lists. Wherever they run, it is not known to be room for others. It is empty if there are
// none.
func lostPodsNote(byNode tally) string {
	if len(byNode) == 0 {
		return ""
	}
	return fmt.Sprintf("left out: %s bound to nodes that are not among those given: %s", spelling.Count(byNode.total(), "pod"),
		few(slices.Sorted(maps.Keys(byNode))))
}

// machinesNote says what it means that a group has nodes of several machine types; empty if it has not.
func machinesNote(group string, like *v1.Node, nodes []*v1.Node) string {
	var found []*v1.Node // one of each type
	for _, n := range nodes {
		if n.Labels[v1.LabelInstanceTypeStable] != "" && !slices.ContainsFunc(found, func(o *v1.Node) bool { return sameMachine(n, o) }) {
			found = append(found, n)
		}
	}
	if len(found) < 2 {
		return ""
	}
	types := sets.New[string]()
	for _, n := range found {
		types.Insert(fmt.Sprintf("%s with cpu %s and memory %s", n.Labels[v1.LabelInstanceTypeStable], n.Status.Capacity.Cpu(),
			n.Status.Capacity.Memory()))
	}
	return fmt.Sprintf("nodes of %s are of several machine types (%s): all new ones are played as %s, and a cloud that "+
		"brings another type brings more or less room",
		group, few(sets.List(types)), like.Labels[v1.LabelInstanceTypeStable])
}

// sameMachine reports whether two nodes are of one machine type. The memory of such nodes differs by some KiB; 1.5 % is what
// Cluster Autoscaler takes for equal.
func sameMachine(a, b *v1.Node) bool {
	const ratio = 0.015
	one, other := a.Status.Capacity.Memory().AsApproximateFloat64(), b.Status.Capacity.Memory().AsApproximateFloat64()
	return a.Labels[v1.LabelInstanceTypeStable] == b.Labels[v1.LabelInstanceTypeStable] &&
		a.Status.Capacity.Cpu().Cmp(*b.Status.Capacity.Cpu()) == 0 && math.Abs(one-other) <= ratio*max(one, other)
}

// straysNote says what happens to nodes of no group; empty if there are none.
func straysNote(label string, nodes []*v1.Node) string {
	var names, karpenter []string
	for _, n := range nodes {
		if n.Labels[nodegroupset.KarpenterPool] != "" {
			karpenter = append(karpenter, n.Name)
		} else {
			names = append(names, n.Name)
		}
	}
	var parts []string
	if len(karpenter) > 0 {
		parts = append(parts,
			fmt.Sprintf("Karpenter made %s: %s; they keep their pods and take more, but Karpenter itself is not played, so none "+
				"are added or removed", spelling.Count(len(karpenter), "node"), few(karpenter)))
	}
	if len(names) > 0 {
		parts = append(parts, fmt.Sprintf("%s of no group, as %s names none: %s; none are added or removed",
			spelling.Count(len(names), "node"), label, few(names)))
	}
	return strings.Join(parts, "; ")
}
