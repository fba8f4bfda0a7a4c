package template

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

type label struct{ key, value string }

// models finds groups that a label does not rule out as a model. To try every group for every other
// would take as long as the comparison of all pairs that the index is there to spare.
type models struct {
	groups    []group         // by name
	anyLabel  bool            // the user has chosen the labels that decide
	ignorable map[string]bool // label keys that may make no difference
	with      map[label]int   // how many groups have a label
	keyed     map[string]int  // how many groups have a label key
	found     map[label][]group
}

func newModels(groups []group, packs nodegroupset.LabelPacks, options nodegroupset.Options) *models {
	m := &models{
		groups: groups, anyLabel: len(options.Labels) > 0,
		ignorable: map[string]bool{}, with: map[label]int{}, keyed: map[string]int{}, found: map[label][]group{},
	}
	ignore := func(keys []string) {
		for _, key := range keys {
			m.ignorable[key] = true
		}
	}
	ignore(options.IgnoreLabels)
	for _, pack := range packs.Packs {
		ignore(pack.Labels)
		if pack.Cloud != nil {
			ignore(pack.Cloud.Labels)
		}
	}
	for _, alias := range packs.Aliases {
		m.ignorable[alias.Deprecated] = true // it may count as another
	}
	for _, g := range groups {
		for key, value := range g.Node.Labels {
			m.with[label{key, value}]++
			m.keyed[key]++
		}
	}
	return m
}

// near returns the groups that have the rarest label of a node, or lack its key, by name. One with
// another value differs in more than what can be filled in.
func (m *models) near(node *v1.Node) []group {
	rarest := m.rarest(node)
	near, known := m.found[rarest]
	if known {
		return near
	}
	for _, g := range m.groups {
		if value, has := g.Node.Labels[rarest.key]; !has || value == rarest.value {
			near = append(near, g)
		}
	}
	m.found[rarest] = near
	return near
}

// rarest is the label of a node that leaves the fewest groups near it; it is empty where all are.
func (m *models) rarest(node *v1.Node) label {
	var rarest label
	if m.anyLabel {
		return rarest
	}
	fewest := len(m.groups)
	for key, value := range node.Labels {
		left := len(m.groups) - m.keyed[key] + m.with[label{key, value}]
		if !m.ignorable[key] && (left < fewest || left == fewest && key < rarest.key) {
			rarest, fewest = label{key, value}, left
		}
	}
	return rarest
}
