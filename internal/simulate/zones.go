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

func (l *loader) note(text string) {
	if text != "" {
		l.setup.Notes = append(l.setup.Notes, text)
	}
}

// splitByZone makes one group for each zone of a group's nodes, if the cloud has one group in each
// zone. Otherwise it is a group over these zones, whose next node comes up where its cloud chooses. A
// note says which of both, unless the scenario says it.
func (l *loader) splitByZone() {
	groups := l.setup.Cloud.Groups
	l.setup.Cloud.Groups = nil
	strays, _ := partition(l.setup.Nodes, func(n *v1.Node) bool { return n.Labels[nodegroupset.KarpenterPool] != "" })
	l.note(straysNote(l.spec.GroupLabel, strays))
	for _, g := range groups {
		l.note(machinesNote(g.ID, g.Template.Node, g.Nodes))
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
			if len(g.Zones) == 0 {
				l.note(fmt.Sprintf(
					"nodes of node group %s lie in several zones (%s) and count as one group, whose new nodes come up in the zone with "+
						"the fewest; if each zone has a group of its own, name the zone too: groupLabel: %s,%s",
					g.ID, strings.Join(zones, ", "), strings.Join(l.groupLabel.Keys(), ","), v1.LabelTopologyZone))
			}
			more := slices.DeleteFunc(zones, func(zone string) bool { return slices.Contains(g.Zones, zone) })
			g.Zones = append(slices.Clip(g.Zones), more...)
			l.addGroup(g)
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
		part.Template.Node = fake.InZone(g.Template.Node, zone)
		if like := l.setup.RegistersAs[g.ID]; like != nil {
			l.setup.RegistersAs[part.ID] = fake.InZone(like, zone)
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
	l.note(fmt.Sprintf(
		"node group %s has a group of its own in every zone: %s, each with the bounds that are given", g.ID, strings.Join(names, ", ")))
}
