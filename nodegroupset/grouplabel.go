package nodegroupset

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// GroupLabel names the node group of a node by its labels: by the value of one, or
// by those of several, joined by a dot. An annotation of the Cluster API or of OpenShift
// that says which machine the node is does as well.
type GroupLabel struct{ keys []string }

// ParseGroupLabel reads label keys separated by commas. Without any it names no
// group.
func ParseGroupLabel(text string) GroupLabel {
	var g GroupLabel
	for key := range strings.SplitSeq(text, ",") {
		if key = strings.TrimSpace(key); key != "" && !slices.Contains(g.keys, key) {
			g.keys = append(g.keys, key)
		}
	}
	return g
}

// Keys are the label keys, in their order.
func (g GroupLabel) Keys() []string { return g.keys }

// Of names the group of a node. It is empty where the node lacks a label, or has
// one without a value.
func (g GroupLabel) Of(n *v1.Node) string {
	values := make([]string, len(g.keys))
	for i, key := range g.keys {
		if values[i] = cmp.Or(n.Labels[key], ofMachine(n, key)); values[i] == "" {
			return ""
		}
	}
	return strings.Join(values, ".")
}

// Ignoring adds to options that the label makes no difference: it has another
// value in every group. Labels that say what nodes are for go on to matter, and
// where labels alone decide, all is as it was.
func (g GroupLabel) Ignoring(o Options) Options {
	packs, err := ShippedPacks()
	if err != nil || len(o.Labels) > 0 { // NewIndex reports the error
		return o
	}
	o.IgnoreLabels = slices.Clone(o.IgnoreLabels)
	ignored := newLabelRule(packs, o).ignored
	for _, key := range g.keys {
		if !packs.HasMeaning(key) && !ignored[key] {
			o.IgnoreLabels = append(o.IgnoreLabels, key)
		}
	}
	return o
}

// zonalPools are labels of clouds whose pools have one node group in every zone.
var zonalPools = []string{"cloud.google.com/gke-nodepool"}

// Zonal reports whether nodes of one name that lie in several zones are nodes of
// several groups, as those of a GKE node pool are.
func (g GroupLabel) Zonal() bool {
	if slices.ContainsFunc(g.keys, func(key string) bool { return slices.Contains(zoneLabels, key) }) {
		return false // the name has the zone already
	}
	return slices.ContainsFunc(g.keys, func(key string) bool { return slices.Contains(zonalPools, key) })
}

// Names are the groups of nodes, by their positions. Where nodes of one name lie in
// several zones and are of one group in each, the zone is part of the name.
func (g GroupLabel) Names(nodes []*v1.Node) []string {
	names, zones := make([]string, len(nodes)), map[string]map[string]bool{}
	for i, n := range nodes {
		names[i] = g.Of(n)
		if zones[names[i]] == nil {
			zones[names[i]] = map[string]bool{}
		}
		if zone := ZoneOf(n); zone != "" {
			zones[names[i]][zone] = true
		}
	}
	for i, n := range nodes {
		if zone := ZoneOf(n); names[i] != "" && zone != "" && g.Zonal() && len(zones[names[i]]) > 1 {
			names[i] = InZone(names[i], zone)
		}
	}
	return names
}

// InZone is the name of a zone's part of a group that is one group per zone.
func InZone(group, zone string) string { return group + "." + zone }

// ZoneOf is the zone of a node; it is empty where no label says it.
func ZoneOf(n *v1.Node) string {
	for _, key := range zoneLabels {
		if zone := n.Labels[key]; zone != "" {
			return zone
		}
	}
	return ""
}
