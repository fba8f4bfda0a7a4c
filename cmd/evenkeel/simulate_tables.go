package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// reportParts are the tables of one scenario.
func reportParts(p *printing.Printer, r *v1alpha1.ScenarioReport) []printing.Part {
	status := &r.Status
	parts := []printing.Part{timelineGrid(status.Timeline), groupGrid(r), subsetGrid(r)}
	if p.Wide() {
		parts = append(parts, placeGrid(r))
	}
	parts = append(parts, deletionGrid(r),
		printing.GridOf(printing.Columns("PENDING", "PODS", "REASON"), status.PendingPods, func(row *v1alpha1.PendingReport) []any {
			return []any{row.Example, row.Pods, row.Reason}
		}),
		printing.GridOf(printing.Columns("WAITING", "GROUP", "NODES", "REASON"), status.WaitingNodes, func(row *v1alpha1.WaitingReport) []any {
			return []any{row.Example, row.Group, row.Nodes, row.Reason}
		}),
		printing.GridOf(printing.Columns("EXPECTED", "WANT", "GOT", "RESULT"), status.Expectations, func(e *v1alpha1.Expectation) []any {
			return []any{e.Check, e.Want, e.Got, map[bool]string{true: "ok", false: "FAILED"}[e.OK]}
		}))
	if story := status.Story; story != nil {
		parts = append(parts, printing.Heading(story.Name), timelineGrid(story.Rows))
	}
	for _, note := range spreadNotes(r) {
		parts = append(parts, printing.Note(note))
	}
	parts = append(append(parts, notes(status.Notes)...), printing.Note(overTime(status)))
	if status.Holds {
		return append(parts, printing.Note(summary(r)))
	}
	return append(parts, printing.Warning(summary(r)))
}

// overTime summarizes what the tables do not show: how long pods waited, how much the sizes of
// similar groups differed, and what the machines cost.
func overTime(s *v1alpha1.ScenarioReportStatus) string {
	most := s.PendingTime.Longest.Duration.String() + " at most"
	if s.Pending > 0 { // the longest wait is one that ended
		most = "those that got a node " + most
	}
	text := fmt.Sprintf("pods waited %s in all, %s; similar groups were at most %s apart, %s on average",
		seconds(s.PendingTime.PodSeconds), most, spelling.Count(s.Unevenness.Largest, "node"), s.Unevenness.Mean)
	if s.Cost == nil {
		return text
	}
	text += fmt.Sprintf("; cost %s in all, %s an hour at the end", s.Cost.Total, s.Cost.PerHour)
	if len(s.Cost.Unpriced) > 0 {
		text += " (no price: " + few(s.Cost.Unpriced) + ")"
	}
	return text
}

// seconds formats a time as a duration, unless it is too long for that.
func seconds(n int64) string {
	if n > math.MaxInt64/int64(time.Second) {
		return fmt.Sprintf("%dh", n/3600)
	}
	return (time.Duration(n) * time.Second).String()
}

// few names the first few of many.
func few(names []string) string { return spelling.Few(names, 8) }

func timelineGrid(rows []v1alpha1.TimelineRow) printing.Grid {
	return printing.GridOf(printing.Columns("TIME", "WHAT", "DETAIL"), rows, func(row *v1alpha1.TimelineRow) []any {
		return []any{"+" + row.At.Duration.String(), row.What, row.Text}
	})
}

func groupGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	return printing.GridOf([]printing.Column{
		{Name: "GROUP"}, {Name: "ZONE"}, {Name: "SET", Wide: true}, {Name: "BEFORE"}, {Name: "AFTER"},
		{Name: "MIN", Wide: true}, {Name: "MAX"}, {Name: "READY", Wide: true}, {Name: "ORDERED", Wide: true},
		{Name: "REMOVED", Wide: true}, {Name: "PODS"}, {Name: "TEMPLATE", Wide: true}, {Name: "WHY"},
	}, r.Status.Groups, func(g *v1alpha1.GroupReport) []any {
		return []any{g.Name, g.Zone, g.Set, g.Before, g.After, g.Min, g.Max, g.Ready, g.Ordered, g.Removed, g.Pods, g.Template, g.Why}
	})
}

func summary(r *v1alpha1.ScenarioReport) string {
	status := &r.Status
	text := fmt.Sprintf("%s running, %d pending; %s ordered in %s",
		spelling.Count(status.Running, "pod"), status.Pending, spelling.Count(status.NodesOrdered, "node"),
		spelling.Count(status.ScaleUps, "scale-up"))
	if givenUp := status.NodesRemoved - status.NodesScaledDown; givenUp > 0 {
		text += fmt.Sprintf(", %d given up", givenUp)
	}
	if status.NodesScaledDown > 0 {
		text += fmt.Sprintf(", %d scaled down", status.NodesScaledDown)
	}
	if status.Interrupted {
		return text + fmt.Sprintf("; interrupted at +%s", status.End.Duration)
	}
	if status.Settled {
		return text + fmt.Sprintf("; nothing more can happen after +%s", status.End.Duration)
	}
	return text + fmt.Sprintf("; stopped at +%s", status.End.Duration)
}

// listScenarios prints the scenarios that come with the program.
func listScenarios(p *printing.Printer) error {
	type entry struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	var all []entry
	for _, name := range scenarios.Names() {
		docs, err := builtIn(name)
		if err != nil {
			return err
		}
		for _, d := range docs {
			all = append(all, entry{name, d.Object.(*v1alpha1.Scenario).Spec.Description})
		}
	}
	return p.Result(map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": "ScenarioList", "scenarios": all},
		printing.GridOf(printing.Columns("NAME", "DESCRIPTION"), all, func(e *entry) []any { return []any{e.Name, e.Description} }))
}

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
		}{{s.Refused, "refused"}, {s.Rescheduled, "rescheduled"}, {s.Waited, "kept for a node on its way"}} {
			if n.pods > 0 {
				parts = append(parts, spelling.Count(n.pods, "pod")+" "+n.what)
			}
		}
		if len(parts) > 0 {
			notes = append(notes, s.Name+": "+strings.Join(parts, ", ")+".")
		}
	}
	return notes
}
