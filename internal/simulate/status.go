package simulate

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// boundsIn returns the bounds of the node groups in a status, as far as a group can have them.
func boundsIn(s *autoscalerstatus.Status) map[string]DumpBounds {
	groups := map[string]DumpBounds{}
	for _, g := range s.Groups {
		if g.Name != "" && g.MinSize >= 0 && g.MaxSize >= g.MinSize && g.MaxSize <= math.MaxInt32 {
			groups[g.Name] = DumpBounds{int32(g.MinSize), int32(g.MaxSize)}
		}
	}
	return groups
}

// matchBounds finds the groups of nodes in the status, whose names are those of the cloud. Each name is of
// one group only. What is certain goes first: the name itself, as of a MachineDeployment; names of nodes
// and providerIDs that contain that of a MIG or a VMSS; the group's name with what a cloud adds to it; the
// id of a pool that is a label; and last any name that contains that of the group, the longest one.
func (d *Dump) matchBounds(members map[string][]*v1.Node) map[string]string {
	matched, taken := map[string]string{}, map[string]bool{}
	for _, fits := range []func(name, group string, nodes []*v1.Node) bool{isNamed, hasNodes, isDressed, isLabel, contains} {
		candidates := map[string][]string{} // by group
		for name := range d.bounds {
			if taken[name] {
				continue
			}
			best := ""
			for group, nodes := range members {
				if (len(group) > len(best) || len(group) == len(best) && group < best) && fits(name, group, nodes) {
					best = group
				}
			}
			if best != "" {
				candidates[best] = append(candidates[best], name)
			}
		}
		for group, names := range candidates {
			if matched[group] == "" && len(names) == 1 {
				matched[group] = names[0]
				taken[names[0]] = true
			}
		}
	}
	return matched
}

// lastPart is the name of a group without the URL or the kind and namespace before it.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func isNamed(name, group string, _ []*v1.Node) bool { return lastPart(name) == group }

// isLabel finds the id of a pool that a label of its nodes has.
func isLabel(name, _ string, nodes []*v1.Node) bool {
	return slices.Contains(slices.Collect(maps.Values(nodes[0].Labels)), name)
}

// hasNodes finds the MIG or VMSS that has the nodes of the group.
func hasNodes(name, _ string, nodes []*v1.Node) bool {
	short := lastPart(name)
	prefix, isMIG := strings.CutSuffix(short, "-grp")
	if zone := migZone.FindStringSubmatch(name); zone != nil && zone[1] != nodegroupset.ZoneOf(nodes[0]) {
		return false
	}
	return !slices.ContainsFunc(nodes, func(n *v1.Node) bool {
		inID := slices.Contains(strings.Split(strings.ToLower(n.Spec.ProviderID), "/"), strings.ToLower(short))
		return !inID && (!isMIG || !strings.HasPrefix(n.Name, prefix+"-"))
	})
}

// isDressed finds the name of the group with what EKS, eksctl or kOps adds.
func isDressed(name, group string, _ []*v1.Node) bool {
	bare := addedByEKS.ReplaceAllString(name, "")
	domain, inDomain := strings.CutPrefix(name, group+".")
	return bare == "eks-"+group || inDomain && strings.Contains(domain, ".") || strings.Contains(name, "-nodegroup-"+group+"-NodeGroup-")
}

var (
	migZone    = regexp.MustCompile(`/zones/([^/]+)/instanceGroups/`)
	addedByEKS = regexp.MustCompile(`-[0-9a-f]{8}(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]{12})?$`)
)

// contains finds a name that has that of the group between separators.
func contains(name, group string, _ []*v1.Node) bool {
	return strings.Contains(name, group) && regexp.MustCompile(`(^|[-_./])`+regexp.QuoteMeta(group)+`($|[-_./])`).MatchString(name)
}
