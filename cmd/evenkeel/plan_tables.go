package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
)

// printAnswer prints one document's answer as tables, with a heading if there are several.
func printAnswer(p *printing.Printer, a answered, heading bool) error {
	if heading {
		if err := p.Heading(a.Kind + "/" + cmp.Or(a.Name, printing.None)); err != nil {
			return err
		}
	}
	switch d := a.Object.(type) {
	case *v1alpha1.NodeGroupSplit:
		return printSplit(p, &d.Spec, a.status.(*v1alpha1.NodeGroupSplitStatus))
	case *v1alpha1.NodeGroupSimilarity:
		return printSimilarity(p, a.status.(*v1alpha1.NodeGroupSimilarityStatus))
	case *v1alpha1.ReplicaDistribution:
		return printDistribution(p, &d.Spec, a.status.(*v1alpha1.ReplicaDistributionStatus))
	case *v1alpha1.SpreadSplit:
		return printSpreadSplit(p, &d.Spec, a.status.(*v1alpha1.SpreadSplitStatus))
	case *v1alpha1.TopologySpread:
		return printSpread(p, a.status.(*v1alpha1.TopologySpreadStatus))
	}
	return fmt.Errorf("%s has no table", a.Kind)
}

func printSpreadSplit(p *printing.Printer, s *v1alpha1.SpreadSplitSpec, status *v1alpha1.SpreadSplitStatus) error {
	g := printing.Grid{Columns: printing.Columns("GROUP", "SIZE", "NEW-SIZE", "ADDED", "", "DOMAIN", "MAX")}
	for i, row := range status.Groups {
		in := &s.Groups[i]
		g.Rows = append(g.Rows, []string{
			row.Name, itoa(row.Size), itoa(row.NewSize), itoa(row.NewSize - row.Size), in.Domain, count(in.Max, printing.None),
		})
	}
	if err := p.Grid(g); err != nil {
		return err
	}
	if err := p.Note(false, fmt.Sprintf("placed: %d of %s", status.Placed, of(status.Placed+status.Unplaced, "pod"))); err != nil || status.Unplaced == 0 {
		return err
	}
	return p.Note(true, "unplaced: "+of(status.Unplaced, "pod")+"; binding: "+cmp.Or(strings.Join(status.Binding, ","), printing.None))
}

func printSplit(p *printing.Printer, s *v1alpha1.NodeGroupSplitSpec, status *v1alpha1.NodeGroupSplitStatus) error {
	g := printing.Grid{Columns: printing.Columns("GROUP", "SIZE", "NEW-SIZE", "ADDED", "REASON", "", "MIN", "MAX", "WEIGHT")}
	for i, row := range status.Groups {
		in := &s.Groups[i]
		g.Rows = append(g.Rows, []string{
			row.Name, itoa(row.Size), itoa(row.NewSize), itoa(row.NewSize - row.Size), string(row.Reason),
			count(in.Min, "0"), count(in.Max, printing.None), count(in.Weight, "1"),
		})
	}
	if err := p.Grid(g); err != nil || status.Unplaced == 0 {
		return err
	}
	return p.Note(true, "unplaced: "+of(status.Unplaced, "node")+" that no group has room for")
}

func printSpread(p *printing.Printer, status *v1alpha1.TopologySpreadStatus) error {
	g := printing.Grid{Columns: printing.Columns("NODE", "FITS", "SCORE", "REASONS")}
	fits := false
	for _, row := range status.Nodes {
		g.Rows = append(g.Rows, []string{row.Name, strconv.FormatBool(row.Fits), count(row.Score, ""), strings.Join(row.Reasons, "; ")})
		fits = fits || row.Fits
	}
	if err := p.Grid(g); err != nil || fits {
		return err
	}
	return p.Note(true, "the pod fits on no node")
}

func printDistribution(p *printing.Printer, s *v1alpha1.ReplicaDistributionSpec, status *v1alpha1.ReplicaDistributionStatus) error {
	g := printing.Grid{Columns: printing.Columns("TARGET", "REPLICAS", "PENDING", "REASON", "", "WEIGHT", "MIN", "MAX", "CAPACITY", "CURRENT")}
	for i, row := range status.Targets {
		in := &s.Targets[i]
		g.Rows = append(g.Rows, []string{
			row.Name, itoa(row.Replicas), itoa(row.Pending), string(row.Reason),
			count(in.Weight, "1"), count(in.Min, "0"), count(in.Max, printing.None), count(in.Capacity, printing.None), count(in.Current, "0"),
		})
	}
	if err := p.Grid(g); err != nil {
		return err
	}
	if status.Unplaced > 0 {
		if err := p.Note(true, "unplaced: "+of(status.Unplaced, "replica")+" that can run nowhere"); err != nil {
			return err
		}
	}
	if status.Excess > 0 {
		return p.Note(true, "excess: the minimums ask for "+of(status.Excess, "replica")+" more than the total")
	}
	return nil
}

func printSimilarity(p *printing.Printer, status *v1alpha1.NodeGroupSimilarityStatus) error {
	sets := printing.Grid{Columns: printing.Columns("SET", "SIZE", "GROUPS")}
	for i, set := range status.Sets {
		sets.Rows = append(sets.Rows, []string{strconv.Itoa(i + 1), strconv.Itoa(len(set.Groups)), strings.Join(set.Groups, ",")})
	}
	if err := p.Grid(sets); err != nil {
		return err
	}
	differences := printing.Grid{Columns: printing.Columns("LEFT", "RIGHT", "FIELD", "LEFT-VALUE", "RIGHT-VALUE", "RATIO", "LIMIT")}
	for _, d := range status.Differences {
		for _, f := range d.Fields {
			differences.Rows = append(differences.Rows, []string{
				d.Groups[0], d.Groups[1], f.Field, side(f.Left), side(f.Right), f.Ratio, f.Limit,
			})
		}
	}
	return p.Grid(differences)
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
	return itoa(*n)
}

func itoa[T int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// of formats a number with its noun.
func of(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return itoa(n) + " " + noun + "s"
}
