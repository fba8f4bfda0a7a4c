// Package mixin renders the jsonnet beside it: rules for Prometheus, and dashboards for Grafana. The Helm chart contains what it makes.
package mixin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-jsonnet"
)

// A Group has the rules that Prometheus evaluates one after the other.
type Group struct {
	Name  string
	Rules []Rule
}

// A Rule is an alert, or records what an expression gives as a metric of its own.
type Rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

// Mixin is what jsonnet gives.
type Mixin struct {
	Groups     []Group
	Dashboards map[string]json.RawMessage // by the names of their files
}

// Evaluate reads the mixin in a folder.
func Evaluate(folder string) (Mixin, error) {
	text, err := jsonnet.MakeVM().EvaluateFile(filepath.Join(folder, "rendered.jsonnet"))
	if err != nil {
		return Mixin{}, err // it has the file and the line
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var out Mixin
	if err := decoder.Decode(&out); err != nil {
		return Mixin{}, fmt.Errorf("the mixin: %w", err)
	}
	return out, nil
}

// Files returns what the chart contains of the mixin, by the names in its folder files: rules/COMPONENT.yaml, which Prometheus can load,
// and dashboards/NAME.json, which Grafana can.
func (m Mixin) Files() (map[string]string, error) {
	out := map[string]string{}
	for _, g := range m.Groups {
		component, found := strings.CutPrefix(g.Name, "evenkeel-")
		if !found {
			return nil, fmt.Errorf("group %s: the name must begin with evenkeel- and a component", g.Name)
		}
		component, _, _ = strings.Cut(component, ".")
		name := "rules/" + component + ".yaml"
		if out[name] == "" {
			out[name] = "groups:\n"
		}
		out[name] += g.yaml()
	}
	for name, dashboard := range m.Dashboards {
		var text bytes.Buffer
		if err := json.Indent(&text, dashboard, "", "  "); err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", name, err)
		}
		out["dashboards/"+name] = text.String() + "\n"
	}
	return out, nil
}

// yaml is the group as people write one: the fields in the usual order, and quotes only where they are needed.
func (g Group) yaml() string {
	var b bytes.Buffer
	line := func(indent int, name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%*s%s: %s\n", indent, "", name, scalar(value))
		}
	}
	line(0, "- name", g.Name)
	b.WriteString("  rules:\n")
	for _, r := range g.Rules {
		line(2, "- alert", r.Alert)
		line(2, "- record", r.Record)
		line(4, "expr", r.Expr)
		line(4, "for", r.For)
		if severity := r.Labels["severity"]; severity != "" {
			fmt.Fprintf(&b, "    labels: {severity: %s}\n", severity)
		}
		if len(r.Annotations) > 0 {
			b.WriteString("    annotations:\n")
		}
		for _, name := range []string{"runbook_url", "summary", "description"} {
			line(6, name, r.Annotations[name])
		}
	}
	return b.String()
}

// scalar quotes a string that YAML would take for something else.
func scalar(text string) string {
	if strings.ContainsAny(text[:1], `{}[]"'&*!|>%@`+"`"+`#-?:,`) || strings.Contains(text, ": ") || strings.Contains(text, " #") {
		quoted, _ := json.Marshal(text) // a string
		return string(quoted)
	}
	return text
}
