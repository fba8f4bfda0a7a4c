package mixin

import (
	"encoding/json"
	"strings"
	"testing"
)

type dashboard struct {
	UID, Title, Description string
	Templating              struct{ List []struct{ Name, Type string } }
	Panels                  []panel
}

type panel struct {
	ID                 int
	Title, Description string
	Datasource         struct{ UID string }
	GridPos            struct{ X, Y, W, H int }
	Targets            []struct {
		Expr, LegendFormat, RefID string
		Datasource                struct{ UID string }
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	out := map[string]dashboard{}
	for name, text := range evaluated(t).Dashboards {
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = d
	}
	if len(out) < 4 {
		t.Fatalf("there are %d dashboards, want 4", len(out))
	}
	return out
}

// TestDashboardsUseDocumentedMetrics: each expression of a panel parses, and asks for metrics that docs/metrics.md has.
func TestDashboardsUseDocumentedMetrics(t *testing.T) {
	known := documented(t)
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			if len(p.Targets) == 0 {
				t.Errorf("%s: %s shows nothing", name, p.Title)
			}
			for _, target := range p.Targets {
				for _, metric := range metrics(t, name+": "+p.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")) {
					if !known[metric] && !known[suffix.ReplaceAllString(metric, "")] {
						t.Errorf("%s: %s asks for %s, which docs/metrics.md does not have", name, p.Title, metric)
					}
				}
			}
		}
	}
}

// TestGrafanaCanImportDashboards: each has an identity of its own, a choice of the source, which all panels use, and panels that say
// what they show and do not lie on one another.
func TestGrafanaCanImportDashboards(t *testing.T) {
	uids := map[string]string{}
	for name, d := range dashboards(t) {
		if name != d.UID+".json" || uids[d.UID] != "" || len(d.UID) > 40 || d.Title == "" || d.Description == "" {
			t.Errorf("%s: the uid %q must be the name of the file and be there once, with title %q and description %q", name, d.UID, d.Title,
				d.Description)
		}
		uids[d.UID] = name
		if list := d.Templating.List; len(list) == 0 || list[0].Name != "datasource" || list[0].Type != "datasource" {
			t.Errorf("%s: the first variable must be the datasource: %v", name, list)
		}
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: panel %d %q needs an id of its own, a title, a description, and the variable as its source", name, p.ID, p.Title)
			}
			ids[p.ID] = true
			if g := p.GridPos; g.W < 1 || g.H < 1 || g.X+g.W > 24 {
				t.Errorf("%s: %s is not within the 24 columns: %v", name, p.Title, g)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Errorf("%s: %s lies on %s", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			p.checkTargets(t, name)
		}
	}
}

func (p panel) checkTargets(t *testing.T, name string) {
	t.Helper()
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if refs[target.RefID] || target.Datasource.UID != "${datasource}" || len(p.Targets) > 1 && target.LegendFormat == "" {
			t.Errorf("%s: %s: a target needs a refId of its own, the variable as its source, and a legend: %+v", name, p.Title, target)
		}
		refs[target.RefID] = true
	}
}
