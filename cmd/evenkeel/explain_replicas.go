package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/placement"
)

const hintDump = "kubectl get frs,memberclusters -A -o yaml prints such objects"

// replicas reads the FederatedReplicaSets of -f; nil if it has none, and none is named.
func (q *question) replicas(cmd *cobra.Command, names []string) (*placement.Dump, error) {
	named := slices.ContainsFunc(names, placement.HasKind)
	if len(q.files) == 0 {
		if named {
			return nil, &usageError{errors.New("a FederatedReplicaSet is read from a file: give it with -f"), hintDump}
		}
		return nil, nil
	}
	if err := q.check(cmd.Flags()); err != nil {
		return nil, err
	}
	limit := min(int64(q.limit), document.DefaultMaxSize)
	if cmd.Flags().Changed("max-file-size") {
		limit = int64(q.limit)
	}
	dump, err := placement.Read(q.files, q.again, limit)
	switch {
	case err != nil:
		return nil, err
	case len(dump.Sets) == 0 && (named || len(dump.Members) > 0):
		return nil, &usageError{fmt.Errorf("%s has no FederatedReplicaSet", strings.Join(q.files, ", ")), hintDump}
	case len(dump.Sets) == 0 && len(q.files) > 1:
		return nil, &usageError{fmt.Errorf("%d files are given, and none has a FederatedReplicaSet", len(q.files)), "a scenario is in one file"}
	case len(dump.Sets) == 0:
		return nil, nil
	}
	if useless := changed(cmd.Flags(), slices.Concat(comparedByLabels, []string{"balancing-label", "node-group-policies", "at", "zonal-shift-file", "scheduler-config-file"})...); len(useless) > 0 {
		return nil, &usageError{fmt.Errorf("%s does not go with FederatedReplicaSets", strings.Join(useless, ", ")), "leave the flags out"}
	}
	if err := dump.Select(names...); err != nil {
		return nil, &usageError{err, "without a name, explain shows all"}
	}
	return dump, nil
}

// explainReplicas prints the explanations: tables, one object, or a list.
func explainReplicas(p *printing.Printer, dump *placement.Dump) error {
	all, err := dump.Explain()
	if err != nil {
		return err
	}
	if p.Tables() {
		for _, e := range all {
			if err := printReplicas(p, &e.Status); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 1 {
		return p.Object(all[0])
	}
	return p.Object(struct {
		APIVersion string                   `json:"apiVersion"`
		Kind       string                   `json:"kind"`
		Items      []*placement.Explanation `json:"items"`
	}{"v1", "List", all})
}

func printReplicas(p *printing.Printer, s *placement.Status) error {
	if err := p.Heading(s.Answer + "."); err != nil {
		return err
	}
	clusters := printing.Grid{Columns: append(printing.Columns("CLUSTER", "ENTRY", "TIER", "WEIGHT", "MIN", "MAX", "DESIRED", "WRITTEN", "RUNNING", "WAITING", "REASON"),
		printing.Column{Name: "CAPACITY", Wide: true}, printing.Column{Name: "READY", Wide: true}, printing.Column{Name: "UNSCHEDULABLE", Wide: true}, printing.Column{Name: "UNCREATED", Wide: true})}
	why := printing.Grid{Columns: printing.Columns("CLUSTER", "WHY")}
	for _, c := range s.Clusters {
		entry := c.Entry
		if entry == "" {
			entry = printing.None
		}
		clusters.Rows = append(clusters.Rows, []string{
			c.Name, entry, itoa(c.Tier), itoa(c.Weight), itoa(c.MinReplicas), orNone(c.MaxReplicas), itoa(c.Desired), itoa(c.Written), itoa(c.Running),
			itoa(c.Pending), c.Reason, orNone(c.Capacity), itoa(c.Ready), itoa(c.Unschedulable), itoa(c.Uncreated),
		})
		why.Rows = append(why.Rows, []string{c.Name, c.Message})
		if c.Next != "" {
			why.Rows = append(why.Rows, []string{c.Name, "next: " + c.Next})
		}
	}
	if err := p.Grid(clusters); err != nil {
		return err
	}
	if err := p.Grid(why); err != nil {
		return err
	}
	for i := range s.Steps {
		if step := &s.Steps[i]; step.Name != "" && !p.Wide() && (step.Replicas == 0 || len(step.Parts) == 1 && step.Parts[0].Able == step.Replicas) {
			continue // it shares nothing
		}
		if err := printStep(p, &s.Steps[i]); err != nil {
			return err
		}
	}
	return printNext(p, s)
}

// printStep prints how replicas are shared. A column says what one rule more makes of the numbers
// before it; those of rules that change nothing are left out, unless wide.
func printStep(p *printing.Printer, s *placement.Step) error {
	heading := fmt.Sprintf("%s by weight", of(s.Replicas, "replica"))
	if s.InOrder() {
		heading = fmt.Sprintf("%s in the order of the tiers", of(s.Replicas, "replica"))
	}
	if s.Name != "" {
		heading = s.Name + ": " + heading
	}
	if err := p.Heading(heading); err != nil {
		return err
	}
	without := func(counts func(placement.Part) bool) bool { return !slices.ContainsFunc(s.Parts, counts) }
	noMin, noMax := without(func(p placement.Part) bool { return p.Min > 0 }), without(func(p placement.Part) bool { return p.Max != nil })
	moves := without(func(p placement.Part) bool { return p.Staying != p.WithinBounds })
	noCapacity := without(func(p placement.Part) bool { return p.Capacity != nil })
	g := printing.Grid{Columns: []printing.Column{
		{Name: "SHARED-BY"}, {Name: "WEIGHT", Wide: s.InOrder()}, {Name: "EXACT", Wide: s.InOrder()}, {Name: "ROUNDED"},
		{Name: "MIN", Wide: noMin}, {Name: "MAX", Wide: noMax}, {Name: "WITHIN-BOUNDS", Wide: noMin && noMax}, {Name: "STAYING", Wide: moves},
		{Name: "CAPACITY", Wide: noCapacity}, {Name: "ABLE", Wide: noCapacity}, {Name: "REASON"},
	}}
	if s.InOrder() {
		g.Columns[3].Name = "IN-ORDER"
	}
	for _, part := range s.Parts {
		exact := part.Exact
		if exact == "" {
			exact = printing.None
		}
		g.Rows = append(g.Rows, []string{
			part.Name, itoa(part.Weight), exact, itoa(part.ByWeight), itoa(part.Min), orNone(part.Max), itoa(part.WithinBounds), itoa(part.Staying),
			orNone(part.Capacity), itoa(part.Able), part.Reason,
		})
	}
	return p.Grid(g)
}

// printNext prints what will be written, the conditions that do not hold, and the notes.
func printNext(p *printing.Printer, s *placement.Status) error {
	g := printing.Grid{Columns: printing.Columns("WRITTEN-NEXT", "CHANGE", "FROM", "TO", "WHY")}
	for _, w := range s.Writes {
		g.Rows = append(g.Rows, []string{w.Cluster, w.Change, itoa(w.From), itoa(w.To), w.Why})
	}
	if err := p.Grid(g); err != nil {
		return err
	}
	for _, c := range s.Conditions {
		if c.Status == "True" {
			continue
		}
		if err := p.Note(c.Type != v1alpha1.ConditionSettled, fmt.Sprintf("%s is %s (%s): %s.", c.Type, c.Status, c.Reason, c.Message)); err != nil {
			return err
		}
	}
	for _, note := range s.Notes {
		if err := p.Note(true, "Note: "+note+"."); err != nil {
			return err
		}
	}
	return nil
}

// orNone is a number, or that there is none.
func orNone[T int32 | int64](n *T) string {
	if n == nil {
		return printing.None
	}
	return itoa(*n)
}
