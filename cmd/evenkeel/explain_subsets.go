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
