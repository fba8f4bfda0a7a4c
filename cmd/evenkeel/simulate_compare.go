package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// variant has the options with which a scenario is played again.
type variant struct {
	texts   []string // OPTION=VALUE as given
	options v1alpha1.ScenarioOptions
	fields  []reflect.StructField // the options that are set
	nodes   overrides             // bounds of node groups
	// modes are those of the autoscaler. A single one is compared with that of the scenario, else the
	// first one with the others.
	modes []string
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
		if strings.TrimLeft(name, "-") == "autoscaler" {
			for _, mode := range strings.Split(value, ",") {
				switch {
				case !slices.Contains(simulate.Modes(), simulate.Mode(mode)):
					return nil, &usageError{fmt.Errorf("--compare %s: there is no autoscaler %q", text, mode), "must be " + modeNames()}
				case slices.Contains(v.modes, mode):
					return nil, &usageError{fmt.Errorf("--compare %s: %s is named twice", text, mode), "name each autoscaler once"}
				}
				v.modes = append(v.modes, mode)
			}
			continue
		}
		field, err := optionNamed(name)
		if err != nil {
			return nil, err
		}
		if err := v.set(field, value, text); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// modeNames lists the autoscalers that may decide.
func modeNames() string {
	var names []string
	for _, mode := range simulate.Modes() {
		names = append(names, string(mode))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// optionFields are the fields of a scenario's options by their names in a document.
func optionFields() map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.ScenarioOptions]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && !field.Anonymous {
			fields[name] = field
		}
	}
	return fields
}

// optionNamed finds an option by its name in a document or as a flag of Cluster Autoscaler, which
// is singular if it may be repeated.
func optionNamed(written string) (reflect.StructField, error) {
	fields := optionFields()
	words := strings.Split(strings.TrimLeft(written, "-"), "-")
	name := words[0]
	for _, word := range words[1:] {
		if word != "" {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	for _, known := range []string{name, name + "s", strings.Replace(name, "disableLabelPack", "disabledLabelPacks", 1)} {
		if field, ok := fields[known]; ok {
			return field, nil
		}
	}
	names := []string{"autoscaler", "nodes"}
	for known := range fields {
		names = append(names, known)
	}
	slices.Sort(names)
	hint := "options are those of spec.options in a scenario"
	if near := spelling.Nearest(name, names); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return reflect.StructField{}, &usageError{fmt.Errorf("--compare %s: there is no such option", written), hint}
}

// set parses a value as the option's type, as strictly as in a document.
func (v *variant) set(field reflect.StructField, value, text string) error {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	var shown any = json.RawMessage(value)
	switch kind := field.Type; {
	case kind.Kind() == reflect.Slice && !strings.HasPrefix(value, "["):
		shown = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
	case kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map:
		if err := yaml.Unmarshal([]byte(value), &shown); err != nil {
			return &usageError{fmt.Errorf("--compare %s: %w", text, err), "lists and maps are written as in YAML"}
		}
	case kind == reflect.TypeFor[string](), !json.Valid([]byte(value)):
		shown = value
	}
	source, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindScenario, "metadata": map[string]any{"name": "compare"},
		"spec": map[string]any{"options": map[string]any{name: shown}},
	})
	if err != nil {
		return &usageError{fmt.Errorf("--compare %s: %w", text, err), "see spec.options of a scenario"}
	}
	docs, err := document.Read("--compare", strings.NewReader(string(source)), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		return asUsage(text, err)
	}
	parsed := docs[0].Object.(*v1alpha1.Scenario)
	at := reflect.ValueOf(&v.options).Elem().FieldByIndex(field.Index)
	read := reflect.ValueOf(&parsed.Spec.Options).Elem().FieldByIndex(field.Index)
	if at.Kind() == reflect.Slice {
		read = reflect.AppendSlice(at, read) // as a flag that is repeated
	}
	at.Set(read)
	if !slices.ContainsFunc(v.fields, func(f reflect.StructField) bool { return f.Name == field.Name }) {
		v.fields = append(v.fields, field)
	}
	return nil
}

// asUsage converts the error of an invalid document to one about the option on the command line.
func asUsage(text string, err error) error {
	var invalid *document.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	return &usageError{fmt.Errorf("--compare %s: %w", text, invalid.Problems[0].Err), "see spec.options of a scenario"}
}

// runs is how often a scenario is played.
func (v *variant) runs() int {
	switch {
	case len(v.texts) == 0:
		return 1
	case len(v.modes) > 1:
		return len(v.modes)
	}
	return 2
}

// first returns the document as it is played first.
func (v *variant) first(d document.Document) document.Document {
	scenario, ok := d.Object.(*v1alpha1.Scenario)
	if !ok || len(v.modes) < 2 {
		return d
	}
	changed := *scenario
	changed.Spec.Autoscaler.Mode = v.modes[0]
	d.Object = &changed
	return d
}

// apply returns the document with the options of the run of that number changed, and their values in all
// runs. It does not change the document itself.
func (v *variant) apply(d document.Document, run int) (document.Document, []v1alpha1.ChangedOption) {
	scenario := *d.Object.(*v1alpha1.Scenario)
	before, after := scenario.Spec.Options, &scenario.Spec.Options
	var changed []v1alpha1.ChangedOption
	for _, field := range v.fields {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		value := reflect.ValueOf(&v.options).Elem().FieldByIndex(field.Index)
		changed = append(changed, v1alpha1.ChangedOption{
			Name: name, Baseline: encoded(reflect.ValueOf(&before).Elem().FieldByIndex(field.Index)), Changed: encoded(value),
		})
		reflect.ValueOf(after).Elem().FieldByIndex(field.Index).Set(value)
	}
	if modes := v.modes; len(modes) > 0 {
		if len(modes) == 1 {
			modes = []string{scenario.Spec.Autoscaler.Mode, modes[0]}
		}
		option := v1alpha1.ChangedOption{Name: "autoscaler", Baseline: encoded(reflect.ValueOf(modes[0])), Changed: encoded(reflect.ValueOf(modes[1]))}
		for _, mode := range modes[2:] {
			option.Further = append(option.Further, encoded(reflect.ValueOf(mode)))
		}
		changed = append(changed, option)
		scenario.Spec.Autoscaler.Mode = modes[run]
	}
	for _, bounds := range v.nodes.nodes {
		text, _ := json.Marshal(bounds)
		changed = append(changed, v1alpha1.ChangedOption{Name: "nodes", Changed: text})
	}
	d.Object = &scenario
	return d, changed
}

// load loads the scenario of a document as it is played after the first time.
func (v *variant) load(d document.Document, files simulate.Files, flags *overrides) (setups []*simulate.Setup, changed []v1alpha1.ChangedOption, err error) {
	for run := 1; run < v.runs(); run++ {
		var changedDocument document.Document
		changedDocument, changed = v.apply(d, run)
		setup, err := simulate.Load(&changedDocument, files)
		if err != nil {
			return nil, nil, asUsage(strings.Join(v.texts, " --compare "), err)
		}
		if err := errors.Join(flags.bound(setup), v.nodes.bound(setup)); err != nil {
			return nil, nil, err
		}
		setups = append(setups, setup)
	}
	return setups, changed, nil
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

// compared compares the reports of scenarios that were played several times in a row.
func compared(reports []*v1alpha1.ScenarioReport, runs int, options [][]v1alpha1.ChangedOption) []*v1alpha1.ScenarioComparison {
	var all []*v1alpha1.ScenarioComparison
	for i := range options {
		of := reports[runs*i : runs*(i+1)]
		all = append(all, simulate.Compare(of[0], of[1], options[i], of[2:]...))
	}
	return all
}

// runNames are the columns of a comparison: the values of the option if there are more than two.
func runNames(c *v1alpha1.ScenarioComparison) []string {
	for _, o := range c.Status.Options {
		if len(o.Further) > 0 {
			names := []string{orDefault(o.Baseline), orDefault(o.Changed)}
			for _, value := range o.Further {
				names = append(names, orDefault(value))
			}
			return names
		}
	}
	return nil
}

// printRuns prints the tables of a comparison of more than two runs.
func printRuns(p *printing.Printer, c *v1alpha1.ScenarioComparison, names []string) error {
	columns := make([]string, len(names))
	for i, name := range names {
		columns[i] = strings.ToUpper(name)
	}
	numbers := printing.Grid{Columns: printing.Columns(append([]string{"FIGURE"}, columns...)...)}
	for _, f := range c.Status.Figures {
		row := []string{f.Name, f.Baseline.String(), f.Changed.String()}
		for _, n := range f.Further {
			row = append(row, n.String())
		}
		numbers.Rows = append(numbers.Rows, row)
	}
	groups := printing.Grid{Columns: printing.Columns(append([]string{"GROUP", "ZONE", "BEFORE"}, columns...)...)}
	for _, g := range c.Status.Groups {
		row := []string{g.Name, g.Zone, strconv.Itoa(g.Before), strconv.Itoa(g.Baseline), strconv.Itoa(g.Changed)}
		for _, n := range g.Further {
			row = append(row, strconv.Itoa(n))
		}
		groups.Rows = append(groups.Rows, row)
	}
	if err := p.Grid(numbers); err != nil {
		return err
	}
	return p.Grid(groups)
}

// printComparison prints the tables of one comparison.
func printComparison(p *printing.Printer, c *v1alpha1.ScenarioComparison, several bool) error {
	if several {
		if err := p.Heading(c.Name); err != nil {
			return err
		}
	}
	if names := runNames(c); len(c.Status.Options) == 1 && names != nil {
		return printRuns(p, c, names)
	}
	options := printing.Grid{Columns: printing.Columns("OPTION", "BASELINE", "CHANGED")}
	for _, o := range c.Status.Options {
		options.Rows = append(options.Rows, []string{o.Name, orDefault(o.Baseline), orDefault(o.Changed)})
	}
	numbers := printing.Grid{Columns: printing.Columns("FIGURE", "BASELINE", "CHANGED", "DIFFERENCE")}
	for _, f := range c.Status.Figures {
		numbers.Rows = append(numbers.Rows, []string{f.Name, f.Baseline.String(), f.Changed.String(), signed(f.Difference.String())})
	}
	groups := printing.Grid{Columns: printing.Columns("GROUP", "ZONE", "BEFORE", "BASELINE", "CHANGED", "DIFFERENCE")}
	for _, g := range c.Status.Groups {
		if g.Difference != 0 || p.Wide() {
			groups.Rows = append(groups.Rows, []string{
				g.Name, g.Zone, strconv.Itoa(g.Before), strconv.Itoa(g.Baseline), strconv.Itoa(g.Changed), signed(strconv.Itoa(g.Difference)),
			})
		}
	}
	for _, grid := range []printing.Grid{options, numbers, groups} {
		if err := p.Grid(grid); err != nil {
			return err
		}
	}
	differ := 0
	for _, g := range c.Status.Groups {
		if g.Difference != 0 {
			differ++
		}
	}
	return p.Note(false, fmt.Sprintf("%d of %s end with another size", differ, of(int64(len(c.Status.Groups)), "node group")))
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
