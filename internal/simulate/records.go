package simulate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// groupRecords say of each group why it has its size.
type groupRecords map[string]*groupRecord

type groupRecord struct {
	before int // its size at the start
	// outcome is the latest of the most informative outcomes so far.
	outcome autoscaler.GroupOutcome
	// split is the scale-up that the outcome is from, if it balanced several groups.
	split *split
	// template is the source of the template when the group last grew or, if it has not, in the
	// latest round.
	template string
	grew     bool
}

// split lists groups that were balanced together.
type split struct {
	chosen  string
	members []string // by name
}

func (all groupRecords) add(r *autoscaler.ScaleUp) {
	levelled := &split{r.Decision.Chosen, r.Decision.Members}
	for _, g := range r.Decision.Groups {
		by := levelled
		if len(levelled.members) < 2 || !slices.Contains(levelled.members, g.Group) {
			by = nil
		}
		all[g.Group].explain(g, by)
	}
	for _, g := range r.Survey.Groups {
		grown, tried := 0, false
		for _, a := range r.Attempts {
			if a.Group == g.ID {
				grown, tried = grown+a.Grew, true
			}
		}
		record := all[g.ID]
		if record.grew = record.grew || grown > 0; tried || !record.grew {
			record.template = g.TemplateFrom
		}
	}
}

// telling ranks outcomes by how much they explain the size of a group.
var telling = map[autoscaler.Outcome]int{
	autoscaler.GroupIdle:      1,
	autoscaler.GroupTakesNone: 2,
	autoscaler.GroupSkipped:   3,
	autoscaler.GroupNotChosen: 3,
	autoscaler.GroupPartner:   4,
	autoscaler.GroupRefused:   5,
	autoscaler.GroupGrows:     5,
	groupShrinks:              5,
}

func (r *groupRecord) explain(g autoscaler.GroupOutcome, by *split) {
	if telling[g.Outcome] >= telling[r.outcome.Outcome] {
		r.outcome, r.split = g, by
	}
}

// sets are the sets of similar groups by the templates of the last round, and the number of every
// group's set, from 1. Similarity is not transitive, so groups that a scale-up balanced with each
// other are one set, together with all that are similar to its chosen group; only the rest is
// sorted into sets by name.
func (s *simulation) sets() (sets [][]string, numberOf map[string]int, err error) {
	index, err := nodegroupset.NewIndex(s.setup.Options.Similarity)
	if err != nil {
		return nil, nil, err
	}
	observed := s.surveyed()
	for _, g := range s.setup.Cloud.Groups {
		template := g.Template
		if seen := observed[g.ID]; seen != nil && seen.Template != nil {
			template = *seen.Template
		}
		if err := index.Set(g.ID, template); err != nil {
			return nil, nil, fmt.Errorf("node group %s: %w", g.ID, err)
		}
	}
	sets = s.groups.levelled(index)
	for _, set := range sets {
		for _, name := range set {
			index.Delete(name)
		}
	}
	sets = append(sets, index.Sets()...)
	slices.SortFunc(sets, slices.Compare)
	numberOf = map[string]int{}
	for i, set := range sets {
		for _, name := range set {
			numberOf[name] = i + 1
		}
	}
	return sets, numberOf, nil
}

// levelled are the sets of the scale-ups in the reasons of groups.
func (all groupRecords) levelled(index *nodegroupset.Index) [][]string {
	var found [][]string
	for _, name := range index.Names() {
		split := all[name].split
		if split == nil || slices.ContainsFunc(found, func(set []string) bool { return sets.New(set...).HasAll(split.members...) }) {
			continue
		}
		joined := slices.Clone(split.members)
		for _, other := range index.Similar(split.chosen) {
			if by := all[other]; by.split == nil && !slices.Contains(split.members, by.outcome.DiffersFrom) {
				joined = append(joined, other)
			}
		}
		found = slices.DeleteFunc(found, func(set []string) bool {
			shared := sets.New(set...).HasAny(joined...)
			if shared {
				joined = append(joined, set...)
			}
			return shared
		})
		slices.Sort(joined)
		found = append(found, slices.Compact(joined))
	}
	return found
}

func differences(from []nodegroupset.Difference) []v1alpha1.FieldDifference {
	var out []v1alpha1.FieldDifference
	for _, d := range from {
		out = append(out, v1alpha1.FieldDifference(d))
	}
	return out
}
