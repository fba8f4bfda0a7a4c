package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/balancer/reconcile"
	deletion "github.com/evenkeel/evenkeel/deletioncost/reconcile"
	"github.com/evenkeel/evenkeel/federation/members"
	federation "github.com/evenkeel/evenkeel/federation/reconcile"
	"github.com/evenkeel/evenkeel/internal/controller"
	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/webhooks"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/workloadspread/admission"
	spread "github.com/evenkeel/evenkeel/workloadspread/reconcile"
	"github.com/evenkeel/evenkeel/workloadspread/schedule"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// metricsPage is all metrics, by the functions that register them.
var metricsPage = []struct {
	title    string
	register func(prometheus.Registerer)
}{
	{"Servers and connections", func(r prometheus.Registerer) { _, _ = serving.NewMetrics(r) }},
	{"evenkeel expander", func(r prometheus.Registerer) { _, _ = sidecar.NewExpanderMetrics(r) }},
	{"evenkeel sidecar", func(r prometheus.Registerer) {
		_, _ = sidecar.NewMetrics(r) // a catalog takes all
		conditions.NewMetrics(r, sidecarMetrics)
	}},
	{"evenkeel controller", func(r prometheus.Registerer) {
		_, _ = controller.NewMetrics(r)
		_, _ = reconcile.NewMetrics(r)
		_, _ = members.NewMetrics(r)
		_, _ = federation.NewMetrics(r)
		_, _ = webhooks.NewMetrics(r)
		_, _ = admission.NewMetrics(r)
		_, _ = schedule.NewMetrics(r)
		_, _ = spread.NewMetrics(r)
		_, _ = store.NewMetrics(r)
		_, _ = deletion.NewMetrics(r)
	}},
}

// TestDocumentedMetrics: docs/metrics.md ends with tables of what is registered.
// -update writes them.
func TestDocumentedMetrics(t *testing.T) {
	inRoot(t)
	p := readPage(t, "docs/metrics.md")
	var want []string
	for _, section := range metricsPage {
		var c catalog
		section.register(&c)
		want = append(want, "## "+section.title, "")
		want = append(want, c.table(t)...)
		want = append(want, "")
	}
	from := slices.IndexFunc(p.lines, func(line string) bool { return strings.HasPrefix(line, "## ") })
	if from < 0 {
		from = len(p.lines)
	}
	if slices.Equal(p.lines[from:], want) {
		return
	}
	if !*update {
		t.Fatal("the tables of metrics are stale: run go test ./cmd/evenkeel -run DocumentedMetrics -update")
	}
	p.lines = append(p.lines[:from:from], want...)
	p.write(t)
}

// catalog is a registry that only notes what it is given.
type catalog []prometheus.Collector

func (c *catalog) Register(collector prometheus.Collector) error {
	*c = append(*c, collector)
	return nil
}

func (c *catalog) MustRegister(collectors ...prometheus.Collector) { *c = append(*c, collectors...) }

func (c *catalog) Unregister(prometheus.Collector) bool { return false }

// table is a row for each metric, by name.
func (c *catalog) table(t *testing.T) []string {
	rows := map[string]string{}
	for _, collector := range *c {
		for _, desc := range describe(collector) {
			m, err := parseDesc(desc)
			if err != nil {
				t.Fatal(err)
			}
			if rows[m.name] != "" {
				t.Errorf("%s is registered twice", m.name)
			}
			rows[m.name] = fmt.Sprintf("| %#q | %s | %s | %s |", m.name, kind(collector, m.name), m.labels, strings.ReplaceAll(m.help, "|", `\|`))
		}
	}
	lines := []string{"| metric | type | labels | meaning |", "|---|---|---|---|"}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		lines = append(lines, rows[name])
	}
	return lines
}

func describe(collector prometheus.Collector) []*prometheus.Desc {
	descs := make(chan *prometheus.Desc)
	go func() {
		collector.Describe(descs)
		close(descs)
	}()
	var all []*prometheus.Desc
	for desc := range descs {
		all = append(all, desc)
	}
	return all
}

// kind returns the type of the metrics of a collector. Counters are recognized by their names,
// which the linter of Prometheus checks.
func kind(collector prometheus.Collector, name string) string {
	switch collector.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

type metricDesc struct{ name, help, labels string }

// parseDesc reads what a description describes itself, as it has no other way.
func parseDesc(desc *prometheus.Desc) (metricDesc, error) {
	found := regexp.MustCompile(`^Desc\{fqName: "(.*)", help: "(.*?)"(?:, unit: ".*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`).FindStringSubmatch(desc.String())
	if found == nil {
		return metricDesc{}, errors.New("not a description: " + desc.String())
	}
	var labels []string
	for _, name := range strings.FieldsFunc(found[3]+","+found[4], func(r rune) bool { return r == ',' }) {
		name, _, _ = strings.Cut(name, "=")
		labels = append(labels, "`"+strings.Trim(name, " ")+"`")
	}
	return metricDesc{name: found[1], help: strings.ReplaceAll(found[2], `\"`, `"`), labels: strings.Join(labels, ", ")}, nil
}
