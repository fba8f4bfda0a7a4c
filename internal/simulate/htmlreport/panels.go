package htmlreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

const (
	wide, high, low        = 1040, 260, 180
	facetWide, facetHigh   = 520, 200
	besideWide, besideHigh = 400, 190 // of a chart for each of several runs
	facets                 = 12       // sets that get a chart
	tableRows              = 60       // of the table beside a chart

)

// builder makes the panels of one scenario.
type builder struct {
	id    string
	sides []side
	zones zones
	end   time.Duration
}

func newBuilder(id string, sides []side) *builder {
	b := &builder{id: id, sides: sides, end: time.Minute}
	for _, s := range sides {
		b.end = max(b.end, s.status.End.Duration)
	}
	b.zones = zonesOf(sides)
	return b
}

// panel draws all sides with the same axes, so that they can be compared.
func (b *builder) panel(name, title, note string, of func(*v1alpha1.ScenarioReportStatus) drawing) (panel, error) {
	p := panel{ID: b.id + "-" + name, Title: title, Note: note}
	drawings := make([]drawing, len(b.sides))
	top, fractions := 0.0, false
	for i, s := range b.sides {
		drawings[i] = of(s.status)
		d := &drawings[i]
		if p.Beside = len(b.sides) > 2 && d.width == wide; p.Beside {
			d.width, d.height = besideWide, besideHigh
		}
		d.end, d.bands = b.end, bands(s.status, b.end)
		top, fractions = max(top, d.highest()), fractions || d.fractions
		for _, l := range d.lines {
			p.Dashed = l.name
		}
		p.Faults = p.Faults || slices.ContainsFunc(d.bands, func(f band) bool { return f.from <= b.end })
		for _, l := range d.layers {
			entry := legendEntry{l.look, l.name}
			if len(d.layers) > 1 && !slices.Contains(p.Legend, entry) {
				p.Legend = append(p.Legend, entry)
			}
		}
	}
	if top == 0 && name != "nodes" {
		return panel{ID: p.ID, Title: title, Note: strings.TrimSpace(note + " It was 0 all the time.")}, nil
	}
	top, _ = axisEnd(top, fractions)
	for i := range drawings {
		d := &drawings[i]
		d.top, d.fractions = top, fractions
		body, err := d.draw()
		if err != nil {
			return panel{}, err
		}
		c := chart{
			ID: fmt.Sprintf("%s-%d", p.ID, i+1), Caption: b.sides[i].name, Title: strings.TrimSuffix(title+", "+b.sides[i].name, ", "),
			Width: d.width, Height: d.height, Body: body, Desc: d.describe(),
		}
		c.Data = d.table(c.ID, c.Title)
		p.Charts = append(p.Charts, c)
	}
	return p, nil
}

func (d *drawing) describe() string {
	all, start := layer{}, 0.0
	for i := range d.layers {
		if first := d.layers[i].points; len(first) > 0 && first[0].at == 0 {
			start += first[0].value
		}
	}
	for _, at := range instants(d.layers) {
		all.points = append(all.points, point{at, stacked(d.layers, at)})
	}
	peak := slices.MaxFunc(all.points, func(a, b point) int { return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(b.at, a.at)) })
	text := fmt.Sprintf("From %s %s at the start to %s at the end, at most %s after %s.",
		number(start), d.unit, number(all.last()), number(peak.value), short(peak.at))
	if len(d.layers) > 1 {
		var parts []string
		for i := range d.layers {
			parts = append(parts, d.layers[i].name+" "+number(d.layers[i].last()))
		}
		text += " At the end: " + strings.Join(parts, ", ") + "."
	}
	return text
}

func (d *drawing) table(id, title string) table {
	columns, names := append(slices.Clone(d.layers), d.lines...), []string{"After#"}
	for i := range columns {
		names = append(names, columns[i].name+"#")
	}
	t := newTable(names...)
	t.ID, t.Caption = id+"-data", "As a table: "+title
	all := instants(columns)
	at := thin(all, d.layers, tableRows)
	for _, moment := range at {
		row := []any{short(moment)}
		for i := range columns {
			row = append(row, number(columns[i].at(moment)))
		}
		t.add(row...)
	}
	if len(at) < len(all) {
		t.Note = fmt.Sprintf("%d of %d moments; simulate -o json has all of them.", len(at), len(all))
	}
	return t
}

func bands(s *v1alpha1.ScenarioReportStatus, end time.Duration) []band {
	var all []band
	for i, f := range s.Faults {
		to := end
		if f.Until != nil {
			to = f.Until.Duration
		}
		all = append(all, band{label: faultName(i), from: f.From.Duration, to: to})
	}
	return all
}

func faultName(i int) string { return fmt.Sprintf("F%d", i+1) }

// history draws one column of the history as a single layer.
func history(name, unit string, look int, value func(*v1alpha1.HistoryRow) float64) func(*v1alpha1.ScenarioReportStatus) drawing {
	return func(s *v1alpha1.ScenarioReportStatus) drawing {
		l := layer{name: name, look: look}
		for i := range s.History {
			l.points = append(l.points, point{s.History[i].At.Duration, value(&s.History[i])})
		}
		return drawing{layers: []layer{l}, width: wide, height: low, unit: unit}
	}
}

// overTime are the panels about the whole scenario.
func (b *builder) overTime() ([]panel, error) {
	type wanted struct {
		name, title, note string
		of                func(*v1alpha1.ScenarioReportStatus) drawing
	}
	panels := []wanted{
		{"nodes", "Nodes by zone", "Target sizes of all node groups.", func(s *v1alpha1.ScenarioReportStatus) drawing {
			return drawing{layers: b.zones.byZone(s.Groups), lines: readyLine(s.Groups), width: wide, height: high, unit: "nodes"}
		}},
		{"pending", "Pending pods", "Pods that wait for a node.",
			history("pending pods", "pods", 3, func(r *v1alpha1.HistoryRow) float64 { return float64(r.Pending) })},
		{"unevenness", "Unevenness", "Largest less smallest group, of the set that is worst at that moment.",
			history("nodes apart", "nodes", 1, func(r *v1alpha1.HistoryRow) float64 { return float64(r.Unevenness) })},
	}
	if slices.ContainsFunc(b.sides, func(s side) bool { return s.status.Cost != nil }) {
		cost := history("cost per hour", "an hour", 2, func(r *v1alpha1.HistoryRow) float64 {
			cost, _ := r.CostPerHour.Float64() // empty is nothing
			return cost
		})
		panels = append(panels, wanted{"cost", "Cost per hour", "Of the machines that run and have a price.",
			func(s *v1alpha1.ScenarioReportStatus) drawing {
				d := cost(s)
				d.fractions = true
				return d
			}})
	}
	var all []panel
	for _, w := range panels {
		p, err := b.panel(w.name, w.title, w.note, w.of)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// readyLine is drawn over target sizes: if it is lower, nodes are starting or down.
func readyLine(groups []v1alpha1.GroupReport) []layer {
	return []layer{{name: "ready nodes", points: sum(groups, ready)}}
}

// set is a set of similar groups, or a group that is in none.
type set struct {
	names []string
	moved int // nodes ordered and removed, of both sides
	size  int
}

// sets are those of the first side, the busiest first.
func (b *builder) sets() []set {
	of := map[string]int{}
	var all []set
	for _, names := range b.sides[0].status.Sets {
		for _, name := range names {
			of[name] = len(all)
		}
		all = append(all, set{names: names})
	}
	for i, s := range b.sides {
		for j := range s.status.Groups {
			g := &s.status.Groups[j]
			at, known := of[g.Name]
			if !known && i == 0 {
				at = len(all)
				of[g.Name] = at
				all = append(all, set{names: []string{g.Name}})
			}
			all[at].moved += g.Ordered + g.Removed
			all[at].size += g.After
		}
	}
	slices.SortStableFunc(all, func(a, b set) int { return cmp.Or(cmp.Compare(b.moved, a.moved), cmp.Compare(b.size, a.size)) })
	return all
}

// facetPanels draw the busiest sets, and list the others.
func (b *builder) facetPanels() ([]panel, *table, error) {
	all := b.sets()
	var drawn []panel
	for i, s := range all[:min(len(all), facets)] {
		p, err := b.panel(fmt.Sprintf("set%d", i+1), fewNames(s.names), "", func(status *v1alpha1.ScenarioReportStatus) drawing {
			groups := members(status, s.names)
			return drawing{layers: b.zones.byGroup(groups), lines: readyLine(groups), width: facetWide, height: facetHigh, unit: "nodes"}
		})
		if err != nil {
			return nil, nil, err
		}
		drawn = append(drawn, p)
	}
	if len(all) <= facets {
		return drawn, nil, nil
	}
	columns := []string{"Set", "Groups#"}
	for _, s := range b.sides {
		for _, column := range []string{"before", "after", "ordered", "removed"} {
			columns = append(columns, strings.TrimSpace(column+" "+s.name)+"#")
		}
	}
	more := newTable(columns...)
	more.ID, more.Caption = b.id+"-more-sets", fmt.Sprintf("The other %d sets", len(all)-facets)
	for _, s := range all[facets:] {
		row := []any{fewNames(s.names), len(s.names)}
		for _, side := range b.sides {
			var before, after, ordered, removed int
			for _, g := range members(side.status, s.names) {
				before, after, ordered, removed = before+g.Before, after+g.After, ordered+g.Ordered, removed+g.Removed
			}
			row = append(row, before, after, ordered, removed)
		}
		more.add(row...)
	}
	return drawn, &more, nil
}

// members are groups by name; groups are sorted by it.
func members(s *v1alpha1.ScenarioReportStatus, names []string) []v1alpha1.GroupReport {
	var all []v1alpha1.GroupReport
	for _, name := range names {
		at, found := slices.BinarySearchFunc(s.Groups, name,
			func(g v1alpha1.GroupReport, name string) int { return strings.Compare(g.Name, name) })
		if found {
			all = append(all, s.Groups[at])
		}
	}
	return all
}

func fewNames(names []string) string { return spelling.Few(names, 4) }
