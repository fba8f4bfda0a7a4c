package sidecar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// value is the sum of a metric over its labels.
func value(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "evenkeel_sidecar_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return sum
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// TestGrantsInFullAreSaid: an increase that should have been split is an event, a number and a
// warning each, and stays on the status page when other decisions have displaced it.
func TestGrantsInFullAreSaid(t *testing.T) {
	registry, events := prometheus.NewRegistry(), told{}
	s := ten()
	s.sidecar.Metrics, s.sidecar.Recorder = sidecar.NewMetrics(registry), events
	for i := range 40 { // one pod each that needs a node
		s.batches = append(s.batches, autoscaler.Batch{At: 20*time.Minute + time.Duration(i)*2*time.Minute, Pods: podsOf(fmt.Sprintf("later-%d", i), 1, 1)})
	}
	w := newWorld(t, s)
	w.journal.err = errors.New("the API server does not answer")
	w.settle(15 * time.Minute)
	if sizes := sorted(w.sizes()); sizes[2]-sizes[0] < 2 {
		t.Fatalf("sizes %v: nothing was granted in full", sizes)
	}
	grants := value(t, registry, "full_grants_total")
	if grants == 0 || float64(events["GrantedInFull"]) != grants {
		t.Errorf("%v grants in full, events %v", grants, events)
	}
	w.journal.err = nil
	w.settle(2 * time.Hour)
	if n := value(t, registry, "full_grants_total"); n != grants {
		t.Errorf("%v grants in full, %v before", n, grants)
	}
	status := w.front.Status()
	if slices.ContainsFunc(status.Decisions, func(d steering.Decision) bool { return d.InFull }) {
		t.Error("the other decisions are too few to displace a grant in full")
	}
	if len(status.InFull) != int(grants) || status.InFull[0].Granted == 0 || !strings.Contains(status.InFull[0].Reason, "does not answer") {
		t.Errorf("the status has %v", status.InFull)
	}
	if !slices.ContainsFunc(status.Warnings, func(w string) bool { return strings.Contains(w, "granted in full") }) {
		t.Errorf("warnings are %q", status.Warnings)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(err, problems)
	}
}
