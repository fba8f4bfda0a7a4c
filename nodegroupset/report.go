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
	e := newExplainer(x)
	report := Report{Sets: []ReportSet{}, Misses: []Miss{}, Candidates: []Candidate{}}
	report.Stock = e.stockReport(&report)
	for i := range report.Sets {
		if set := x.groups[report.Sets[i].Groups[0]].set; set > 0 {
			terms := newTerms(&x.options.Policies[set-1])
			report.Sets[i].Policy = fmt.Sprintf("%s, %s", terms.Set, terms)
		}
	}
	e.misses(&report)
	if x.rule.kind == fullRule {
		e.candidates(&report)
	}
	return report
}

// stockReport compares the fleet as the autoscaler does. In label-only mode the two
// agree.
func (e *explainer) stockReport(report *Report) StockReport {
	stock := e.stock()
	if r := e.index.rule; r.kind == chosenLabelsRule {
		for _, set := range e.sets {
			report.Sets = append(report.Sets, ReportSet{Groups: set})
		}
		return StockReport{Cloud: e.index.Cloud, DefaultSets: stock.sets, Flags: labelFlags(r.keys), Sets: e.sets, Same: true}
	}
	var all changes
	for _, set := range e.sets {
		row := ReportSet{Groups: set}
		if len(set) > 1 {
			needed := stock.index.setRemedy(set)
			row.Stock = e.stockRemedy(needed)
			if len(needed.obstacles) == 0 {
				all = all.merge(needed.changes)
			}
		}
		report.Sets = append(report.Sets, row)
	}
	out := StockReport{Cloud: e.index.Cloud, DefaultSets: stock.sets, Flags: all.flags()}
	out.Sets = e.under(newStockRule(e.index.Cloud, all), out.Flags).sets
	out.Same = slices.EqualFunc(out.Sets, e.sets, slices.Equal[[]string])
	return out
}

// setRemedy is what makes every member of a set similar to the first.
func (x *Index) setRemedy(set []string) tally {
	var out tally
	for _, member := range set[1:] {
		one := x.remedy(set[0], member)
		out.changes = out.merge(one.changes)
		out.obstacles = append(out.obstacles, one.obstacles...)
	}
	slices.Sort(out.obstacles)
	out.obstacles = slices.Compact(out.obstacles)
	return out
}

func (x *Index) remedy(a, b string) tally { return x.rule.remedy(x.groups[a], x.groups[b]) }

// misses finds the pairs of sets that differ in few fields, and how many more there are than the report
// shows.
func (e *explainer) misses(report *Report) {
	var byFields [missFields + 1][]Pair
	e.index.eachPair(e.sets, missFields, func(left, right string, fields int) {
		report.MoreMisses++
		if len(byFields[fields]) < missLimit {
			byFields[fields] = append(byFields[fields], Pair{Left: left, Right: right})
		}
	})
	nearest := slices.Concat(byFields[:]...)
	for _, pair := range nearest[:min(missLimit, len(nearest))] {
		report.Misses = append(report.Misses, e.miss(pair.Left, pair.Right))
		report.MoreMisses--
	}
}
