package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const runbook = "docs/runbook.md"

// alert is one rule; without a name it is a recording.
type alert struct {
	Alert       string
	Annotations map[string]string
}

// alerts returns the alerts that are shipped, by file.
func alerts(t *testing.T) map[string][]alert {
	t.Helper()
	out := map[string][]alert{}
	names, err := filepath.Glob("configs/charts/evenkeel/files/rules/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no rules", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct{ Groups []struct{ Rules []alert } }
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		for _, g := range rules.Groups {
			out[name] = append(out[name], slices.DeleteFunc(g.Rules, func(a alert) bool { return a.Alert == "" })...)
		}
		if len(out[name]) == 0 {
			t.Errorf("%s has no alerts", name)
		}
	}
	return out
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
