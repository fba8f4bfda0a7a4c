package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
)

// answerParts are one document's answer as tables, with a heading if there are several.
func answerParts(_ *printing.Printer, a answered, several bool) []printing.Part {
	var parts []printing.Part
	switch d := a.Object.(type) {
	case *v1alpha1.NodeGroupSplit:
		parts = splitParts(&d.Spec, a.status.(*v1alpha1.NodeGroupSplitStatus))
	case *v1alpha1.NodeGroupSimilarity:
		parts = similarityParts(a.status.(*v1alpha1.NodeGroupSimilarityStatus))
	case *v1alpha1.ReplicaDistribution:
		parts = distributionParts(&d.Spec, a.status.(*v1alpha1.ReplicaDistributionStatus))
	case *v1alpha1.SpreadSplit:
		parts = spreadSplitParts(&d.Spec, a.status.(*v1alpha1.SpreadSplitStatus))
	case *v1alpha1.TopologySpread:
		parts = spreadParts(a.status.(*v1alpha1.TopologySpreadStatus))
	}
	if several {
		parts = slices.Insert(parts, 0, printing.Part(printing.Heading(a.Kind+"/"+cmp.Or(a.Name, printing.None))))
	}
	return parts
}

func spreadSplitParts(s *v1alpha1.SpreadSplitSpec, status *v1alpha1.SpreadSplitStatus) []printing.Part {
	g := printing.NewGrid("GROUP", "SIZE", "NEW-SIZE", "ADDED", "", "DOMAIN", "MAX")
	for i, row := range status.Groups {
		g.Add(row.Name, row.Size, row.NewSize, row.NewSize-row.Size, s.Groups[i].Domain, s.Groups[i].Max)
	}
	parts := []printing.Part{g, printing.Note(fmt.Sprintf("placed: %d of %s", status.Placed, of(status.Placed+status.Unplaced, "pod")))}
	if status.Unplaced == 0 {
		return parts
	}
	return append(parts, printing.Warning("unplaced: "+of(status.Unplaced, "pod")+"; binding: "+cmp.Or(strings.Join(status.Binding, ","), printing.None)))
}

func splitParts(s *v1alpha1.NodeGroupSplitSpec, status *v1alpha1.NodeGroupSplitStatus) []printing.Part {
	g := printing.NewGrid("GROUP", "SIZE", "NEW-SIZE", "ADDED", "REASON", "", "MIN", "MAX", "WEIGHT")
	for i, row := range status.Groups {
		in := &s.Groups[i]
		g.Add(row.Name, row.Size, row.NewSize, row.NewSize-row.Size, row.Reason, count(in.Min, "0"), in.Max, count(in.Weight, "1"))
	}
	if status.Unplaced == 0 {
		return []printing.Part{g}
	}
	return []printing.Part{g, printing.Warning("unplaced: " + of(status.Unplaced, "node") + " that no group has room for")}
}

func spreadParts(status *v1alpha1.TopologySpreadStatus) []printing.Part {
	g := printing.NewGrid("NODE", "FITS", "SCORE", "REASONS")
	fits := false
	for _, row := range status.Nodes {
		g.Add(row.Name, row.Fits, row.Score, strings.Join(row.Reasons, "; "))
		fits = fits || row.Fits
	}
	if fits {
		return []printing.Part{g}
	}
	return []printing.Part{g, printing.Warning("the pod fits on no node")}
}

func distributionParts(s *v1alpha1.ReplicaDistributionSpec, status *v1alpha1.ReplicaDistributionStatus) []printing.Part {
	g := printing.NewGrid("TARGET", "REPLICAS", "PENDING", "REASON", "", "WEIGHT", "MIN", "MAX", "CAPACITY", "CURRENT")
	for i, row := range status.Targets {
		in := &s.Targets[i]
		g.Add(row.Name, row.Replicas, row.Pending, row.Reason, count(in.Weight, "1"), count(in.Min, "0"), in.Max, in.Capacity, count(in.Current, "0"))
	}
	parts := []printing.Part{g}
	if status.Unplaced > 0 {
		parts = append(parts, printing.Warning("unplaced: "+of(status.Unplaced, "replica")+" that can run nowhere"))
	}
	if status.Excess > 0 {
		parts = append(parts, printing.Warning("excess: the minimums ask for "+of(status.Excess, "replica")+" more than the total"))
	}
	return parts
}

func similarityParts(status *v1alpha1.NodeGroupSimilarityStatus) []printing.Part {
	sets, differences := printing.NewGrid("SET", "SIZE", "GROUPS"), differenceGrid()
	for i, set := range status.Sets {
		sets.Add(i+1, len(set.Groups), strings.Join(set.Groups, ","))
	}
	for _, d := range status.Differences {
		for _, f := range d.Fields {
			differences.Add(d.Groups[0], d.Groups[1], f.Field, side(f.Left), side(f.Right), f.Ratio, f.Limit)
		}
	}
	return []printing.Part{sets, differences}
}

// side formats one value of a difference: an empty value differs from a missing one.
func side(value *string) string {
	switch {
	case value == nil:
		return printing.None
	case *value == "":
		return `""`
	}
	return *value
}

func count(n *int64, otherwise string) string {
	if n == nil {
		return otherwise
	}
	return strconv.FormatInt(*n, 10)
}

// of formats a number with its noun.
func of[T int | int32 | int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// notes are sentences that need attention.
func notes(sentences []string) (parts []printing.Part) {
	for _, sentence := range sentences {
		parts = append(parts, printing.Warning("Note: "+sentence+"."))
	}
	return parts
}
