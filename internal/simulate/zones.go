package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// splitByZone makes one group for each zone of a group's nodes, if the cloud has one group in each
// zone, and adds a note. Otherwise it adds a warning: such a group has one template, and the zone
// of its next node is unknown.
func (l *loader) splitByZone() {
	groups := l.setup.Cloud.Groups
	l.setup.Cloud.Groups = nil
	for _, g := range groups {
		byZone := map[string][]*v1.Node{}
		for _, n := range g.Nodes {
			byZone[nodegroupset.ZoneOf(n)] = append(byZone[nodegroupset.ZoneOf(n)], n)
		}
		zones := slices.DeleteFunc(slices.Sorted(maps.Keys(byZone)), func(zone string) bool { return zone == "" })
		switch {
		case len(zones) < 2:
			l.addGroup(g)
		case l.groupLabel.Zonal():
			l.addParts(g, zones, byZone)
		default:
			l.addGroup(g)
			l.setup.Notes = append(l.setup.Notes, fmt.Sprintf(
				"nodes of node group %s lie in several zones (%s) and count as one group, whose new nodes come up in zone %s; if each zone has a group of its own, name the zone too: groupLabel: %s,%s",
				g.ID, strings.Join(zones, ", "), nodegroupset.ZoneOf(g.Template.Node), strings.Join(l.groupLabel.Keys(), ","), v1.LabelTopologyZone))
		}
	}
}

// addParts adds the group of each zone, with the bounds of the whole, because clouds have bounds
// for each zone. Nodes without a zone belong to none of them.
func (l *loader) addParts(g fake.Group, zones []string, byZone map[string][]*v1.Node) {
	var names []string
	for _, zone := range zones {
		part := g
		part.ID, part.Nodes, part.Size = nodegroupset.InZone(g.ID, zone), byZone[zone], 0
		part.Template.Node = inZone(g.Template.Node, zone)
		if like := l.setup.RegistersAs[g.ID]; like != nil {
			l.setup.RegistersAs[part.ID] = inZone(like, zone)
		}
		names = append(names, part.ID)
		if at, taken := l.position[part.ID]; taken && at < len(l.setup.Cloud.Groups) && l.setup.Cloud.Groups[at].ID == part.ID {
			l.setup.Cloud.Groups[at].Nodes = append(l.setup.Cloud.Groups[at].Nodes, part.Nodes...)
			continue
		}
		l.addGroup(part)
	}
	delete(l.position, g.ID)
	l.setup.Nodes = append(l.setup.Nodes, byZone[""]...)
	l.setup.Notes = append(l.setup.Notes, fmt.Sprintf(
		"node group %s has a group of its own in every zone: %s, each with the bounds that are given", g.ID, strings.Join(names, ", ")))
}

// inZone returns a node as a group of another zone would create it.
func inZone(n *v1.Node, zone string) *v1.Node {
	n = n.DeepCopy()
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[v1.LabelTopologyZone] = zone
	for _, key := range []string{v1.LabelFailureDomainBetaZone, "topology.gke.io/zone"} {
		if _, has := n.Labels[key]; has {
			n.Labels[key] = zone
		}
	}
	return n
}
