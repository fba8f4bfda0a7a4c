package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// printReport prints the tables of one scenario.
func printReport(p *printing.Printer, r *v1alpha1.ScenarioReport, several bool) error {
	if several {
		if err := p.Heading(r.Name); err != nil {
			return err
		}
	}
	grids := []printing.Grid{timelineGrid(r.Status.Timeline), groupGrid(r), subsetGrid(r), deletionGrid(r), pendingGrid(r), waitingGrid(r), expectationGrid(r)}
	if p.Wide() {
		grids = slices.Insert(grids, 3, placeGrid(r))
	}
	for _, grid := range grids {
		if err := p.Grid(grid); err != nil {
			return err
		}
	}
	if story := r.Status.Story; story != nil {
		if err := errors.Join(p.Heading(story.Name), p.Grid(timelineGrid(story.Rows))); err != nil {
			return err
		}
	}
	for _, note := range spreadNotes(r) {
		if err := p.Note(false, note); err != nil {
			return err
		}
	}
	for _, note := range r.Status.Notes {
		if err := p.Note(true, "Note: "+note+"."); err != nil {
			return err
		}
	}
	if err := p.Note(false, overTime(&r.Status)); err != nil {
		return err
	}
	return p.Note(!r.Status.Holds, summary(r))
}

// overTime summarizes what the tables do not show: how long pods waited, how much the sizes of
// similar groups differed, and what the machines cost.
func overTime(s *v1alpha1.ScenarioReportStatus) string {
	text := fmt.Sprintf("pods waited %s in all, %s at most; similar groups were at most %s apart, %s on average",
		seconds(s.PendingTime.PodSeconds), s.PendingTime.Longest.Duration, of(int64(s.Unevenness.Largest), "node"), s.Unevenness.Mean)
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
	grid := printing.Grid{Columns: printing.Columns("TIME", "WHAT", "DETAIL")}
	for _, row := range rows {
		grid.Rows = append(grid.Rows, []string{"+" + row.At.Duration.String(), row.What, row.Text})
	}
	return grid
}

func groupGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	grid := printing.Grid{Columns: []printing.Column{
		{Name: "GROUP"}, {Name: "ZONE"}, {Name: "SET", Wide: true}, {Name: "BEFORE"}, {Name: "AFTER"},
		{Name: "MIN", Wide: true}, {Name: "MAX"}, {Name: "READY", Wide: true}, {Name: "ORDERED", Wide: true},
		{Name: "REMOVED", Wide: true}, {Name: "PODS"}, {Name: "TEMPLATE", Wide: true}, {Name: "WHY"},
	}}
	for _, g := range r.Status.Groups {
		grid.Rows = append(grid.Rows, []string{
			g.Name, g.Zone, strconv.Itoa(g.Set), strconv.Itoa(g.Before), strconv.Itoa(g.After), strconv.Itoa(g.Min), strconv.Itoa(g.Max),
			strconv.Itoa(g.Ready), strconv.Itoa(g.Ordered), strconv.Itoa(g.Removed), strconv.Itoa(g.Pods), g.Template, g.Why,
		})
	}
	return grid
}

func pendingGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	grid := printing.Grid{Columns: printing.Columns("PENDING", "PODS", "REASON")}
	for _, row := range r.Status.PendingPods {
		grid.Rows = append(grid.Rows, []string{row.Example, strconv.Itoa(row.Pods), row.Reason})
	}
	return grid
}

func waitingGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	grid := printing.Grid{Columns: printing.Columns("WAITING", "GROUP", "NODES", "REASON")}
	for _, row := range r.Status.WaitingNodes {
		grid.Rows = append(grid.Rows, []string{row.Example, row.Group, strconv.Itoa(row.Nodes), row.Reason})
	}
	return grid
}

func expectationGrid(r *v1alpha1.ScenarioReport) printing.Grid {
	grid := printing.Grid{Columns: printing.Columns("EXPECTED", "WANT", "GOT", "RESULT")}
	for _, e := range r.Status.Expectations {
		result := "ok"
		if !e.OK {
			result = "FAILED"
		}
		grid.Rows = append(grid.Rows, []string{e.Check, e.Want, e.Got, result})
	}
	return grid
}

func summary(r *v1alpha1.ScenarioReport) string {
	status := &r.Status
	text := fmt.Sprintf("%s running, %d pending; %s ordered in %s",
		of(int64(status.Running), "pod"), status.Pending, of(int64(status.NodesOrdered), "node"), of(int64(status.ScaleUps), "scale-up"))
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
	grid := printing.Grid{Columns: printing.Columns("NAME", "DESCRIPTION")}
	var all []scenarioEntry
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
			if s, ok := d.Object.(*v1alpha1.Scenario); ok {
				all = append(all, scenarioEntry{name, s.Spec.Description})
				grid.Rows = append(grid.Rows, []string{name, s.Spec.Description})
			}
		}
	}
	if p.Tables() {
		return p.Grid(grid)
	}
	return p.Object(map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": "ScenarioList", "scenarios": all})
}

// scenarioEntry is one scenario in a list.
type scenarioEntry struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}
