package nodegroupset

import (
	"fmt"
	"slices"
)

// Report explains a fleet: which groups form sets, which nearly do, and what
// would join them. It holds all that is printed, in a stable order.
type Report struct {
	Sets []ReportSet `json:"sets"`
	// Misses are the pairs of sets, by their first members, that differ in at most
	// three fields: fewest fields first, then by name.
	Misses []Miss `json:"misses"`
	// MoreMisses is how many further pairs there are beyond the first fifty.
	MoreMisses int `json:"moreMisses,omitempty"`
	// Candidates are the labels that look like names of groups or zones.
	Candidates []Candidate `json:"candidates"`
	// Suggestion ignores the fewest candidates that join as many sets as ignoring
	// all of them; without flags where ignoring labels joins nothing.
	Suggestion Remedy `json:"suggestion,omitzero"`
	// Stock is the same fleet in the eyes of an autoscaler without evenkeel.
	Stock StockReport `json:"stock"`
}

// ReportSet is one set and what an autoscaler without evenkeel would need to
// find it: the flags that make every member similar to the first.
type ReportSet struct {
	Groups []string `json:"groups"`
	Policy string   `json:"policy,omitempty"` // of a declared set, with its name
	Stock  Remedy   `json:"stock,omitzero"`   // empty for a group on its own
}

// Miss is two sets that nearly are one.
type Miss struct {
	Pair
	Remedy Remedy `json:"remedy"` // for evenkeel, on top of its options
	Stock  Remedy `json:"stock"`  // for an autoscaler without evenkeel, from its defaults
}

// Candidate is a label that may mean nothing: its value is another one in every
// group, or it says no more than the zone.
type Candidate struct {
	Label          string `json:"label"`
	UniquePerGroup bool   `json:"uniquePerGroup,omitempty"`
	FollowsZone    bool   `json:"followsZone,omitempty"`
	Remedy         Remedy `json:"remedy"` // what ignoring this label alone does
}

// StockReport is what Cluster Autoscaler makes of the fleet with its generic
// comparator, which reads these flags up to version 1.36. It compares no taints.
type StockReport struct {
	Cloud       string     `json:"cloud,omitempty"` // whose build it is: its list of ignored labels counts
	DefaultSets [][]string `json:"defaultSets"`     // without any flag
	Flags       []string   `json:"flags"`           // all that the sets of this report need
	Sets        [][]string `json:"sets"`            // with these flags
	Same        bool       `json:"same"`            // whether they are the sets of this report
}

const (
	missFields = 3
	missLimit  = 50
)

// Explain reports on the groups of the index. Every remedy in it has been tried:
// the sets it leads to come from comparing the fleet again.
func (x *Index) Explain() Report {
	e := explainer{index: x, whatIf: newWhatIf(x), sets: x.Sets()}
	report := Report{Sets: []ReportSet{}, Misses: []Miss{}, Candidates: []Candidate{}}
	report.Stock = e.stock(&report)
	for i := range report.Sets {
		if set := x.groups[report.Sets[i].Groups[0]].set; set > 0 {
			terms := newTerms(&x.options.Policies[set-1])
			report.Sets[i].Policy = fmt.Sprintf("%s, %s", terms.Set, terms)
		}
	}
	e.misses(&report)
	if _, ok := x.rule.(*fullRule); ok {
		e.candidates(&report)
	}
	return report
}

type explainer struct {
	index *Index
	*whatIf
	sets [][]string
}

// fullRuleWith is the product's rule with changes on top of the options.
func (e *explainer) fullRuleWith(c changes) rule {
	o := e.index.options
	o.IgnoreLabels = slices.Concat(o.IgnoreLabels, c.ignore)
	for kind, target := range []**Ratio{&o.MemoryDifferenceRatio, &o.MaxAllocatableDifferenceRatio, &o.MaxFreeDifferenceRatio} {
		if c.ratios[kind] != nil {
			*target = c.ratios[kind]
		}
	}
	return o.rule(e.index.packs)
}

func (e *explainer) fullRemedy(t tally) Remedy {
	if len(t.obstacles) > 0 {
		return Remedy{Obstacles: t.obstacles}
	}
	out := Remedy{Flags: t.flags(), Cautions: t.cautions(e.index.packs)}
	e.outcome(&out, e.fullRuleWith(t.changes), e.sets)
	return out
}

func (e *explainer) stockRemedy(t tally, before [][]string) Remedy {
	if len(t.obstacles) > 0 {
		return Remedy{Obstacles: t.obstacles}
	}
	out := Remedy{Flags: t.flags(), Cautions: t.cautions(e.index.packs)}
	e.outcome(&out, newStockRule(e.index.Cloud, t.changes), before)
	return out
}

func (e *explainer) labelRemedy(r *chosenLabelsRule, left, right string) Remedy {
	keep, obstacles := r.remedy(e.index.groups[left], e.index.groups[right])
	if len(obstacles) > 0 {
		return Remedy{Obstacles: obstacles}
	}
	out := Remedy{Flags: labelFlags(keep)}
	e.outcome(&out, newChosenLabelsRule(keep), e.sets)
	return out
}

// stock compares the fleet as the autoscaler does. In label-only mode the two
// agree.
func (e *explainer) stock(report *Report) StockReport {
	if r, ok := e.index.rule.(*chosenLabelsRule); ok {
		flags := labelFlags(r.keys)
		for _, set := range e.sets {
			report.Sets = append(report.Sets, ReportSet{Groups: set})
		}
		_, byDefault := e.under(newStockRule(e.index.Cloud, changes{}), nil)
		return StockReport{Cloud: e.index.Cloud, DefaultSets: byDefault, Flags: flags, Sets: e.sets, Same: true}
	}
	index, byDefault := e.under(newStockRule(e.index.Cloud, changes{}), nil)
	var all changes
	for _, set := range e.sets {
		row := ReportSet{Groups: set}
		if len(set) > 1 {
			needed := stockSetTally(index, set)
			row.Stock = e.stockRemedy(needed, byDefault)
			if len(needed.obstacles) == 0 {
				all = all.merge(needed.changes)
			}
		}
		report.Sets = append(report.Sets, row)
	}
	out := StockReport{Cloud: e.index.Cloud, DefaultSets: byDefault, Flags: all.flags()}
	_, out.Sets = e.under(newStockRule(e.index.Cloud, all), out.Flags)
	out.Same = slices.EqualFunc(out.Sets, e.sets, slices.Equal[[]string])
	return out
}

// stockSetTally is what makes every member similar to the first.
func stockSetTally(index *Index, set []string) tally {
	var out tally
	for _, member := range set[1:] {
		one := stockTally(index, set[0], member)
		out.changes = out.merge(one.changes)
		out.obstacles = append(out.obstacles, one.obstacles...)
	}
	slices.Sort(out.obstacles)
	out.obstacles = slices.Compact(out.obstacles)
	return out
}

func stockTally(index *Index, a, b string) tally {
	return index.rule.(*stockRule).remedy(index.groups[a], index.groups[b])
}

func (e *explainer) misses(report *Report) {
	var nearest []nearPair
	nearest, report.MoreMisses = e.index.nearest(e.sets, missLimit)
	for _, pair := range nearest {
		report.Misses = append(report.Misses, e.miss(pair.left, pair.right))
	}
}

type nearPair struct{ left, right string }

// nearest finds the pairs of sets that differ in few fields, at most limit of
// them, and how many more there are.
func (x *Index) nearest(sets [][]string, limit int) (nearest []nearPair, more int) {
	var byFields [missFields + 1][]nearPair
	count := 0
	firsts := firstMembers(sets)
	for i, left := range firsts {
		for _, right := range firsts[i+1:] {
			fields := x.countFields(left, right, missFields+1)
			if fields > missFields {
				continue
			}
			count++
			if len(byFields[fields]) < limit {
				byFields[fields] = append(byFields[fields], nearPair{left, right})
			}
		}
	}
	nearest = slices.Concat(byFields[:]...)
	nearest = nearest[:min(limit, len(nearest))]
	return nearest, count - len(nearest)
}
