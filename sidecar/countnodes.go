package sidecar

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/steering"
)

// countNodes counts the nodes of each group: those that have the labels of its template, as far as the templates of the
// groups differ in them. A group gets none if the template of another has the same labels: nobody knows whose the nodes are.
func countNodes(templates map[string]*v1.Node, nodes []*v1.Node) []steering.GroupSize {
	names := slices.Sorted(maps.Keys(templates))
	keys := slices.DeleteFunc(differing(templates, names), func(key string) bool { return perNode(key, nodes) })
	mark := func(node *v1.Node) (out string) {
		for _, key := range keys {
			value, has := node.Labels[key]
			out += key + "\x00" + value + "\x00"
			if !has {
				out += "\x00"
			}
		}
		return out
	}
	groups := map[string][]string{}
	for _, name := range names {
		at := mark(templates[name])
		groups[at] = append(groups[at], name)
	}
	sizes := make([]steering.GroupSize, len(names))
	for i, name := range names {
		sizes[i].Name = name
	}
	for _, node := range nodes {
		if of := groups[mark(node)]; len(of) == 1 {
			i, _ := slices.BinarySearch(names, of[0])
			sizes[i].Target++
			if template.IsReady(node) {
				sizes[i].Ready++
			}
		}
	}
	return sizes
}

// differing are the keys of labels that do not have the same value in all templates. A hostname is of one node only.
func differing(templates map[string]*v1.Node, names []string) []string {
	values := map[string]map[string]int{}
	for _, name := range names {
		for key, value := range templates[name].Labels {
			if key == v1.LabelHostname {
				continue
			}
			if values[key] == nil {
				values[key] = map[string]int{}
			}
			values[key][value]++
		}
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if len(values[key]) > 1 || slices.Max(slices.Collect(maps.Values(values[key]))) < len(names) {
			keys = append(keys, key)
		}
	}
	return keys
}

// perNode reports whether most nodes have a value of a label of their own, as that of an instance's id: the template, which is one of
// these nodes, is like none of the others then.
func perNode(key string, nodes []*v1.Node) bool {
	count := map[string]int{}
	for _, node := range nodes {
		if value, has := node.Labels[key]; has {
			count[value]++
		}
	}
	return len(count) > 3 && 2*len(count) > len(nodes)
}
