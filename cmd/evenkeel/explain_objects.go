package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/placement"
	"github.com/evenkeel/evenkeel/internal/subsets"
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
	if err := alone(cmd, "FederatedReplicaSets"); err != nil {
		return nil, err
	}
	if err := dump.Select(names...); err != nil {
		return nil, &usageError{err, "without a name, explain shows all"}
	}
	return dump, nil
}

func replicaParts(p *printing.Printer, e *placement.Explanation, _ bool) []printing.Part {
	s := &e.Status
	clusters := printing.NewGrid("CLUSTER", "ENTRY", "TIER", "WEIGHT", "MIN", "MAX", "DESIRED", "WRITTEN", "RUNNING", "WAITING", "REASON",
		"", "CAPACITY", "READY", "UNSCHEDULABLE", "UNCREATED")
	why := printing.NewGrid("CLUSTER", "WHY")
	for _, c := range s.Clusters {
		clusters.Add(c.Name, c.Entry, c.Tier, c.Weight, c.MinReplicas, c.MaxReplicas, c.Desired, c.Written, c.Running, c.Pending, c.Reason,
			c.Capacity, c.Ready, c.Unschedulable, c.Uncreated)
		why.Add(c.Name, c.Message)
		if c.Next != "" {
			why.Add(c.Name, "next: "+c.Next)
		}
	}
	parts := []printing.Part{printing.Heading(s.Answer + "."), clusters, why}
	for i := range s.Steps {
		if step := &s.Steps[i]; step.Name != "" && !p.Wide() && (step.Replicas == 0 || len(step.Parts) == 1 && step.Parts[0].Able == step.Replicas) {
			continue // it shares nothing
		}
		parts = append(parts, stepParts(&s.Steps[i])...)
	}
	next := printing.GridOf(printing.Columns("WRITTEN-NEXT", "CHANGE", "FROM", "TO", "WHY"), s.Writes, func(w *placement.Write) []any {
		return []any{w.Cluster, w.Change, w.From, w.To, w.Why}
	})
	return slices.Concat(parts, []printing.Part{next}, conditionParts(s.Conditions), notes(s.Notes))
}

// stepParts are how replicas are shared. A column says what one rule more makes of the numbers
// before it; those of rules that change nothing are left out, unless wide.
func stepParts(s *placement.Step) []printing.Part {
	heading := of(s.Replicas, "replica") + " by weight"
	if s.InOrder() {
		heading = of(s.Replicas, "replica") + " in the order of the tiers"
	}
	if s.Name != "" {
		heading = s.Name + ": " + heading
	}
	without := func(counts func(placement.Part) bool) bool { return !slices.ContainsFunc(s.Parts, counts) }
	noMin, noMax := without(func(p placement.Part) bool { return p.Min > 0 }), without(func(p placement.Part) bool { return p.Max != nil })
	moves := without(func(p placement.Part) bool { return p.Staying != p.WithinBounds })
	noCapacity := without(func(p placement.Part) bool { return p.Capacity != nil })
	g := printing.GridOf([]printing.Column{
		{Name: "SHARED-BY"}, {Name: "WEIGHT", Wide: s.InOrder()}, {Name: "EXACT", Wide: s.InOrder()}, {Name: "ROUNDED"},
		{Name: "MIN", Wide: noMin}, {Name: "MAX", Wide: noMax}, {Name: "WITHIN-BOUNDS", Wide: noMin && noMax}, {Name: "STAYING", Wide: moves},
		{Name: "CAPACITY", Wide: noCapacity}, {Name: "ABLE", Wide: noCapacity}, {Name: "REASON"},
	}, s.Parts, func(p *placement.Part) []any {
		return []any{p.Name, p.Weight, p.Exact, p.ByWeight, p.Min, p.Max, p.WithinBounds, p.Staying, p.Capacity, p.Able, p.Reason}
	})
	if s.InOrder() {
		g.Columns[3].Name = "IN-ORDER"
	}
	return []printing.Part{printing.Heading(heading), g}
}

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
	if err := alone(cmd, "WorkloadSpreads"); err != nil {
		return nil, err
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

// alone refuses flags of explain that are about node groups, where objects of other kinds are explained.
func alone(cmd *cobra.Command, kinds string) error {
	useless := changed(cmd.Flags(), slices.Concat(comparedByLabels, []string{"balancing-label", "node-group-policies", "at", "zonal-shift-file", "scheduler-config-file"})...)
	if len(useless) > 0 {
		return &usageError{fmt.Errorf("%s does not go with %s", strings.Join(useless, ", "), kinds), "leave the flags out"}
	}
	return nil
}

func subsetParts(_ *printing.Printer, e *subsets.Explanation, _ bool) []printing.Part {
	s := &e.Status
	states := printing.NewGrid("SUBSET", "PODS", "MAX", "STATE", "WHY")
	for _, subset := range s.Subsets {
		states.Add(subset.Name, subset.Replicas, subset.MaxReplicas, subset.State, subset.Why)
	}
	pods := printing.NewGrid("POD", "SUBSET", "FROM", "NODE", "COST", "WHY", "", "REVISION", "COST-IS")
	passed := printing.NewGrid("POD", "NOT-IN", "BECAUSE")
	for _, pod := range s.Pods {
		pods.Add(pod.Name, cmp.Or(pod.Subset, noSubset), pod.From, pod.Node, pod.Cost, pod.Why, pod.Revision, pod.CostWhy)
		for _, earlier := range pod.Earlier {
			passed.Add(pod.Name, earlier.Subset, earlier.Why)
		}
	}
	next := printing.NewGrid("NEXT", "POD", "AT", "WHY")
	for _, step := range s.Next {
		at := "now"
		if step.At != nil {
			at = step.At.UTC().Format("2006-01-02T15:04:05Z")
		}
		next.Add(step.Action, step.Pod, at, step.Why)
	}
	return slices.Concat([]printing.Part{printing.Heading(s.Answer + "."), states, pods, passed, next}, conditionParts(s.Conditions), notes(s.Notes))
}

// conditionParts are the conditions that do not hold.
func conditionParts(conditions []metav1.Condition) (parts []printing.Part) {
	for _, c := range conditions {
		text := fmt.Sprintf("%s is %s (%s): %s.", c.Type, c.Status, c.Reason, c.Message)
		switch {
		case c.Status == metav1.ConditionTrue:
		case c.Type == v1alpha1.ConditionSettled:
			parts = append(parts, printing.Note(text))
		default:
			parts = append(parts, printing.Warning(text))
		}
	}
	return parts
}
