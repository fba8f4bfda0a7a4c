package htmlreport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// longest is the maximum number of rows of a timeline; the middle of longer ones is omitted.
const longest = 3000

// unfolded is the maximum number of rows of a table that is not folded initially.
const unfolded = 30

func newScenario(number int, r *Result) (scenarioView, error) {
	sides := r.sides()
	v := scenarioView{ID: fmt.Sprintf("s%d", number), Name: r.name()}
	b := newBuilder(v.ID, sides)
	v.Result, v.Holds = result(sides)
	v.Tiles = tiles(sides)
	if c := r.Comparison; c != nil {
		if len(c.Status.Further) > 0 {
			for _, s := range sides {
				v.Runs = append(v.Runs, s.name)
			}
		}
		for _, o := range c.Status.Options {
			if len(v.Runs) == 0 || bytes.Equal(o.Baseline, o.Changed) {
				v.Options = append(v.Options, optionView{o.Name, optionValue(o.Baseline), optionValue(o.Changed)})
			}
		}
		for _, f := range c.Status.Figures {
			v.Figures = append(v.Figures, figure(f))
		}
	}
	v.Details = b.details()
	var err error
	if v.Panels, err = b.overTime(); err != nil {
		return scenarioView{}, err
	}
	v.Facets, v.MoreSets, err = b.facetPanels()
	return v, err
}

func optionValue(value json.RawMessage) string {
	if value == nil {
		return "default"
	}
	return strings.Trim(string(value), `"`)
}

// figure is a row of the comparison. Its change is also shown by a sign, so that it is visible
// without colours.
func figure(f v1alpha1.ComparedFigure) figureView {
	v := figureView{Name: words(f.Name), Baseline: f.Baseline.String(), Changed: f.Changed.String(), Difference: f.Difference.String(),
		Change: "same"}
	for _, n := range f.Further {
		v.Further = append(v.Further, n.String())
	}
	switch {
	case v.Difference == "0":
	case strings.HasPrefix(v.Difference, "-"):
		v.Change = "less"
	default:
		v.Change, v.Difference = "more", "+"+v.Difference
	}
	return v
}

func words(name string) string {
	var out strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
			out.WriteByte(' ')
		} else if i == 0 {
			r += 'A' - 'a'
		}
		out.WriteRune(r)
	}
	return out.String()
}

func result(sides []side) (text string, holds bool) {
	if len(sides) > 2 {
		return "", true // what a scenario expects is for one of them
	}
	failed, checks := 0, len(sides[0].status.Expectations)
	for _, e := range sides[0].status.Expectations {
		if !e.OK {
			failed++
		}
	}
	switch {
	case checks == 0:
		return "", true
	case failed > 0:
		return fmt.Sprintf("%d of %d expectations do not hold", failed, checks), false
	}
	return fmt.Sprintf("all %d expectations hold", checks), true
}

func tiles(sides []side) []tile {
	var all []tile
	add := func(name string, value func(*v1alpha1.ScenarioReportStatus) string) {
		t := tile{Name: name}
		for _, s := range sides {
			t.Values = append(t.Values, sideValue{s.name, value(s.status)})
		}
		all = append(all, t)
	}
	add("Pods running", func(s *v1alpha1.ScenarioReportStatus) string { return strconv.Itoa(s.Running) })
	add("Pods pending", func(s *v1alpha1.ScenarioReportStatus) string { return strconv.Itoa(s.Pending) })
	add("Nodes ordered", func(s *v1alpha1.ScenarioReportStatus) string { return strconv.Itoa(s.NodesOrdered) })
	add("Scale-ups", func(s *v1alpha1.ScenarioReportStatus) string { return strconv.Itoa(s.ScaleUps) })
	add("Longest wait of a pod", func(s *v1alpha1.ScenarioReportStatus) string { return short(s.PendingTime.Longest.Duration) })
	add("Nodes apart, at most (mean)", func(s *v1alpha1.ScenarioReportStatus) string {
		return fmt.Sprintf("%d (%s)", s.Unevenness.Largest, s.Unevenness.Mean)
	})
	if sides[0].status.Cost != nil {
		add("Cost in all", func(s *v1alpha1.ScenarioReportStatus) string { return cents(s.Cost.Total) })
	}
	add("Ended after", func(s *v1alpha1.ScenarioReportStatus) string { return short(s.End.Duration) })
	return all
}

// cents rounds an amount of at least one to two decimals.
func cents(amount json.Number) string {
	value, err := amount.Float64()
	if err != nil || value < 1 {
		return amount.String()
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}

// details are the tables, kind by kind, of each side.
func (b *builder) details() []tableGroup {
	var all []tableGroup
	for _, kind := range []struct {
		id, title string
		of        func(*v1alpha1.ScenarioReportStatus) table
	}{
		{"faults", "Faults", faultTable}, {"scaleups", "Scale-ups and their reasons", scaleUpTable}, {"groups", "Node groups", groupTable},
		{"waiting", "Pods still pending", pendingTable}, {"expected", "Expectations", expectationTable}, {"timeline", "Timeline", timelineTable},
	} {
		group := tableGroup{ID: b.id + "-" + kind.id, Title: kind.title}
		for i, s := range b.sides {
			t := kind.of(s.status)
			if len(t.Rows) == 0 {
				continue
			}
			t.ID, t.Open = fmt.Sprintf("%s-%d", group.ID, i+1), len(t.Rows) <= unfolded
			t.Caption = strings.TrimSpace(s.name + " " + spelling.Count(len(t.Rows), "row"))
			group.Tables = append(group.Tables, t)
		}
		if len(group.Tables) > 0 {
			all = append(all, group)
		}
	}
	return all
}

func faultTable(s *v1alpha1.ScenarioReportStatus) table {
	t := newTable("Band", "Fault", "Where", "From#", "Until#", "What")
	for i, f := range s.Faults {
		where, until, what := "everywhere", "the end", cmp.Or(f.Error, f.Reason)
		if len(f.Groups)+len(f.Zones) > 0 {
			where = fewNames(append(append([]string{}, f.Zones...), f.Groups...))
		}
		if f.Until != nil {
			until = short(f.Until.Duration)
		}
		if f.Delay != nil {
			what = strings.TrimPrefix(what+", "+f.Delay.Duration.String()+" late", ", ")
		}
		if len(f.Methods) > 0 {
			what = strings.Join(f.Methods, ", ") + ": " + what
		}
		t.add(faultName(i), strings.TrimSpace(f.Kind+" "+f.Mode), where, short(f.From.Duration), until, what)
	}
	return t
}

func scaleUpTable(s *v1alpha1.ScenarioReportStatus) table {
	t := newTable("After#", "Nodes#", "For pods#", "Groups", "Chosen by", "Reasons")
	for i := range s.Timeline {
		row := &s.Timeline[i]
		if row.ScaleUp == nil {
			continue
		}
		var sizes, chosen []string
		for _, g := range row.Groups {
			sizes = append(sizes, fmt.Sprintf("%s %d→%d", g.Name, *g.From, *g.To))
		}
		for _, step := range row.ScaleUp.Expander {
			if step.Figure != "" {
				chosen = append(chosen, step.Strategy+" "+row.ScaleUp.Chosen+": "+step.Figure)
			}
		}
		t.add(short(row.At.Duration), fmt.Sprintf("%d of %d", row.Nodes, row.ScaleUp.Asked), row.Pods,
			fewNames(sizes), strings.Join(chosen, "; "), strings.Join(reasons(row), "; "))
	}
	return t
}

// reasons are the reasons of the groups, equal ones together, and the number of unplaced nodes.
func reasons(row *v1alpha1.TimelineRow) []string {
	const shown = 4
	var order []string
	groups := map[string][]string{}
	for _, g := range row.Groups {
		if g.Reason != "" {
			if groups[g.Reason] == nil {
				order = append(order, g.Reason)
			}
			groups[g.Reason] = append(groups[g.Reason], g.Name)
		}
	}
	var all []string
	for i, reason := range order {
		if i == shown && len(order) > shown+1 {
			all = append(all, fmt.Sprintf("and %d more reasons", len(order)-shown))
			break
		}
		all = append(all, fewNames(groups[reason])+": "+reason)
	}
	if row.ScaleUp.Unplaced > 0 {
		all = append(all, fmt.Sprintf("no room for %d more", row.ScaleUp.Unplaced))
	}
	return all
}

func groupTable(s *v1alpha1.ScenarioReportStatus) table {
	t := newTable("Group", "Zone", "Set#", "Before#", "After#", "Min#", "Max#", "Ready#", "Pods#", "Why")
	for _, g := range s.Groups {
		t.add(g.Name, g.Zone, g.Set, g.Before, g.After, g.Min, g.Max, g.Ready, g.Pods, g.Why)
	}
	return t
}

func pendingTable(s *v1alpha1.ScenarioReportStatus) table {
	t := newTable("First of them", "Pods#", "Reason")
	for _, p := range s.PendingPods {
		t.add(p.Example, p.Pods, p.Reason)
	}
	return t
}

func expectationTable(s *v1alpha1.ScenarioReportStatus) table {
	t := newTable("Expected", "Want", "Got", "Result")
	for _, e := range s.Expectations {
		result := "✓ ok"
		if !e.OK {
			result = "✗ failed"
		}
		t.add(e.Check, e.Want, e.Got, result)
	}
	return t
}

func timelineTable(s *v1alpha1.ScenarioReportStatus) table {
	t := newTable("After#", "What", "Detail")
	for i, row := range s.Timeline {
		if len(s.Timeline) > longest && i >= longest/2 && i < len(s.Timeline)-longest/2 {
			continue
		}
		t.add("+"+short(row.At.Duration), row.What, row.Text)
	}
	if left := len(s.Timeline) - len(t.Rows); left > 0 {
		t.Note = fmt.Sprintf("%d rows in the middle are left out; simulate -o json has them.", left)
	}
	return t
}
