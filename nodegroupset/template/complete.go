package template

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Completion is what happened to the template of an empty group.
type Completion struct {
	// Template is the completed template; nil if nothing is filled in.
	Template *cloudprovider.Template
	// Note says from which group what was filled in, "completed from m5-a (ephemeral-storage)", or
	// why nothing is although something could be.
	Note string
	// Err is why a populated group is no model: its template cannot be compared.
	Err error
}

// Complete fills in what the cloud's templates of empty groups lack, by group. It returns those
// groups alone of which there is something to say.
//
// The model is the populated group that differs from the empty one in nothing but what is missing
// there. Of several models the one with the least missing counts; of similar populated groups the
// first by name stands for all.
//
// A guess must not decide where pods go. So nothing is filled in that says what nodes are for: no
// label that one of the pods selects nodes by, no label that is known to have a meaning, no
// extended resource. Nor is anything if two models would fill in different labels.
func Complete(templates map[string]cloudprovider.Template, empty map[string]bool, similarity nodegroupset.Options,
	pods iter.Seq[*v1.PodSpec]) (map[string]Completion, error) {
	similarity.Policies = nil // groups that belong together need not look alike
	index, err := nodegroupset.NewIndex(similarity)
	if err != nil {
		return nil, err
	}
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return nil, err
	}
	c := completer{index: index, packs: packs, selectors: sync.OnceValue(func() map[string]bool { return nodeSelectorKeys(pods) })}
	out := map[string]Completion{}
	groups := slices.Sorted(maps.Keys(templates))
	for _, id := range groups {
		if t := templates[id]; t.Node != nil && !empty[id] {
			if err := index.Set(id, t); err != nil {
				out[id] = Completion{Err: err}
			}
		}
	}
	var all []group
	for _, set := range index.Sets() {
		all = append(all, group{set[0], templates[set[0]]})
	}
	c.models = newModels(all, packs, similarity)
	for _, id := range groups {
		if t := templates[id]; t.Node != nil && empty[id] {
			if done := c.complete(group{id, t}); done != (Completion{}) {
				out[id] = done
			}
		}
	}
	return out, nil
}

// Fill takes all templates to be of one cloud, as ShareCloud does, and replaces those of empty groups by what Complete makes of
// them, if there are others to complete them from. It returns the notes of Complete, by group.
func Fill(templates map[string]cloudprovider.Template, empty map[string]bool, similarity nodegroupset.Options, pods iter.Seq[*v1.PodSpec]) (
	notes map[string]string, err error) {
	if err := ShareCloud(templates); err != nil || len(empty) == 0 || len(empty) == len(templates) {
		return nil, err
	}
	completions, err := Complete(templates, empty, similarity, pods)
	notes = map[string]string{}
	for id, c := range completions {
		if c.Template != nil {
			templates[id] = *c.Template
		}
		if c.Note != "" {
			notes[id] = c.Note
		}
	}
	return notes, err
}

// group is a node group and its template.
type group struct {
	id string
	cloudprovider.Template
}

// completer fills in templates of empty groups.
type completer struct {
	index     *nodegroupset.Index // of the populated groups
	models    *models             // one of each of their sets
	packs     nodegroupset.LabelPacks
	selectors func() map[string]bool // labels that some pod selects nodes by
}

// complete fills in one template, if a model is found.
func (c *completer) complete(empty group) Completion {
	var nearest group
	var lacks []missingField
	for _, model := range c.models.near(empty.Node) {
		missing := c.onlyMissing(empty, model)
		switch {
		case len(missing) == 0:
		case nearest.Node == nil || len(missing) < len(lacks):
			nearest, lacks = model, missing
		case len(missing) == len(lacks):
			if key, differ := differentLabel(lacks, nearest, model); differ {
				return Completion{Note: fmt.Sprintf("not completed: %s and %s differ in %s", nearest.id, model.id, key)}
			}
		}
	}
	if nearest.Node == nil {
		return Completion{}
	}
	completed, filled := fillIn(empty.Template, nearest.Node, lacks)
	return Completion{Template: &completed, Note: fmt.Sprintf("completed from %s (%s)", nearest.id, strings.Join(filled, ", "))}
}

// differentLabel finds a label that two models would fill in differently.
func differentLabel(lacks []missingField, a, b group) (key string, found bool) {
	for _, m := range lacks {
		if m.kind == missingLabel && a.Node.Labels[m.name] != b.Node.Labels[m.name] {
			return m.name, true
		}
	}
	return "", false
}

// nodeSelectorKeys lists the node labels that some pod selects nodes by.
func nodeSelectorKeys(pods iter.Seq[*v1.PodSpec]) map[string]bool {
	keys := map[string]bool{}
	for pod := range pods {
		for key := range pod.NodeSelector {
			keys[key] = true
		}
		for _, c := range pod.TopologySpreadConstraints {
			keys[c.TopologyKey] = true
		}
		if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil ||
			pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			continue
		}
		for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				keys[e.Key] = true
			}
		}
	}
	return keys
}

// onlyMissing lists what the empty group's template lacks, if filling that in is allowed and makes
// the two groups similar, and nothing otherwise. The index is left as it was.
func (c *completer) onlyMissing(empty, model group) []missingField {
	missing := missingIn(empty.Node, model.Node)
	if len(missing) == 0 || empty.Node.Status.Capacity.Cpu().Cmp(*model.Node.Status.Capacity.Cpu()) != 0 {
		return nil // which spares most pairs the comparison
	}
	defer c.index.Delete(empty.id)
	completed, _ := fillIn(empty.Template, model.Node, missing)
	if c.index.Set(empty.id, completed) != nil || !c.index.AreSimilar(empty.id, model.id) {
		return nil
	}
	// Of all that is missing only what the comparison looks at needs to be filled in.
	if c.index.Set(empty.id, empty.Template) != nil {
		return nil
	}
	differences := c.index.Differences(empty.id, model.id)
	missing = slices.DeleteFunc(missing, func(m missingField) bool { return !differs(differences, m) })
	if slices.ContainsFunc(missing, c.hasMeaning) {
		return nil
	}
	return missing
}

// hasMeaning reports whether a field says what the nodes are for.
func (c *completer) hasMeaning(m missingField) bool {
	if m.kind == missingLabel {
		return c.packs.HasMeaning(m.name) || c.selectors()[m.name]
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
	has := resourcesOf(empty)
	for kind, resources := range resourcesOf(model) {
		for name, quantity := range *resources {
			if _, found := (*has[kind])[name]; !found && !quantity.IsZero() {
				missing = append(missing, missingField{missingKind(kind), string(name)})
			}
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

// fillIn returns a copy of the empty group's template with what is missing taken from the model,
// and the names of that.
func fillIn(empty cloudprovider.Template, model *v1.Node, missing []missingField) (cloudprovider.Template, []string) {
	node := empty.Node.DeepCopy()
	var filled []string
	for _, m := range missing {
		if m.kind == missingLabel {
			metav1.SetMetaDataLabel(&node.ObjectMeta, m.name, model.Labels[m.name])
		} else {
			into, from, name := resourcesOf(node)[m.kind], *resourcesOf(model)[m.kind], v1.ResourceName(m.name)
			if *into == nil {
				*into = v1.ResourceList{}
			}
			(*into)[name] = from[name].DeepCopy()
		}
		if !slices.Contains(filled, m.name) {
			filled = append(filled, m.name)
		}
	}
	return cloudprovider.Template{Node: node, Pods: empty.Pods}, filled
}

// resourcesOf are the resources of a node, by missingCapacity and missingAllocatable.
func resourcesOf(n *v1.Node) [2]*v1.ResourceList {
	return [...]*v1.ResourceList{&n.Status.Capacity, &n.Status.Allocatable}
}

type missingKind int

const (
	missingCapacity missingKind = iota
	missingAllocatable
	missingLabel
)

// missingField is one thing that a template lacks.
type missingField struct {
	kind missingKind
	name string
}
