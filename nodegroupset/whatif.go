package nodegroupset

import (
	"slices"
	"strings"
)

// explainer explains the groups of an index. It answers which sets they would form under another
// rule; what was asked before is not worked out again.
type explainer struct {
	index   *Index
	sets    [][]string
	answers map[string]whatIf
}

// whatIf is a fleet under another rule.
type whatIf struct {
	index *Index
	sets  [][]string
}

func newExplainer(x *Index) *explainer {
	return &explainer{index: x, sets: x.Sets(), answers: map[string]whatIf{}}
}

// under compares the fleet again. Rules of one kind are distinguished by their flags.
func (e *explainer) under(r *rule, flags []string) whatIf {
	question := string(r.kind) + " " + strings.Join(flags, " ")
	answer, ok := e.answers[question]
	if !ok {
		x := newIndex(r)
		x.options.Policies = e.index.options.Policies
		for _, name := range e.index.Names() {
			group := e.index.groups[name]
			if r.kind == stockRule { // an autoscaler without evenkeel knows of no policy
				x.set(name, group.facts, 0)
			} else {
				x.set(name, group.facts, group.set)
			}
		}
		answer = whatIf{x, x.Sets()}
		e.answers[question] = answer
	}
	return answer
}

// stock is the fleet in the eyes of an autoscaler without evenkeel and without flags.
func (e *explainer) stock() whatIf { return e.under(newStockRule(e.index.Cloud, changes{}), nil) }

// remedy is what changes lead to under a rule with them, found by comparing the fleet again.
func (e *explainer) remedy(r *rule, t tally, before [][]string) Remedy {
	if len(t.obstacles) > 0 {
		return Remedy{Obstacles: t.obstacles}
	}
	return e.outcome(r, Remedy{Flags: t.flags(), Cautions: t.cautions(e.index.packs)}, before)
}

func (e *explainer) stockRemedy(t tally) Remedy {
	return e.remedy(newStockRule(e.index.Cloud, t.changes), t, e.stock().sets)
}

// fullRemedy is that of the product's rule, on top of the options.
func (e *explainer) fullRemedy(t tally) Remedy {
	o := e.index.options
	o.IgnoreLabels = slices.Concat(o.IgnoreLabels, t.ignore)
	for kind, given := range o.givenRatios() {
		if t.ratios[kind] != nil {
			*given = t.ratios[kind]
		}
	}
	return e.remedy(o.rule(e.index.packs), t, e.sets)
}

// labelRemedy leaves out the labels that differ in label-only mode.
func (e *explainer) labelRemedy(left, right string) Remedy {
	keep := e.index.rule.remainingKeys(e.index.groups[left], e.index.groups[right])
	if len(keep) == 0 {
		return Remedy{Obstacles: []string{"no balancing label is present on both sides and equal"}}
	}
	return e.outcome(newChosenLabelsRule(keep), Remedy{Flags: labelFlags(keep)}, e.sets)
}

// outcome completes a remedy by comparing the fleet again under its flags.
func (e *explainer) outcome(r *rule, remedy Remedy, before [][]string) Remedy {
	known := map[string]bool{}
	for _, set := range before {
		known[setKey(set)] = true
	}
	after := e.under(r, remedy.Flags).sets
	remedy.Sets = len(after)
	for _, set := range after {
		if !known[setKey(set)] {
			remedy.Joined = append(remedy.Joined, set)
		}
	}
	return remedy
}

func setKey(set []string) string { return strings.Join(set, "\x00") }
