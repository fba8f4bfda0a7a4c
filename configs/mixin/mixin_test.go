package mixin

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-jsonnet/formatter"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

func evaluated(t *testing.T) Mixin {
	t.Helper()
	m, err := Evaluate(".")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestChartHasTheMixin: make generate was run.
func TestChartHasTheMixin(t *testing.T) {
	all, err := evaluated(t).Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		got, err := os.ReadFile("../charts/evenkeel/files/" + name)
		if err != nil || string(got) != want {
			t.Errorf("%s is not what the mixin gives (make generate): %v", name, err)
		}
	}
}

// TestFilesSayWhatTheMixinSays: nothing of a rule is lost or changed on the way into YAML.
func TestFilesSayWhatTheMixinSays(t *testing.T) {
	m := evaluated(t)
	all, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]Rule{}
	for name, text := range all {
		if !strings.HasPrefix(name, "rules/") {
			continue
		}
		var file struct{ Groups []Group }
		if err := yaml.UnmarshalStrict([]byte(text), &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				read[g.Name+" "+r.Alert+r.Record] = r
			}
		}
	}
	for _, g := range m.Groups {
		for _, r := range g.Rules {
			got := read[g.Name+" "+r.Alert+r.Record]
			if got.Expr != r.Expr || got.For != r.For || !maps.Equal(got.Labels, r.Labels) || !maps.Equal(got.Annotations, r.Annotations) {
				t.Errorf("%s, %s%s is read as\n%+v, want\n%+v", g.Name, r.Alert, r.Record, got, r)
			}
			delete(read, g.Name+" "+r.Alert+r.Record)
		}
	}
	if len(read) > 0 {
		t.Errorf("the files have more: %v", read)
	}
}

// foreign are metrics that Cluster Autoscaler or other libraries register.
var foreign = map[string]bool{"leader_election_master_status": true, "cluster_autoscaler_scaled_up_nodes_total": true}

// documented are the metrics of docs/metrics.md, and those of a linked build.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	out := maps.Clone(foreign)
	row := regexp.MustCompile("(?m)^\\| (`[a-z0-9_:]+`(, )?)+ \\|")
	for _, name := range []string{"metrics.md", "custom-autoscaler.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, names := range row.FindAllString(string(page), -1) {
			for _, name := range regexp.MustCompile("[a-z0-9_:]+").FindAllString(names, -1) {
				out[name] = true
			}
		}
	}
	if len(out) < 80 {
		t.Fatalf("only %d metrics are found on the page", len(out))
	}
	return out
}

var suffix = regexp.MustCompile("_(bucket|count|sum)$") // of a histogram

// metrics are those that an expression asks for.
func metrics(t *testing.T, from, expr string) []string {
	t.Helper()
	parsed, err := parsing.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", from, err)
		return nil
	}
	var out []string
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if s, is := n.(*parser.VectorSelector); is {
			out = append(out, s.Name)
		}
		return nil
	})
	if len(out) == 0 {
		t.Errorf("%s: %s asks for no metric", from, expr)
	}
	return out
}

// TestRulesUseDocumentedMetrics: each expression parses, and asks for metrics that docs/metrics.md has; descriptions name no others.
func TestRulesUseDocumentedMetrics(t *testing.T) {
	known := documented(t)
	for _, g := range evaluated(t).Groups {
		for _, r := range g.Rules {
			described := regexp.MustCompile(`\bevenkeel_[a-z_]+`).FindAllString(r.Annotations["description"], -1)
			for _, metric := range append(metrics(t, r.Alert+r.Record, r.Expr), described...) {
				if !known[metric] && !known[suffix.ReplaceAllString(metric, "")] {
					t.Errorf("%s%s asks for %s, which docs/metrics.md does not have", r.Alert, r.Record, metric)
				}
			}
			if r.Record != "" && !known[r.Record] {
				t.Errorf("docs/metrics.md does not have %s", r.Record)
			}
		}
	}
}

// TestEachRuleHasTests: for each alert there is a time at which it fires, and one before at which it does not; for each recording there
// is a value.
func TestEachRuleHasTests(t *testing.T) {
	fires, waits, recorded := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, file := range testFiles(t) {
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
				waits[a.Name] = waits[a.Name] || len(a.Expected) == 0
			}
			for _, e := range test.Expressions {
				recorded[e.Expr] = recorded[e.Expr] || len(e.Expected) > 0
			}
		}
	}
	for _, g := range evaluated(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" && (!fires[r.Alert] || !waits[r.Alert]) {
				t.Errorf("tests: there is no test where %s fires, or none where it does not", r.Alert)
			}
			if r.Record != "" && !recorded[r.Record] {
				t.Errorf("tests: there is no test with a value of %s", r.Record)
			}
		}
	}
}

// TestEachAlertHasAPage: the link of an alert leads to its section of the runbook.
func TestEachAlertHasAPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range evaluated(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" && (!strings.HasSuffix(r.Annotations["runbook_url"], "/docs/runbook.md#"+strings.ToLower(r.Alert)) ||
				!strings.Contains(string(page), "\n### "+r.Alert+"\n")) {
				t.Errorf("%s: the runbook has no such section, or the link is another: %s", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
}

// TestSelector: a matcher that a user sets is in each selector of each expression.
func TestSelector(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	text := `(import 'shipped.libsonnet') + { _config+:: { selector: 'cluster="one"' } }`
	if err := os.Rename(filepath.Join(folder, "mixin.libsonnet"), filepath.Join(folder, "shipped.libsonnet")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "mixin.libsonnet"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Evaluate(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range m.Dashboards {
		if bare := regexp.MustCompile(`"expr": "[^"]*\bevenkeel_[a-z_]+[^a-z_:{]`).Find(text); bare != nil {
			t.Errorf("%s: a metric has no selector: %s", name, bare)
		}
	}
	for _, g := range m.Groups {
		for _, r := range g.Rules {
			if n := len(metrics(t, r.Alert+r.Record, r.Expr)); strings.Count(r.Expr, `cluster="one"`) != n {
				t.Errorf("%s%s: %s has %d metrics, and not each has the matcher", r.Alert, r.Record, r.Expr, n)
			}
		}
	}
}

// TestFormat: the files are formatted as jsonnetfmt does.
func TestFormat(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "sonnet") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		want, err := formatter.Format(name, string(text), formatter.DefaultOptions())
		if err == nil && want != string(text) {
			t.Errorf("%s is not formatted, want\n%s", name, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
