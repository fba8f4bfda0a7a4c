package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// readNodes makes every group's template from one of its nodes, as the balancer
// does: the first usable one by name.
func readNodes(s Sources, files Files) (*Fleet, error) {
	members := map[string][]*v1.Node{}
	var strays []string
	pods := &podList{on: map[string][]*v1.Pod{}, equal: document.NewInterner()}
	nodes, rest, err := s.nodesOf(files, s.Nodes, "Pod", pods.add)
	if err != nil {
		return nil, err
	}
	label := nodegroupset.ParseGroupLabel(s.GroupLabel)
	groups, names := label.Names(nodes), map[string]bool{}
	for i, n := range nodes {
		if names[n.Name] {
			return nil, refuse(s.Nodes, "node %q is listed twice", n.Name)
		}
		names[n.Name] = true
		group := groups[i]
		if group == "" {
			strays = append(strays, n.Name)
			continue
		}
		members[group] = append(members[group], n)
	}
	if len(members) == 0 {
		return nil, refuse(s.Nodes, "no node has the label %s%s", s.GroupLabel, suggestLabels(nodes))
	}
	if err := rest(); err != nil {
		return nil, err
	}
	fleet := &Fleet{Groups: map[string]cloudprovider.Template{}, file: document.Title(s.Nodes)}
	for group, of := range members {
		t, err := template.OfNodes(group, of, func(node string) []*v1.Pod { return pods.on[node] })
		if err != nil {
			return nil, err
		}
		fleet.Groups[group] = *t
	}
	fleet.note(s, members, strays)
	fleet.noteZones(label, nodes, groups)
	fleet.Cluster = pods.clusterOf(nodes)
	return fleet, nil
}

const mostNames = 5

// note says what the answer leaves out or rests on.
func (f *Fleet) note(s Sources, members map[string][]*v1.Node, strays []string) {
	if len(strays) > 0 {
		slices.Sort(strays)
		f.Notes = append(f.Notes, fmt.Sprintf("left out, as %s names no group of theirs: %s: %s", s.GroupLabel,
			spelling.Count(len(strays), "node"), spelling.List(strays, mostNames)))
	}
	var unusable []string
	for _, group := range slices.Sorted(maps.Keys(members)) {
		if !slices.ContainsFunc(members[group], template.IsUsable) {
			unusable = append(unusable, group)
		}
	}
	if len(unusable) > 0 {
		f.Notes = append(f.Notes, "no node is ready, schedulable and staying, so another one stands for the group: "+
			spelling.List(unusable, mostNames))
	}
	if s.Pods == "" {
		f.Notes = append(f.Notes, "no pods are given, so daemon sets are not counted: free is what is allocatable")
	}
}

// noteZones notes groups whose nodes lie in several zones: what was made of a
// pool that has a group in each, and else that one template stands for all.
func (f *Fleet) noteZones(label nodegroupset.GroupLabel, nodes []*v1.Node, groups []string) {
	zones, split := map[string]map[string]bool{}, map[string]bool{}
	for i, n := range nodes {
		pool, zone := label.Of(n), nodegroupset.ZoneOf(n)
		if groups[i] != pool {
			split[pool] = true
		}
		if zones[groups[i]] == nil {
			zones[groups[i]] = map[string]bool{}
		}
		if zone != "" {
			zones[groups[i]][zone] = true
		}
	}
	if len(split) > 0 {
		f.Notes = append(f.Notes, "has a group of its own in every zone: "+spelling.List(slices.Sorted(maps.Keys(split)), mostNames))
	}
	for _, group := range slices.Sorted(maps.Keys(zones)) {
		if in := slices.Sorted(maps.Keys(zones[group])); group != "" && len(in) > 1 {
			f.Notes = append(f.Notes,
				fmt.Sprintf("nodes of %s lie in several zones (%s) and count as one group; if each zone has a group of its own, "+
					"name the zone too: --group-label %s,%s",
					group, spelling.List(in, mostNames), strings.Join(label.Keys(), ","), v1.LabelTopologyZone))
		}
	}
}

// suggestLabels names what else may name the groups of nodes.
func suggestLabels(nodes []*v1.Node) string {
	candidates := nodegroupset.GroupLabelCandidates(nodes)
	if len(candidates) == 0 {
		return ""
	}
	return "; what may name their groups: " + spelling.List(candidates, mostNames)
}
