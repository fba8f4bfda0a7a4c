package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/placement"
	"github.com/evenkeel/evenkeel/internal/subsets"
)

const hintSpreads = "kubectl get ews,deployments,replicasets,statefulsets,jobs,pods,nodes,events -o yaml prints such objects"

// subsets reads the WorkloadSpreads of -f; nil if it has none, and none is named, or if others are
// named.
func (q *question) subsets(cmd *cobra.Command, names []string) (*subsets.Dump, error) {
	named := slices.ContainsFunc(names, subsets.HasKind)
	if len(q.files) == 0 {
		if named {
			return nil, &usageError{errors.New("a WorkloadSpread is read from a file: give it with -f"), hintSpreads}
		}
		return nil, nil
	}
	if !named && slices.ContainsFunc(names, placement.HasKind) {
		return nil, nil
	}
	if err := q.check(cmd.Flags()); err != nil {
		return nil, err
	}
	limit := int64(q.limit)
	spreads, federated := subsets.Kinds(q.files, q.again, limit, v1alpha1.KindFederatedReplicaSet)
	if !named && (!spreads || federated) {
		return nil, nil // FederatedReplicaSets are explained
	}
	if useless := changed(cmd.Flags(), slices.Concat(comparedByLabels, []string{"balancing-label", "node-group-policies", "at", "zonal-shift-file", "scheduler-config-file"})...); len(useless) > 0 {
		return nil, &usageError{fmt.Errorf("%s does not go with WorkloadSpreads", strings.Join(useless, ", ")), "leave the flags out"}
	}
	dump, err := subsets.Read(q.files, q.again, cmp.Or(limit, document.DefaultMaxStream))
	if err != nil {
		return nil, err
	}
	if len(dump.Spreads) == 0 {
		return nil, &usageError{fmt.Errorf("%s has no WorkloadSpread", strings.Join(q.files, ", ")), hintSpreads}
	}
	if err := dump.Select(names...); err != nil {
		return nil, &usageError{err, "without a name, explain shows all"}
	}
	return dump, nil
}

// explainSubsets prints the explanations: tables, one object, or a list.
func explainSubsets(p *printing.Printer, dump *subsets.Dump) error {
	all, err := dump.Explain()
	if err != nil {
		return err
	}
	return printAll(p, all, func(p *printing.Printer, e *subsets.Explanation, _ bool) error { return printSubsets(p, &e.Status) })
}

func printSubsets(p *printing.Printer, s *subsets.Status) error {
	if err := p.Heading(s.Answer + "."); err != nil {
		return err
	}
	states := printing.Grid{Columns: printing.Columns("SUBSET", "PODS", "MAX", "STATE", "WHY")}
	for _, subset := range s.Subsets {
		states.Rows = append(states.Rows, []string{subset.Name, itoa(subset.Replicas), orNone(subset.MaxReplicas), subset.State, subset.Why})
	}
	pods := printing.Grid{Columns: append(printing.Columns("POD", "SUBSET", "FROM", "NODE", "COST", "WHY"), printing.Column{Name: "REVISION", Wide: true}, printing.Column{Name: "COST-IS", Wide: true})}
	passed := printing.Grid{Columns: printing.Columns("POD", "NOT-IN", "BECAUSE")}
	for _, pod := range s.Pods {
		pods.Rows = append(pods.Rows, []string{
			pod.Name, cmp.Or(pod.Subset, noSubset), pod.From, cmp.Or(pod.Node, printing.None), orNone(pod.Cost), pod.Why, cmp.Or(pod.Revision, printing.None), cmp.Or(pod.CostWhy, printing.None),
		})
		for _, earlier := range pod.Earlier {
			passed.Rows = append(passed.Rows, []string{pod.Name, earlier.Subset, earlier.Why})
		}
	}
	next := printing.Grid{Columns: printing.Columns("NEXT", "POD", "AT", "WHY")}
	for _, step := range s.Next {
		at := "now"
		if step.At != nil {
			at = step.At.UTC().Format("2006-01-02T15:04:05Z")
		}
		next.Rows = append(next.Rows, []string{step.Action, cmp.Or(step.Pod, printing.None), at, step.Why})
	}
	for _, grid := range []printing.Grid{states, pods, passed, next} {
		if err := p.Grid(grid); err != nil {
			return err
		}
	}
	for _, c := range s.Conditions {
		if c.Status == "True" {
			continue
		}
		if err := p.Note(true, fmt.Sprintf("%s is %s (%s): %s.", c.Type, c.Status, c.Reason, c.Message)); err != nil {
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
