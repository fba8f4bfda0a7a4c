package scaleup

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// completeTemplates fills in what the cloud's templates of empty groups lack.
// The model is the populated group that differs from the empty one in nothing
// but what is missing there; with several, the one with the least missing, then
// the first by name.
func completeTemplates(groups []Group, similarity nodegroupset.Options) {
	var populated []*Group
	for i := range groups {
		if g := &groups[i]; g.Template != nil && g.TemplateFrom != fromCloud {
			populated = append(populated, g)
		}
	}
	for i := range groups {
		g := &groups[i]
		if g.Template == nil || g.TemplateFrom != fromCloud {
			continue
		}
		var model *Group
		var lacks []missingField
		for _, candidate := range populated {
			if !lacksAny(g.Template.Node, candidate.Template.Node) {
				continue
			}
			missing, only := onlyMissing(g, candidate, similarity)
			if only && (model == nil || len(missing) < len(lacks)) {
				model, lacks = candidate, missing
			}
		}
		if model != nil {
			var filled []string
			g.Template, filled = completeTemplate(g.Template, model.Template, lacks)
			g.TemplateFrom = completedFrom(model.ID, filled)
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

// onlyMissing compares the two templates; only is true when completing the
// empty one with what it lacks makes them similar, and not completing does not.
func onlyMissing(empty, model *Group, similarity nodegroupset.Options) (missing []missingField, only bool) {
	missing = missingIn(empty.Template.Node, model.Template.Node)
	completed, _ := completeTemplate(empty.Template, model.Template, missing)
	index, err := nodegroupset.NewIndex(similarity)
	if err != nil {
		return nil, false
	}
	for name, template := range map[string]*cloudprovider.Template{"empty": completed, "model": model.Template} {
		if err := index.Set(name, *template); err != nil {
			return nil, false
		}
	}
	if len(index.Similar("model")) == 0 {
		return nil, false
	}
	// Of all that is missing only what the comparison looks at is worth filling
	// in: a label that the packs ignore stays the empty group's own affair.
	if err := index.Set("empty", *empty.Template); err != nil {
		return nil, false
	}
	var wanted []missingField
	for _, m := range missing {
		if differs(index.Differences("empty", "model"), m) {
			wanted = append(wanted, m)
		}
	}
	return wanted, len(wanted) > 0
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
