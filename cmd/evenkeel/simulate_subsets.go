package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
)

const noSubset = "(no subset)"

// subsetGrid shows the subsets of all WorkloadSpreads at the end.
func subsetGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	grid := printing.NewGrid("SPREAD", "SUBSET", "PODS", "MAX", "PENDING", "ON", "PASSED-OVER")
	for _, s := range r.Status.WorkloadSpreads {
		for _, subset := range s.Subsets {
			var on []string
			for _, g := range subset.Groups {
				on = append(on, fmt.Sprintf("%s %d", g.Name, g.Pods))
			}
			until := ""
			if subset.UnschedulableUntil != nil {
				until = "until +" + subset.UnschedulableUntil.Duration.String()
			}
			grid.Add(s.Name, subset.Name, subset.Running+subset.Pending, subset.MaxReplicas, subset.Pending, few(on), until)
		}
		if s.Unassigned > 0 {
			grid.Add(s.Name, noSubset, s.Unassigned, "", "", "", "")
		}
	}
	return grid
}

// deletionGrid shows which pods are deleted first. Pods next to each other in the same subset with the
// same cost share a row.
func deletionGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	grid := printing.NewGrid("SPREAD", "DELETED", "PODS", "SUBSET", "COST")
	for _, s := range r.Status.WorkloadSpreads {
		for begin := 0; begin < len(s.DeletionOrder); {
			first, end := &s.DeletionOrder[begin], begin+1
			for end < len(s.DeletionOrder) && sameRank(first, &s.DeletionOrder[end]) {
				end++
			}
			var names []string
			for _, c := range s.DeletionOrder[begin:end] {
				names = append(names, c.Pod)
			}
			position := strconv.Itoa(begin + 1)
			if end > begin+1 {
				position += "-" + strconv.Itoa(end)
			}
			grid.Add(s.Name, position, few(names), cmp.Or(first.Subset, noSubset), first.Cost)
			begin = end
		}
	}
	return grid
}

func sameRank(a, b *v1alpha1.DeletionCandidate) bool {
	return a.Subset == b.Subset && (a.Node == "") == (b.Node == "") && ptr.Equal(a.Cost, b.Cost)
}

// placeGrid shows where each pod of a WorkloadSpread is, of those that exist at the end.
func placeGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	grid := printing.NewGrid("POD", "SUBSET", "NODE", "ARRIVED")
	arrived := map[string]string{}
	for i := range r.Status.Pods {
		arrived[r.Status.Pods[i].Name] = "+" + r.Status.Pods[i].Arrived.Duration.String()
	}
	for _, s := range r.Status.WorkloadSpreads {
		namespace, _, _ := strings.Cut(s.Name, "/")
		for _, c := range slices.SortedFunc(slices.Values(s.DeletionOrder), func(a, b v1alpha1.DeletionCandidate) int {
			return natural(a.Pod, b.Pod)
		}) {
			name := namespace + "/" + c.Pod
			grid.Add(name, cmp.Or(c.Subset, noSubset), c.Node, arrived[name])
		}
	}
	return grid
}

// natural compares names so that web-9 comes before web-10.
func natural(a, b string) int {
	stem := func(name string) (string, int) {
		i := strings.LastIndexByte(name, '-') + 1
		n, err := strconv.Atoi(name[i:])
		if err != nil {
			return name, 0
		}
		return name[:i], n
	}
	stemA, numberA := stem(a)
	stemB, numberB := stem(b)
	return cmp.Or(strings.Compare(stemA, stemB), numberA-numberB, strings.Compare(a, b))
}

// spreadNotes are the conditions of WorkloadSpreads that do not hold, and what was done over time.
func spreadNotes(r *v1alpha1.ScenarioReport) (notes []string) {
	for _, s := range r.Status.WorkloadSpreads {
		for _, c := range s.Conditions {
			notes = append(notes, s.Name+": "+c+".")
		}
		var parts []string
		for _, n := range []struct {
			pods int
			what string
		}{{s.Refused, "refused"}, {s.Rescheduled, "rescheduled"}, {s.Substituted, "substituted"}, {s.Waited, "kept for a node on its way"}} {
			if n.pods > 0 {
				parts = append(parts, of(n.pods, "pod")+" "+n.what)
			}
		}
		if len(parts) > 0 {
			notes = append(notes, s.Name+": "+strings.Join(parts, ", ")+".")
		}
	}
	return notes
}
