package nodegroupset

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// KarpenterPool is the label of nodes that Karpenter made. No autoscaler resizes them by node group.
const KarpenterPool = "karpenter.sh/nodepool"

// Annotations that say which machine a node is. The name of a machine or of its MachineSet is that of
// the group and a random part.
const (
	ownerOfMachine   = "cluster.x-k8s.io/owner-name"
	kindOfOwner      = "cluster.x-k8s.io/owner-kind"
	openShiftMachine = "machine.openshift.io/machine"
)

// What controllers add to the name of a MachineSet, and of a machine in OpenShift: letters that form no
// words, or a hash.
var (
	addedToSet     = regexp.MustCompile(`-(?:[bcdfghjklmnpqrstvwxz0-9]{5,10}|[0-9a-f]{8,10})$`)
	addedToMachine = regexp.MustCompile(`-[a-z0-9]{5}$`)
)

// ofMachine is the group of a node by an annotation; empty for control planes, which are of none.
func ofMachine(n *v1.Node, key string) string {
	name, kind := n.Annotations[key], n.Annotations[kindOfOwner]
	switch {
	case key == ownerOfMachine && (kind == "" || kind == "MachineSet"):
		return addedToSet.ReplaceAllString(name, "")
	case key == ownerOfMachine && kind == "MachinePool":
		return name
	case key == openShiftMachine:
		name = name[strings.LastIndexByte(name, '/')+1:]
		if at := addedToMachine.FindStringIndex(name); at != nil {
			return name[:at[0]]
		}
	}
	return ""
}

// GroupLabelCandidates are the labels and annotations of nodes that may name their groups, best first,
// each as --group-label=KEY with the groups that it would make.
func GroupLabelCandidates(nodes []*v1.Node) []string {
	type candidate struct {
		key    string
		rank   int
		nodes  int
		groups map[string]bool
	}
	found := map[string]*candidate{}
	see := func(n *v1.Node, key string, rank int) {
		group := ParseGroupLabel(key).Of(n)
		if group == "" {
			return
		}
		if found[key] == nil {
			found[key] = &candidate{key: key, rank: rank, groups: map[string]bool{}}
		}
		found[key].nodes++
		found[key].groups[group] = true
	}
	for _, n := range nodes {
		see(n, ownerOfMachine, 0)
		see(n, openShiftMachine, 0)
		for key := range n.Labels {
			rank := 2
			switch name := strings.ToLower(key); {
			case strings.HasPrefix(name, "karpenter.") || strings.Contains(name, "kubernetes.io/") && !strings.Contains(name, "group") &&
				!strings.Contains(name, "pool"):
				continue
			case strings.Contains(name, "group") || strings.Contains(name, "pool"):
				rank = 1
			}
			see(n, key, rank)
		}
	}
	maps.DeleteFunc(found, func(_ string, c *candidate) bool { // one value for all, or another on every node, names no groups
		return c.rank == 2 && (len(c.groups) < 2 || len(c.groups) == len(nodes) || 2*c.nodes < len(nodes))
	})
	ranked := slices.SortedFunc(maps.Values(found), func(a, b *candidate) int {
		return cmp.Or(a.rank-b.rank, b.nodes-a.nodes, len(b.groups)-len(a.groups), strings.Compare(a.key, b.key))
	})
	var out []string
	for _, c := range ranked {
		names := slices.Sorted(maps.Keys(c.groups))
		if len(names) > 4 {
			names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
		}
		out = append(out, fmt.Sprintf("--group-label=%s (%s)", c.key, strings.Join(names, ", ")))
	}
	return out
}
