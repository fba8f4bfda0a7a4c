package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// variant has the options with which a scenario is played again.
type variant struct {
	texts   []string // OPTION=VALUE as given
	options []comparedOption
	nodes   overrides // bounds of node groups
}

// comparedOption is an option of a scenario with the values that are compared. A single one is compared with that of the
// scenario, several with each other.
type comparedOption struct {
	setting
	values []reflect.Value
}

// parseVariant parses the values of --compare.
func parseVariant(texts []string) (*variant, error) {
	v := &variant{texts: texts}
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return nil, &usageError{fmt.Errorf("--compare %s: must be OPTION=VALUE", text), "as in --compare balanceSimilarNodeGroups=false"}
		}
		if strings.TrimLeft(name, "-") == "nodes" {
			v.nodes.nodes = append(v.nodes.nodes, value)
			continue
		}
		option, err := parseCompared(name, value, text)
		if err != nil {
			return nil, err
		}
		if err := v.add(option, text); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// add adds an option. The values of a list that is given again are appended, as those of a flag; another option that is
// given again is replaced.
func (v *variant) add(option comparedOption, text string) error {
	at := slices.IndexFunc(v.options, func(o comparedOption) bool { return o.name == option.name })
	if at >= 0 {
		before := v.options[at]
		if len(before.values) == 1 && len(option.values) == 1 && option.values[0].Kind() == reflect.Slice {
			option.values[0] = reflect.AppendSlice(before.values[0], option.values[0])
		}
		v.options = slices.Delete(v.options, at, at+1)
	}
	if len(option.values) > 1 && v.several() {
		return &usageError{fmt.Errorf("--compare %s: another option has several values", text), "only one may have more than one"}
	}
	v.options = append(v.options, option)
	return nil
}

// several reports whether values are compared with each other, rather than one with the scenario as it is.
func (v *variant) several() bool {
	return slices.ContainsFunc(v.options, func(o comparedOption) bool { return len(o.values) > 1 })
}

// parseCompared parses an option and its values: several are separated by semicolons, or by commas where a comma
// cannot be part of a value.
func parseCompared(name, value, text string) (comparedOption, error) {
	found, err := findSetting(name)
	if err != nil {
		return comparedOption{}, err
	}
	option := comparedOption{setting: found}
	separator := ";"
	if !found.takesCommas() && !strings.Contains(value, ";") {
		separator = ","
	}
	for one := range strings.SplitSeq(value, separator) {
		parsed, err := found.parse(one, text)
		if err != nil {
			return comparedOption{}, err
		}
		option.values = append(option.values, parsed)
	}
	return option, option.distinct(text)
}

// distinct refuses a value that is compared with itself.
func (o *comparedOption) distinct(text string) error {
	for i, value := range o.values {
		for _, other := range o.values[:i] {
			if reflect.DeepEqual(value.Interface(), other.Interface()) {
				return &usageError{fmt.Errorf("--compare %s: %s is named twice", text, orDefault(encoded(value))), "name each value once"}
			}
		}
	}
	return nil
}

// runs is how often a scenario is played.
func (v *variant) runs() int {
	if len(v.texts) == 0 {
		return 1
	}
	runs := 2
	for _, o := range v.options {
		runs = max(runs, len(o.values))
	}
	return runs
}

// changes reports whether the run of that number plays the scenario with changes. Without several values the first run is
// that of the scenario as it is.
func (v *variant) changes(run int) bool { return run > 0 || v.several() }

// apply returns the document as it is played in the run of that number. It does not change the document itself.
func (v *variant) apply(d document.Document, run int) document.Document {
	source, ok := d.Object.(*v1alpha1.Scenario)
	if !ok || !v.changes(run) {
		return d
	}
	scenario := *source
	for _, o := range v.options {
		o.in(&scenario.Spec).Set(o.values[min(run, len(o.values)-1)])
	}
	d.Object = &scenario
	return d
}

// changed are the options with their values in all runs.
func (v *variant) changed(scenario *v1alpha1.Scenario) []v1alpha1.ChangedOption {
	var all []v1alpha1.ChangedOption
	for _, o := range v.options {
		values := []json.RawMessage{encoded(o.in(&scenario.Spec))}
		if v.several() {
			values = nil
		}
		for len(values) < v.runs() {
			values = append(values, encoded(o.values[min(len(values), len(o.values)-1)]))
		}
		all = append(all, v1alpha1.ChangedOption{Name: o.name, Baseline: values[0], Changed: values[1], Further: values[2:]})
	}
	for _, bounds := range v.nodes.nodes {
		text, _ := json.Marshal(bounds)
		values := slices.Repeat([]json.RawMessage{text}, v.runs())
		if !v.changes(0) {
			values[0] = nil
		}
		all = append(all, v1alpha1.ChangedOption{Name: "nodes", Baseline: values[0], Changed: values[1], Further: values[2:]})
	}
	return all
}

// encoded returns a value as it is written in a document; empty if it is omitted there.
func encoded(value reflect.Value) json.RawMessage {
	if value.IsZero() {
		return nil
	}
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return nil
	}
	return text
}

// compareRuns compares the reports of scenarios that were played several times in a row, and returns the first of each, too.
func compareRuns(reports []*v1alpha1.ScenarioReport, runs int,
	options [][]v1alpha1.ChangedOption) (all []*v1alpha1.ScenarioComparison, first []*v1alpha1.ScenarioReport) {
	for run := range slices.Chunk(reports, runs) {
		all = append(all, simulate.Compare(run[0], run[1], options[len(all)], run[2:]...))
		first = append(first, run[0])
	}
	return all, first
}

// runNames are the columns of a comparison of more than two runs: the values of the option that differs.
func runNames(c *v1alpha1.ScenarioComparison) []string {
	for _, o := range c.Status.Options {
		if values := append([]json.RawMessage{o.Baseline, o.Changed}, o.Further...); len(values) > 2 && !bytes.Equal(o.Baseline, o.Changed) {
			var names []string
			for _, value := range values {
				names = append(names, strings.ToUpper(orDefault(value)))
			}
			return names
		}
	}
	return nil
}

// comparisonParts are the tables of one comparison: of the scenario as it is with a change, or of more than two runs.
func comparisonParts(p *printing.Printer, c *v1alpha1.ScenarioComparison) []printing.Part {
	names := runNames(c)
	options, columns := printing.NewGrid("OPTION", "BASELINE", "CHANGED"), []string{"BASELINE", "CHANGED", "DIFFERENCE"}
	if names != nil {
		options, columns = printing.NewGrid("OPTION", "VALUE"), names
	}
	for _, o := range c.Status.Options {
		switch {
		case names == nil:
			options.Add(o.Name, orDefault(o.Baseline), orDefault(o.Changed))
		case bytes.Equal(o.Baseline, o.Changed): // the same in all runs
			options.Add(o.Name, orDefault(o.Changed))
		}
	}
	figures := printing.NewGrid(append([]string{"FIGURE"}, columns...)...)
	for _, f := range c.Status.Figures {
		row := []any{f.Name, f.Baseline, f.Changed}
		for _, n := range f.Further {
			row = append(row, n)
		}
		if names == nil {
			row = append(row, signed(f.Difference.String()))
		}
		figures.Add(row...)
	}
	groups := printing.NewGrid(append([]string{"GROUP", "ZONE", "BEFORE"}, columns...)...)
	differ := 0
	for _, g := range c.Status.Groups {
		row := []any{g.Name, g.Zone, g.Before, g.Baseline, g.Changed}
		for _, n := range g.Further {
			row = append(row, n)
		}
		if g.Difference != 0 {
			differ++
		}
		if names == nil {
			row = append(row, signed(strconv.Itoa(g.Difference)))
		}
		if names != nil || g.Difference != 0 || p.Wide() {
			groups.Add(row...)
		}
	}
	parts := []printing.Part{options, figures, groups}
	if names != nil {
		return parts
	}
	return append(parts, printing.Note(fmt.Sprintf("%d of %s end with another size", differ,
		spelling.Count(len(c.Status.Groups), "node group"))))
}

// signed formats a number with its sign.
func signed(number string) string {
	if number == "0" || strings.HasPrefix(number, "-") {
		return number
	}
	return "+" + number
}

func orDefault(value json.RawMessage) string {
	if value == nil {
		return "default"
	}
	return strings.Trim(string(value), `"`)
}
