package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const runbook = "docs/runbook.md"

// alert is one rule of a PrometheusRule.
type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

// alerts returns the alerts that are shipped, by file.
func alerts(t *testing.T) map[string][]alert {
	t.Helper()
	out := map[string][]alert{}
	for _, name := range []string{"configs/controller/monitoring/rules.yaml", "configs/sidecar/monitoring/rules.yaml",
		"configs/expander/monitoring/rules.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Spec struct{ Groups []struct{ Rules []alert } }
		}
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		for _, g := range rules.Spec.Groups {
			out[name] = append(out[name], g.Rules...)
		}
		if len(out[name]) == 0 {
			t.Errorf("%s has no alerts", name)
		}
	}
	return out
}

// foreignMetrics are those in alerts that other libraries or Cluster Autoscaler register.
var foreignMetrics = []string{"leader_election_master_status", "cluster_autoscaler_scaled_up_nodes_total"}

// TestAlertsUseKnownMetrics: the alerts that are shipped ask for metrics that there are.
func TestAlertsUseKnownMetrics(t *testing.T) {
	inRoot(t)
	known := strings.Join(readPage(t, "docs/metrics.md").lines, "\n")
	suffix := regexp.MustCompile("_(bucket|count|sum)$") // of a histogram
	for name, rules := range alerts(t) {
		for _, a := range rules {
			used := regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`).FindAllString(regexp.MustCompile(`\{[^}]*\}|\b(by|on) \([^)]*\)|histogram_quantile`).ReplaceAllString(a.Expr, ""), -1)
			if len(used) == 0 {
				t.Errorf("%s: %s asks for no metric", name, a.Alert)
			}
			for _, metric := range append(used, regexp.MustCompile(`\bevenkeel_[a-z_]+`).FindAllString(a.Annotations["description"], -1)...) {
				if !strings.Contains(known, "| `"+suffix.ReplaceAllString(metric, "")+"` |") && !slices.Contains(foreignMetrics, metric) {
					t.Errorf("%s: %s asks for %s, which docs/metrics.md does not have", name, a.Alert, metric)
				}
			}
		}
	}
}

// TestAlertsHaveARunbook: each alert has an entry in the runbook, to which it links, with what it
// means, what to look at and what to do; and the runbook has no other entries.
func TestAlertsHaveARunbook(t *testing.T) {
	inRoot(t)
	entries := map[string]string{}
	for entry := range strings.SplitSeq("\n"+strings.Join(readPage(t, runbook).lines, "\n"), "\n### ") {
		entry, _, _ = strings.Cut(entry, "\n## ")
		title, text, _ := strings.Cut(entry, "\n")
		entries[title] = text
	}
	delete(entries, "")
	for name, rules := range alerts(t) {
		for _, a := range rules {
			if want := fmt.Sprintf("https://github.com/evenkeel/evenkeel/blob/main/%s#%s", runbook,
				strings.ToLower(a.Alert)); a.Annotations["runbook_url"] != want {
				t.Errorf("%s: %s has the runbook_url %q, want %q", name, a.Alert, a.Annotations["runbook_url"], want)
			}
			for _, part := range []string{"\n- **Means**: ", "\n- **Look at**: ", "\n- **Do**: "} {
				if !strings.Contains(entries[a.Alert], part) {
					t.Errorf("%s: the entry of %s has no %q", runbook, a.Alert, strings.TrimSpace(part))
				}
			}
			delete(entries, a.Alert)
		}
	}
	for title := range entries {
		t.Errorf("%s: there is no alert %s", runbook, title)
	}
}
