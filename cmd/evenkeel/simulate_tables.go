package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// reportParts are the tables of one scenario.
func reportParts(p *printing.Printer, r *v1alpha1.ScenarioReport, several bool) []printing.Part {
	status := &r.Status
	var parts []printing.Part
	if several {
		parts = append(parts, printing.Heading(r.Name))
	}
	parts = append(parts, timelineGrid(status.Timeline), groupGrid(r), subsetGrid(r))
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
	text := fmt.Sprintf("pods waited %s in all, %s at most; similar groups were at most %s apart, %s on average",
		seconds(s.PendingTime.PodSeconds), s.PendingTime.Longest.Duration, of(s.Unevenness.Largest, "node"), s.Unevenness.Mean)
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
func few(names []string) string {
	const shown = 8
	if len(names) <= shown+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

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
		of(status.Running, "pod"), status.Pending, of(status.NodesOrdered, "node"), of(status.ScaleUps, "scale-up"))
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
		text, err := scenarios.Read(name)
		if err != nil {
			return err
		}
		docs, err := document.Read(name, bytes.NewReader(text), document.Options{Kinds: simulate.Kinds()})
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
