package mixin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// A testFile is one that promtool test rules runs, too. It has what the files here use.
type testFile struct {
	RuleFiles []string       `json:"rule_files"`
	Interval  model.Duration `json:"evaluation_interval"`
	Tests     []ruleTest
}

type ruleTest struct {
	Name        string
	Interval    model.Duration
	InputSeries []struct{ Series, Values string } `json:"input_series"`
	Alerts      []alertTest                       `json:"alert_rule_test"`
	Expressions []expressionTest                  `json:"promql_expr_test"`
}

type alertTest struct {
	At       model.Duration `json:"eval_time"`
	Name     string         `json:"alertname"`
	Expected []fired        `json:"exp_alerts"`
}

type fired struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

type expressionTest struct {
	At       model.Duration `json:"eval_time"`
	Expr     string
	Expected []struct {
		Labels string
		Value  float64
	} `json:"exp_samples"`
}

var parsing = parser.NewParser(parser.Options{})

// testFiles are those in tests, by their names.
func testFiles(t *testing.T) map[string]testFile {
	t.Helper()
	names, err := filepath.Glob("tests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]testFile{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f testFile
		if err := yaml.UnmarshalStrict(text, &f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = f
	}
	return out
}

// TestRules plays the series of each file in tests against the rules as Prometheus does, and compares which alerts fire when, with which
// texts, and what is recorded.
func TestRules(t *testing.T) {
	for name, file := range testFiles(t) {
		for i, rule := range file.RuleFiles {
			file.RuleFiles[i] = filepath.Join(filepath.Dir(name), rule)
		}
		for _, test := range file.Tests {
			t.Run(test.Name, func(t *testing.T) { test.run(t, file.RuleFiles) })
		}
	}
}

func (test ruleTest) run(t *testing.T, files []string) {
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", test.Interval)
	for _, s := range test.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
	}
	loader, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := loader.Close(); err != nil {
			t.Error(err)
		}
	}()
	query := rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage())
	groups, errs := rules.NewManager(&rules.ManagerOptions{QueryFunc: query, AppendableV2: loader.Storage(), Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: parsing,
	}).LoadGroups(time.Duration(test.Interval), labels.EmptyLabels(), "", nil, false, files...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for at := time.Unix(0, 0).UTC(); !at.After(test.end()); at = at.Add(time.Duration(test.Interval)) {
		loader.WithSamplesTill(at, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range slices.Sorted(maps.Keys(groups)) {
				groups[name].Eval(loader.Context(), at)
			}
			test.check(t, model.Duration(at.Sub(time.Unix(0, 0))), groups, query)
		})
	}
}

// end is when the last check is.
func (test ruleTest) end() time.Time {
	var last model.Duration
	for _, a := range test.Alerts {
		last = max(last, a.At)
	}
	for _, e := range test.Expressions {
		last = max(last, e.At)
	}
	return time.Unix(0, 0).Add(time.Duration(last))
}

func (test ruleTest) check(t *testing.T, at model.Duration, groups map[string]*rules.Group, query rules.QueryFunc) {
	t.Helper()
	for _, a := range test.Alerts {
		if a.At != at {
			continue
		}
		var got []fired
		for _, g := range groups {
			for _, r := range g.AlertingRules() {
				if err := r.LastError(); err != nil {
					t.Errorf("at %s: %s: %v", at, r.Name(), err)
				}
				for _, active := range r.ActiveAlerts() {
					if r.Name() == a.Name && active.State == rules.StateFiring {
						of := active.Labels.Map()
						delete(of, "alertname")
						got = append(got, fired{of, active.Annotations.Map()})
					}
				}
			}
		}
		if len(got)+len(a.Expected) > 0 && !reflect.DeepEqual(sorted(got), sorted(a.Expected)) {
			t.Errorf("at %s: %s fires as\n%v, want\n%v", at, a.Name, got, a.Expected)
		}
	}
	for _, e := range test.Expressions {
		if e.At == at {
			e.check(t, query)
		}
	}
}

func sorted(all []fired) []fired {
	slices.SortFunc(all, func(a, b fired) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

func (e expressionTest) check(t *testing.T, query rules.QueryFunc) {
	t.Helper()
	samples, err := query(t.Context(), e.Expr, time.Unix(0, 0).Add(time.Duration(e.At)))
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]float64{}, map[string]float64{}
	for _, s := range samples {
		got[s.Metric.String()] = s.F
	}
	for _, s := range e.Expected {
		metric, err := parsing.ParseMetric(s.Labels)
		if err != nil {
			t.Fatal(err)
		}
		want[metric.String()] = s.Value
	}
	if !maps.Equal(got, want) {
		t.Errorf("at %s: %s gives %v, want %v", e.At, e.Expr, got, want)
	}
}
