package htmlreport

import (
	"bytes"
	_ "embed" // of the page's template
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

//go:embed page.html
var source string

var parsed = template.Must(template.New("page").Parse(source))

// Result is the result of one scenario: its report or, if it was played twice, the comparison.
// Exactly one of them is set.
type Result struct {
	Report     *v1alpha1.ScenarioReport
	Comparison *v1alpha1.ScenarioComparison
}

// side is one run of a scenario.
type side struct {
	name   string // empty if there is only one
	status *v1alpha1.ScenarioReportStatus
}

func (r *Result) name() string {
	if r.Comparison != nil {
		return r.Comparison.Name
	}
	return r.Report.Name
}

func (r *Result) sides() []side {
	if c := r.Comparison; c != nil {
		sides := []side{{"baseline", &c.Status.Baseline}, {"changed", &c.Status.Changed}}
		for i := range c.Status.Further {
			sides = append(sides, side{fmt.Sprint("changed ", i+2), &c.Status.Further[i]})
		}
		for _, o := range c.Status.Options {
			if len(o.Further) > 0 && !bytes.Equal(o.Baseline, o.Changed) {
				sides[0].name, sides[1].name = optionValue(o.Baseline), optionValue(o.Changed)
				for i, value := range o.Further {
					sides[i+2].name = optionValue(value)
				}
			}
		}
		return sides
	}
	return []side{{"", &r.Report.Status}}
}

// Write writes a page that shows the results one after the other. The same results
// give the same bytes.
func Write(w io.Writer, results []Result) error {
	var names []string
	view := pageView{}
	for i := range results {
		scenario, err := newScenario(i+1, &results[i])
		if err != nil {
			return fmt.Errorf("report of scenario %s: %w", results[i].name(), err)
		}
		names = append(names, results[i].name())
		view.Scenarios = append(view.Scenarios, scenario)
	}
	view.Title = strings.Join(names, ", ")
	var out bytes.Buffer // nothing is written before the page is complete
	if err := parsed.Execute(&out, view); err != nil {
		return err
	}
	_, err := out.WriteTo(w)
	return err
}

// pageView is the data of the template.
type pageView struct {
	Title     string
	Scenarios []scenarioView
}

type scenarioView struct {
	ID      string
	Name    string
	Result  string // empty if nothing is expected
	Holds   bool
	Tiles   []tile
	Runs    []string // names of the runs if there are more than two
	Options []optionView
	Figures []figureView
	Panels  []panel
	// Facets are the sets that have a chart, MoreSets the others.
	Facets   []panel
	MoreSets *table
	Details  []tableGroup
}

// tile is one figure for each side.
type tile struct {
	Name   string
	Values []sideValue
}

type sideValue struct{ Side, Value string }

type optionView struct{ Name, Baseline, Changed string }

type figureView struct {
	Name, Baseline, Changed, Difference, Change string
	Further                                     []string // instead of the difference
}

// panel is a heading with charts under one another.
type panel struct {
	ID, Title, Note string
	Legend          []legendEntry
	Dashed          string // the meaning of the dashed line
	Faults          bool   // there are bands
	Charts          []chart
	Beside          bool // the charts are small and stand beside one another
}

type legendEntry struct {
	Look int
	Name string
}

// chart is a drawing, with a description and a table of its values.
type chart struct {
	ID, Caption, Title, Desc string
	Width, Height            float64
	Body                     template.HTML
	Data                     table
}

// tableGroup are tables under one heading.
type tableGroup struct {
	ID, Title string
	Tables    []table
}

// table is columns and rows of text. A long one is folded.
type table struct {
	ID, Caption string
	Columns     []string
	Numbers     []bool // columns that are numbers
	Rows        [][]string
	Note        string
	Open        bool
}

// newTable is a table with these columns; # ends the name of one of numbers.
func newTable(columns ...string) (t table) {
	for _, column := range columns {
		name, number := strings.CutSuffix(column, "#")
		t.Columns, t.Numbers = append(t.Columns, name), append(t.Numbers, number)
	}
	return t
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.Rows = append(t.Rows, row)
}
