package simulate

import (
	"fmt"
	"maps"
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
	types := sets.New[string]()
	for _, n := range nodes {
		if machine := n.Labels[v1.LabelInstanceTypeStable]; machine != "" {
			types.Insert(fmt.Sprintf("%s with cpu %s and memory %s", machine, n.Status.Capacity.Cpu(), n.Status.Capacity.Memory()))
		}
	}
	if len(types) < 2 {
		return ""
	}
	return fmt.Sprintf("nodes of %s are of several machine types (%s): all new ones are played as %s, and a cloud that "+
		"brings another type brings more or less room",
		group, few(sets.List(types)), like.Labels[v1.LabelInstanceTypeStable])
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
		parts = append(parts, fmt.Sprintf("%s without the label %s: %s; they are of no group, so none are added or removed",
			spelling.Count(len(names), "node"), label, few(names)))
	}
	return strings.Join(parts, "; ")
}
