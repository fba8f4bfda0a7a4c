package simulate

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// sets are the sets of similar groups by the templates of the last round, and the number of every
// group's set, from 1. Similarity is not transitive, so groups that a scale-up balanced with each
// other are one set, together with all that are similar to its chosen group; only the rest is
// sorted into sets by name.
func (s *simulation) sets(observed map[string]*autoscaler.Group) (sets [][]string, numberOf map[string]int, err error) {
	index, err := nodegroupset.NewIndex(s.setup.Options.Similarity)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range s.setup.Cloud.Groups {
		template := g.Template
		if seen := observed[g.ID]; seen != nil && seen.Template != nil {
			template = *seen.Template
		}
		if err := index.Set(g.ID, template); err != nil {
			return nil, nil, fmt.Errorf("node group %s: %w", g.ID, err)
		}
	}
	sets = s.ledger.levelled(index)
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
func (l *ledger) levelled(index *nodegroupset.Index) [][]string {
	var sets [][]string
	names := index.Names()
	for _, name := range names {
		split := l.groups[name].split
		if split == nil || slices.ContainsFunc(sets, func(set []string) bool { return subset(split.members, set) }) {
			continue
		}
		joined := slices.Clone(split.members)
		for _, other := range index.Similar(split.chosen) {
			if by := l.groups[other]; by.split == nil && !slices.Contains(split.members, by.outcome.DiffersFrom) {
				joined = append(joined, other)
			}
		}
		sets = slices.DeleteFunc(sets, func(set []string) bool {
			shared := slices.ContainsFunc(set, func(name string) bool { return slices.Contains(joined, name) })
			if shared {
				joined = append(joined, set...)
			}
			return shared
		})
		slices.Sort(joined)
		sets = append(sets, slices.Compact(joined))
	}
	return sets
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(name string) bool { return !slices.Contains(b, name) })
}

// differences converts the differences of package nodegroupset to those of a document.
func differences(from []nodegroupset.Difference) []v1alpha1.FieldDifference {
	var out []v1alpha1.FieldDifference
	for _, d := range from {
		row := v1alpha1.FieldDifference{Field: d.Field, Ratio: d.Ratio, Limit: d.Limit}
		if d.HasLeft {
			row.Left = &d.Left
		}
		if d.HasRight {
			row.Right = &d.Right
		}
		out = append(out, row)
	}
	return out
}
