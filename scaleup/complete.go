package scaleup

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// completeTemplates fills in what the cloud's templates of empty groups lack.
// The model is the populated group that differs from the empty one in nothing
// but what is missing there; with several, the one with the least missing, then
// the first by name. Of similar populated groups the first stands for all.
func completeTemplates(groups []Group, similarity nodegroupset.Options) error {
	index, err := nodegroupset.NewIndex(similarity)
	if err != nil {
		return err
	}
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
	var models []*Group
	for _, set := range index.Sets() {
		models = append(models, byName[set[0]])
	}
	for i := range groups {
		if g := &groups[i]; g.Template != nil && g.TemplateFrom == fromCloud {
			completeFrom(models, g, index)
		}
	}
	return nil
}

// completeFrom completes the template of one empty group, where a model is found.
func completeFrom(models []*Group, empty *Group, index *nodegroupset.Index) {
	var nearest *Group
	var lacks []missingField
	for _, model := range models {
		if !lacksAny(empty.Template.Node, model.Template.Node) {
			continue
		}
		if missing := onlyMissing(empty, model, index); len(missing) > 0 && (nearest == nil || len(missing) < len(lacks)) {
			nearest, lacks = model, missing
		}
	}
	if nearest != nil {
		var filled []string
		empty.Template, filled = completeTemplate(empty.Template, nearest.Template, lacks)
		empty.TemplateFrom = completedFrom(nearest.ID, filled)
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
// that makes the two similar, and nothing otherwise. The index holds the model
// and is left as it was.
func onlyMissing(empty, model *Group, index *nodegroupset.Index) []missingField {
	defer index.Delete(empty.ID)
	missing := missingIn(empty.Template.Node, model.Template.Node)
	completed, _ := completeTemplate(empty.Template, model.Template, missing)
	if index.Set(empty.ID, *completed) != nil || !slices.Contains(index.Similar(empty.ID), model.ID) {
		return nil
	}
	// Of all that is missing only what the comparison looks at is worth filling
	// in: a label that the packs ignore stays the empty group's own affair.
	if index.Set(empty.ID, *empty.Template) != nil {
		return nil
	}
	differences := index.Differences(empty.ID, model.ID)
	return slices.DeleteFunc(missing, func(m missingField) bool { return !differs(differences, m) })
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
