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
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/placement"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/internal/subsets"
)

// objects explains the WorkloadSpreads or FederatedReplicaSets of -f, if it has some or one is named.
func (q *question) objects(cmd *cobra.Command, names []string, printer *printing.Printer) (explained bool, err error) {
	spreads, sets := slices.ContainsFunc(names, subsets.Naming.HasKind), slices.ContainsFunc(names, placement.Naming.HasKind)
	switch {
	case len(q.files) > 0:
		err = q.check(cmd.Flags())
	case spreads:
		err = lacking(subsets.Naming, nil)
	case sets:
		err = lacking(placement.Naming, nil)
	}
	if err != nil || len(q.files) == 0 {
		return false, err
	}
	if q.contents, err = q.read(cmd); err != nil {
		return false, err
	}
	if !spreads && !sets {
		spreads = q.contents.Has(v1alpha1.KindWorkloadSpread) && !q.contents.Has(v1alpha1.KindFederatedReplicaSet)
	}
	if spreads {
		explained, err = true, q.subsets(cmd, names, printer)
	} else {
		explained, err = q.replicas(cmd, names, sets, printer)
	}
	var unknown *document.UnknownName
	if errors.As(err, &unknown) {
		err = &usageError{err, "without a name, explain shows all"}
	}
	return explained, err
}

// read reads the files of -f. By default a document is smaller than a list may be, which is read item by item.
func (q *question) read(cmd *cobra.Command) (*document.Contents, error) {
	o := document.Options{Kinds: objectKinds, MaxSize: int64(q.limit), MaxDocument: min(int64(q.limit), document.DefaultMaxSize)}
	if cmd.Flags().Changed("max-file-size") {
		o.MaxDocument = int64(q.limit)
	}
	return document.Scan(q.files, inputsOf(cmd).open, o)
}

// objectKinds are the kinds of documents that explain reads.
var objectKinds = document.Kinds{v1alpha1.Scenario{}, v1alpha1.FederatedReplicaSet{}, v1alpha1.MemberCluster{}, v1alpha1.WorkloadSpread{}}

// lacking is the error where objects are asked for and there is none.
func lacking(n document.Naming, files []string) error {
	err := fmt.Errorf("a %s is read from a file: give it with -f", n.Kind)
	if len(files) > 0 {
		err = fmt.Errorf("%s has no %s", strings.Join(files, ", "), n.Kind)
	}
	return &usageError{err, n.Get + " prints such objects"}
}

// subsets explains WorkloadSpreads.
func (q *question) subsets(cmd *cobra.Command, names []string, printer *printing.Printer) error {
	if err := alone(cmd, subsets.Naming); err != nil {
		return err
	}
	dump, err := subsets.Of(q.contents)
	if err == nil && len(dump.Spreads) == 0 {
		err = lacking(subsets.Naming, q.files)
	}
	if err != nil {
		return err
	}
	all, err := dump.Explain(names...)
	if err != nil {
		return err
	}
	return printing.All(printer, all, nil, subsetParts)
}

// replicas explains FederatedReplicaSets, if there are some or one is named.
func (q *question) replicas(cmd *cobra.Command, names []string, named bool, printer *printing.Printer) (explained bool, err error) {
	dump, err := placement.Of(q.contents)
	switch {
	case err != nil:
		return false, err
	case len(dump.Sets) > 0:
		err = alone(cmd, placement.Naming)
	case named || len(dump.Members) > 0:
		err = lacking(placement.Naming, q.files)
	case len(q.files) > 1:
		err = &usageError{fmt.Errorf("%d files are given, and none has a FederatedReplicaSet", len(q.files)), "a scenario is in one file"}
	}
	if err != nil || len(dump.Sets) == 0 {
		return false, err
	}
	all, err := dump.Explain(names...)
	if err != nil {
		return false, err
	}
	return true, printing.All(printer, all, nil, replicaParts)
}

// alone refuses flags of explain that are about node groups, where objects of another kind are explained.
func alone(cmd *cobra.Command, n document.Naming) error {
	useless := changed(cmd.Flags(), slices.Concat(comparedByLabels, []string{"balancing-label", "node-group-policies", "at",
		"zonal-shift-file", schedulerConfigFlag})...)
	return misuse(len(useless) > 0, "leave the flags out", "%s cannot be combined with %ss", strings.Join(useless, ", "), n.Kind)
}

func replicaParts(p *printing.Printer, e *placement.Explanation) []printing.Part {
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
		if step := &s.Steps[i]; step.Name != "" && !p.Wide() &&
			(step.Replicas == 0 || len(step.Parts) == 1 && step.Parts[0].Able == step.Replicas) {
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
func stepParts(s *federation.Step) []printing.Part {
	heading, inOrder := spelling.Count(s.Replicas, "replica")+" by weight", s.Policy == apportion.Priority
	if inOrder {
		heading = spelling.Count(s.Replicas, "replica") + " in the order of the tiers"
	}
	if s.Name != "" {
		heading = s.Name + ": " + heading
	}
	without := func(counts func(federation.Part) bool) bool { return !slices.ContainsFunc(s.Parts, counts) }
	noMin, noMax := without(func(p federation.Part) bool { return p.Min > 0 }), without(func(p federation.Part) bool { return p.Max != nil })
	moves := without(func(p federation.Part) bool { return p.Staying != p.WithinBounds })
	noCapacity := without(func(p federation.Part) bool { return p.Capacity != nil })
	g := printing.GridOf([]printing.Column{
		{Name: "SHARED-BY"}, {Name: "WEIGHT", Wide: inOrder}, {Name: "EXACT", Wide: inOrder}, {Name: "ROUNDED"},
		{Name: "MIN", Wide: noMin}, {Name: "MAX", Wide: noMax}, {Name: "WITHIN-BOUNDS", Wide: noMin && noMax}, {Name: "STAYING", Wide: moves},
		{Name: "CAPACITY", Wide: noCapacity}, {Name: "ABLE", Wide: noCapacity}, {Name: "REASON"},
	}, s.Parts, func(p *federation.Part) []any {
		return []any{p.Name, p.Weight, p.Exact, p.ByWeight, p.Min, p.Max, p.WithinBounds, p.Staying, p.Capacity, p.Able, p.Reason}
	})
	if inOrder {
		g.Columns[3].Name = "IN-ORDER"
	}
	return []printing.Part{printing.Heading(heading), g}
}

func subsetParts(_ *printing.Printer, e *subsets.Explanation) []printing.Part {
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
	return slices.Concat([]printing.Part{printing.Heading(s.Answer + "."), states, pods, passed, next}, conditionParts(s.Conditions),
		notes(s.Notes))
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
