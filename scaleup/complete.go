package scaleup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// CompleteTemplates returns the templates of node groups, by id, with those of the
// empty groups completed from populated ones, as a round of the pipeline does
// before it compares groups: the catalogue says less about a machine than its
// kubelet. ShareCloud is part of it. The pods are those whose node selectors and affinities keep labels
// from being guessed. Nothing that is given is changed.
func CompleteTemplates(templates map[string]cloudprovider.Template, empty map[string]bool, similarity nodegroupset.Options, pods []*v1.Pod) (map[string]cloudprovider.Template, error) {
	templates = maps.Clone(templates)
	if err := ShareCloud(templates); err != nil {
		return nil, err
	}
	groups := make([]Group, 0, len(templates))
	for _, id := range slices.Sorted(maps.Keys(templates)) {
		template := templates[id]
		g := Group{Template: &template, TemplateFrom: "node"}
		g.ID = id
		if empty[id] {
			g.TemplateFrom = fromCloud
		}
		groups = append(groups, g)
	}
	if err := completeTemplates(groups, similarity, Cluster{Pending: pods}); err != nil {
		return nil, err
	}
	out := make(map[string]cloudprovider.Template, len(groups))
	for i := range groups {
		out[groups[i].ID] = *groups[i].Template
	}
	return out, nil
}

// completeTemplates fills in what the cloud's templates of empty groups lack.
// The model is the populated group that differs from the empty one in nothing
// but what is missing there; with several, the one with the least missing. Of
// similar populated groups the first stands for all.
//
// A guess must not decide where pods go. So nothing is filled in that says what
// nodes are for: no label that a pod of the cluster looks at, none that is
// known to have a meaning, no extended resource. Nor is anything where two
// models would fill in different labels.
func completeTemplates(groups []Group, similarity nodegroupset.Options, cluster Cluster) error {
	index, err := nodegroupset.NewIndex(similarity)
	if err != nil {
		return err
	}
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return err
	}
	c := completer{index: index, packs: packs, lookedAt: sync.OnceValue(func() map[string]bool { return lookedAt(cluster) })}
	byName := map[string]*Group{}
	for i := range groups {
		if g := &groups[i]; g.Template != nil && g.TemplateFrom != fromCloud {
			if err := index.Set(g.ID, *g.Template); err != nil {
				g.Err = err
				continue
			}
			byName[g.ID] = g
		}
	}
	for _, set := range index.Sets() {
		c.models = append(c.models, byName[set[0]])
	}
	for i := range groups {
		if g := &groups[i]; g.Template != nil && g.TemplateFrom == fromCloud {
			c.complete(g)
		}
	}
	return nil
}

// completer fills in templates of empty groups.
type completer struct {
	index    *nodegroupset.Index // of the populated groups
	models   []*Group            // one of each of their sets, by name
	packs    nodegroupset.LabelPacks
	lookedAt func() map[string]bool // labels that some pod asks for
}

// complete fills in one template, where a model is found.
func (c *completer) complete(empty *Group) {
	var nearest *Group
	var lacks []missingField
	for _, model := range c.models {
		if !lacksAny(empty.Template.Node, model.Template.Node) {
			continue
		}
		missing := c.onlyMissing(empty, model)
		switch {
		case len(missing) == 0:
		case nearest == nil || len(missing) < len(lacks):
			nearest, lacks = model, missing
		case len(missing) == len(lacks):
			if key, differ := differentLabel(lacks, nearest, model); differ {
				empty.TemplateFrom = fmt.Sprintf("%s, not completed: %s and %s differ in %s", fromCloud, nearest.ID, model.ID, key)
				return
			}
		}
	}
	if nearest != nil {
		var filled []string
		empty.Template, filled = completeTemplate(empty.Template, nearest.Template, lacks)
		empty.TemplateFrom = completedFrom(nearest.ID, filled)
	}
}

// differentLabel finds a label that two models would fill in differently.
func differentLabel(lacks []missingField, a, b *Group) (key string, found bool) {
	for _, m := range lacks {
		if m.kind == missingLabel && a.Template.Node.Labels[m.name] != b.Template.Node.Labels[m.name] {
			return m.name, true
		}
	}
	return "", false
}

// lookedAt lists the node labels that some pod of the cluster asks for.
func lookedAt(cluster Cluster) map[string]bool {
	keys := map[string]bool{}
	for _, pod := range cluster.Pending {
		lookAt(keys, &pod.Spec)
	}
	for _, n := range cluster.Nodes {
		for _, pod := range n.Pods {
			lookAt(keys, &pod.Spec)
		}
	}
	for _, set := range cluster.DaemonSets {
		lookAt(keys, &set.Spec.Template.Spec)
	}
	return keys
}

func lookAt(keys map[string]bool, pod *v1.PodSpec) {
	for key := range pod.NodeSelector {
		keys[key] = true
	}
	for _, c := range pod.TopologySpreadConstraints {
		keys[c.TopologyKey] = true
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			keys[e.Key] = true
		}
	}
}

// lacksAny is the cheap test that spares most pairs the comparison: the same
// machine, and something on the model that the empty template does not name.
func lacksAny(empty, model *v1.Node) bool {
	if empty.Status.Capacity.Cpu().Cmp(*model.Status.Capacity.Cpu()) != 0 {
		return false
	}
	for name := range model.Status.Capacity {
		if _, found := empty.Status.Capacity[name]; !found {
			return true
		}
	}
	for name := range model.Status.Allocatable {
		if _, found := empty.Status.Allocatable[name]; !found {
			return true
		}
	}
	for key := range model.Labels {
		if _, found := empty.Labels[key]; !found {
			return true
		}
	}
	return false
}

// onlyMissing lists what the empty group's template lacks, if completing it with
// that makes the two similar and may be done, and nothing otherwise. The index
// is left as it was.
func (c *completer) onlyMissing(empty, model *Group) []missingField {
	defer c.index.Delete(empty.ID)
	missing := missingIn(empty.Template.Node, model.Template.Node)
	completed, _ := completeTemplate(empty.Template, model.Template, missing)
	if c.index.Set(empty.ID, *completed) != nil || !slices.Contains(c.index.Similar(empty.ID), model.ID) {
		return nil
	}
	// Of all that is missing only what the comparison looks at is worth filling
	// in: a label that the packs ignore stays the empty group's own affair.
	if c.index.Set(empty.ID, *empty.Template) != nil {
		return nil
	}
	differences := c.index.Differences(empty.ID, model.ID)
	missing = slices.DeleteFunc(missing, func(m missingField) bool { return !differs(differences, m) })
	if slices.ContainsFunc(missing, c.tells) {
		return nil
	}
	return missing
}

// tells whether a field says what the nodes are for.
func (c *completer) tells(m missingField) bool {
	if m.kind == missingLabel {
		return c.packs.Tells(m.name) || c.lookedAt()[m.name]
	}
	return strings.Contains(m.name, "/") // an extended resource
}

func differs(differences []nodegroupset.Difference, m missingField) bool {
	field := map[missingKind]string{
		missingCapacity:    "capacity." + m.name,
		missingAllocatable: "allocatable." + m.name,
		missingLabel:       "labels[" + m.name + "]",
	}[m.kind]
	return slices.ContainsFunc(differences, func(d nodegroupset.Difference) bool { return d.Field == field })
}

func missingIn(empty, model *v1.Node) []missingField {
	var missing []missingField
	for name, quantity := range model.Status.Capacity {
		if _, found := empty.Status.Capacity[name]; !found && !quantity.IsZero() {
			missing = append(missing, missingField{missingCapacity, string(name)})
		}
	}
	for name, quantity := range model.Status.Allocatable {
		if _, found := empty.Status.Allocatable[name]; !found && !quantity.IsZero() {
			missing = append(missing, missingField{missingAllocatable, string(name)})
		}
	}
	for key := range model.Labels {
		if _, found := empty.Labels[key]; !found {
			missing = append(missing, missingField{missingLabel, key})
		}
	}
	slices.SortFunc(missing, func(a, b missingField) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	return missing
}
