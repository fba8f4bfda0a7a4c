package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// setting is what flags and --compare set in a scenario by its name: an option, or which autoscaler decides.
type setting struct {
	name  string
	path  string              // in a document
	field reflect.StructField // of the spec
}

// The settings that are not in spec.options.
const autoscalerMode, autoscalerVersion = "autoscaler", "autoscaler-version"

// settings are all of them by name. Options are named as in a document.
func settings() map[string]setting {
	all := map[string]setting{}
	for _, part := range []string{"Options", "Autoscaler"} {
		outer, _ := reflect.TypeFor[v1alpha1.ScenarioSpec]().FieldByName(part)
		for _, field := range reflect.VisibleFields(outer.Type) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			path := "spec." + strings.ToLower(part) + "." + name
			if part == "Autoscaler" {
				name = map[string]string{"mode": autoscalerMode, "version": autoscalerVersion}[name]
			}
			if name != "" && !field.Anonymous {
				field.Index = slices.Concat(outer.Index, field.Index)
				all[name] = setting{name, path, field}
			}
		}
	}
	return all
}

// initial is the first letter of a further word of a flag.
var initial = regexp.MustCompile(`-+.?`)

// findSetting finds a setting by its name, for options also as a flag of Cluster Autoscaler, which is singular if it may be
// repeated.
func findSetting(written string) (setting, error) {
	all := settings()
	flag := strings.TrimLeft(written, "-")
	name := initial.ReplaceAllStringFunc(flag, func(letter string) string { return strings.ToUpper(strings.TrimLeft(letter, "-")) })
	for _, known := range []string{flag, name, name + "s", strings.Replace(name, "disableLabelPack", "disabledLabelPacks", 1)} {
		if found, ok := all[known]; ok {
			return found, nil
		}
	}
	hint := "options are those of spec.options in a scenario"
	if near := spelling.Nearest(name, slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(all)), "nodes")))); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return setting{}, &usageError{fmt.Errorf("--compare %s: there is no such option", written), hint}
}

// in returns where a scenario has the setting.
func (s *setting) in(spec *v1alpha1.ScenarioSpec) reflect.Value {
	return reflect.ValueOf(spec).Elem().FieldByIndex(s.field.Index)
}

// isOption reports whether it is one of spec.options.
func (s *setting) isOption() bool { return s.name != autoscalerMode && s.name != autoscalerVersion }

// takesCommas reports whether a comma can be part of a value.
func (s *setting) takesCommas() bool {
	kinds := []reflect.Kind{reflect.String, reflect.Slice, reflect.Map}
	return s.isOption() && (slices.Contains(kinds, s.field.Type.Kind()) || s.field.Type == reflect.TypeFor[*v1alpha1.SchedulerConfig]())
}

// parse parses a value as the type of the setting, as strictly as in a document.
func (s *setting) parse(value, text string) (reflect.Value, error) {
	var shown any = json.RawMessage(value)
	switch kind := s.field.Type; {
	case s.name == autoscalerVersion && !slices.Contains(simulate.Versions(), value):
		return reflect.Value{}, &usageError{fmt.Errorf("--compare %s: release %q is not played", text, value), "must be one of " +
			strings.Join(simulate.Versions(), ", ")}
	case s.name == autoscalerMode && !slices.Contains(simulate.Modes(), simulate.Mode(value)):
		return reflect.Value{}, &usageError{fmt.Errorf("--compare %s: there is no autoscaler %q", text, value), "must be " + modeNames()}
	case !s.isOption():
		return reflect.ValueOf(value), nil
	case kind.Kind() == reflect.Slice && !strings.HasPrefix(value, "["):
		shown = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
	case kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map:
		if err := yaml.Unmarshal([]byte(value), &shown); err != nil {
			return reflect.Value{}, &usageError{fmt.Errorf("--compare %s: %w", text, err), "lists and maps are written as in YAML"}
		}
	case kind == reflect.TypeFor[string](), !json.Valid([]byte(value)):
		shown = value
	}
	source, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindScenario, "metadata": map[string]any{"name": "compare"},
		"spec": map[string]any{"options": map[string]any{s.name: shown}},
	})
	if err != nil {
		return reflect.Value{}, &usageError{fmt.Errorf("--compare %s: %w", text, err), "see spec.options of a scenario"}
	}
	docs, err := document.Read("--compare", strings.NewReader(string(source)), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		return reflect.Value{}, asUsage(text, err)
	}
	return s.in(&docs[0].Object.(*v1alpha1.Scenario).Spec), nil
}

// asUsage converts the error of an invalid document to one about the option on the command line.
func asUsage(text string, err error) error {
	var invalid *document.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	return &usageError{fmt.Errorf("--compare %s: %w", text, invalid.Problems[0].Err), "see spec.options of a scenario"}
}

// modeNames lists the autoscalers that may decide.
func modeNames() string {
	var names []string
	for _, mode := range simulate.Modes() {
		names = append(names, string(mode))
	}
	return spelling.Or(names)
}
