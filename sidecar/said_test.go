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

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
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

// metered are metrics, and where they are registered.
func metered(t *testing.T) (*prometheus.Registry, *sidecar.Metrics) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := sidecar.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return registry, metrics
}

// TestGrantsInFullAreSaid: an increase that should have been split is an event, a number and a
// warning each, and stays on the status page when other decisions have displaced it.
func TestGrantsInFullAreSaid(t *testing.T) {
	events := told{}
	s := ten()
	registry, metrics := metered(t)
	s.sidecar.Metrics, s.sidecar.Recorder = metrics, events
	for i := range 40 { // one pod each that needs a node
		s.batches = append(s.batches, batch{At: 20*time.Minute + time.Duration(i)*2*time.Minute, Pods: podsOf(fmt.Sprintf("later-%d", i), 1, 1)})
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
	if uneven := w.front.Status().Uneven; len(uneven) != 1 || !strings.Contains(uneven[0].Why, "was increased in full: ") || value(t, registry, "uneven_sets") != 1 || events["SetUneven"] != 1 {
		t.Errorf("uneven sets are %+v, %v, events %v", uneven, value(t, registry, "uneven_sets"), events)
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

// TestWhatIsOnItsWayIsSaid: while a scale-up of 30 nodes goes on, metrics tell what has not been
// granted yet and how old the oldest order is. In the end both are 0, and no set is uneven.
func TestWhatIsOnItsWayIsSaid(t *testing.T) {
	events := told{}
	s := ten()
	registry, metrics := metered(t)
	s.sidecar.Metrics, s.sidecar.Recorder = metrics, events
	w := newWorld(t, s)
	nodes, pods, oldest := 0.0, 0.0, 0.0
	for w.clock.Since(start) < 10*time.Minute {
		w.ca.Step()
		nodes, pods = max(nodes, value(t, registry, "withheld_nodes")), max(pods, value(t, registry, "withheld_pods"))
		oldest = max(oldest, value(t, registry, "oldest_in_flight_seconds"))
		if n := value(t, registry, "uneven_sets"); n != 0 {
			t.Fatalf("%v uneven sets after %s", n, w.clock.Since(start))
		}
	}
	boot := s.cloud.Groups[0].BootTime.Seconds()
	if nodes != 20 || pods != 20 || oldest < boot/2 || oldest > boot+60 {
		t.Errorf("up to %v nodes for %v pods withheld, the oldest on its way for %v s of %v", nodes, pods, oldest, boot)
	}
	for _, name := range []string{"withheld_nodes", "withheld_pods", "oldest_in_flight_seconds", "in_flight_nodes", "taken_back_nodes_total", "full_grants_total"} {
		if n := value(t, registry, name); n != 0 {
			t.Errorf("%s is %v in the end", name, n)
		}
	}
	if events["SetUneven"]+events["GrantedInFull"] != 0 {
		t.Errorf("events %v", events)
	}
}

// TestAMemberThatFailsIsSaid: what was taken back is counted, and the set that is uneven for it says
// which member is the reason.
func TestAMemberThatFailsIsSaid(t *testing.T) {
	events := told{}
	registry, metrics := metered(t)
	s := setup{
		seed: 1, sidecar: sidecar.Options{Metrics: metrics, Recorder: events},
		cloud: fake.Config{Groups: zones(0, 0, 0), StockOuts: []v1alpha1.StockOut{{
			Groups: []string{"b"}, FaultWindow: during(0, 5*time.Minute), Mode: fake.NeverRegisters,
		}}},
		batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}},
	}
	w := newWorld(t, s.provisioned(2*time.Minute))
	for w.clock.Since(start) < 4*time.Minute {
		w.ca.Step()
	}
	if n := value(t, registry, "taken_back_nodes_total"); n != 3 {
		t.Errorf("%v nodes were taken back", n)
	}
	uneven := w.front.Status().Uneven
	if len(uneven) != 1 || !strings.Contains(uneven[0].Why, "b has 0 of 3: backed off until") || value(t, registry, "uneven_sets") != 1 {
		t.Errorf("uneven sets are %+v", uneven)
	}
	if events["SetUneven"] != 1 {
		t.Errorf("events %v", events)
	}
}
