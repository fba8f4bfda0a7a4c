package sidecar_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"

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
	for i := range 80 { // one pod each that needs a node
		s.batches = append(s.batches, batch{At: 20*time.Minute + time.Duration(i)*2*time.Minute, Pods: podsOf(fmt.Sprintf("later-%d", i), 1, 1)})
	}
	w := newHarness(t, s)
	w.journal.err = errors.New("the API server does not answer")
	w.settle(15 * time.Minute)
	if sizes := sorted(w.sizes()); sizes[2]-sizes[0] < 2 {
		t.Fatalf("sizes %v: nothing was granted in full", sizes)
	}
	grants := value(t, registry, "full_grants_total")
	if grants == 0 || float64(events["GrantedInFull"]) != grants {
		t.Errorf("%v grants in full, events %v", grants, events)
	}
	if uneven := w.front.Status().Uneven; len(uneven) != 1 || !strings.Contains(uneven[0].Why, "was increased in full: ") ||
		value(t, registry, "uneven_sets") != 1 || events["SetUneven"] != 1 {
		t.Errorf("uneven sets are %+v, %v, events %v", uneven, value(t, registry, "uneven_sets"), events)
	}
	apart := 0
	for _, u := range w.front.Status().Uneven {
		for _, m := range u.Members {
			apart += max(0, m.NewSize-m.Size)
		}
	}
	if n := value(t, registry, "set_uneven_nodes"); n == 0 || n != float64(apart) {
		t.Errorf("%v uneven nodes of the set, the status has %d", n, apart)
	}
	w.journal.err = nil
	w.settle(4 * time.Hour)
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
	w := newHarness(t, s)
	nodes, pods, oldest := 0.0, 0.0, 0.0
	for w.clock.Since(start) < 10*time.Minute {
		w.ca.Step()
		nodes, pods = max(nodes, value(t, registry, "withheld_nodes")), max(pods, value(t, registry, "withheld_pods"))
		oldest = max(oldest, value(t, registry, "oldest_in_flight_seconds"))
		if all, ofSet := value(t, registry, "withheld_pods"), value(t, registry, "set_withheld_pods"); all != ofSet {
			t.Fatalf("%v pods wait, %v of them for the only set", all, ofSet)
		}
		if n := value(t, registry, "uneven_sets"); n != 0 {
			t.Fatalf("%v uneven sets after %s", n, w.clock.Since(start))
		}
	}
	boot := s.cloud.Groups[0].BootTime.Seconds()
	if nodes != 20 || pods != 20 || oldest < boot/2 || oldest > boot+60 {
		t.Errorf("up to %v nodes for %v pods withheld, the oldest on its way for %v s of %v", nodes, pods, oldest, boot)
	}
	for _, name := range []string{"withheld_nodes", "withheld_pods", "oldest_in_flight_seconds", "in_flight_nodes", "taken_back_nodes_total",
		"full_grants_total"} {
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
	w := newHarness(t, s.provisioned(2*time.Minute))
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
	b := w.front.Status().Groups[1].Backoff
	if !regexp.MustCompile(`^boot, first at 2026-08-01T12:02:\d\dZ, tried again at 2026-08-01T12:07:\d\dZ: 3 instances never became nodes$`).MatchString(b) {
		t.Errorf("b is backed off: %s", b)
	}
}

// TestPodsThatWantItUnevenAreNoWarning: where pods are pinned to a zone the event says so, and is none
// that somebody should look at.
func TestPodsThatWantItUnevenAreNoWarning(t *testing.T) {
	var said []string
	pinned := podsOf("p", 6, 1)
	for _, pod := range pinned {
		pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "b"}
	}
	s := setup{seed: 1, cloud: fake.Config{Groups: zones(0, 0, 0)}, batches: []batch{{At: 3 * time.Second, Pods: pinned}}}
	s.sidecar.Recorder = sentences(func(warning bool, reason, message string) {
		said = append(said, fmt.Sprint(warning, " ", reason, ": ", message))
	})
	w := newHarness(t, s)
	if state := w.settle(10 * time.Minute); fmt.Sprint(state.Sizes()) != "[0 6 0]" {
		t.Fatalf("sizes %v\n%s", state.Sizes(), w.log())
	}
	want := "false SetUneven: The set of node group a is uneven after a scale-up: a has 0 of 2: no pod that needed nodes can run there"
	if len(said) != 1 || said[0] != want {
		t.Errorf("%q, want %q", said, want)
	}
}

type sentences func(warning bool, reason, message string)

func (s sentences) Event(warning bool, reason, message string) { s(warning, reason, message) }

// TestAnOutageIsLogged: when the cloud begins to fail and when it can be read again, once each.
func TestAnOutageIsLogged(t *testing.T) {
	var lines []string
	s := ten()
	s.cloud.Calls = []v1alpha1.CallFault{{FaultWindow: during(5*time.Minute, 5*time.Minute+30*time.Second), Error: "boom"}}
	s.sidecar.Log = funcr.New(func(_, line string) {
		if strings.Contains(line, "cloud can") {
			lines = append(lines, line)
		}
	}, funcr.Options{})
	w := newHarness(t, s)
	w.ca.Run(5*time.Minute + 15*time.Second)
	if status := w.front.Status(); status.Ready || !strings.Contains(status.NotReady, "has not answered since 2026-08-01T12:05:") {
		t.Errorf("ready %t: %q", status.Ready, status.NotReady)
	}
	w.ca.Run(10 * time.Minute)
	if len(lines) != 2 || !strings.Contains(lines[0], "cannot be read") ||
		!regexp.MustCompile(`can be read again" "after"="(2\d|3\d)s"`).MatchString(lines[1]) {
		t.Errorf("%q", lines)
	}
}

// TestAGroupThatCannotBeReadIsSaid: by an event, a number and a warning, all of which go when it can be
// read again. A single call that is lost is none.
func TestAGroupThatCannotBeReadIsSaid(t *testing.T) {
	events := told{}
	registry, metrics := metered(t)
	s := ten()
	s.sidecar.Metrics, s.sidecar.Recorder = metrics, events
	s.cloud.Calls = []v1alpha1.CallFault{
		{Methods: []string{fake.MethodTargetSize}, Groups: []string{"a"}, FaultWindow: during(4*time.Minute, 5*time.Minute), First: 1,
			Error: "lost"},
		{Methods: []string{fake.MethodTargetSize}, Groups: []string{"b"}, FaultWindow: during(6*time.Minute, 7*time.Minute), Error: "boom"},
	}
	w := newHarness(t, s)
	for _, step := range []struct {
		at   time.Duration
		said float64
	}{{6 * time.Minute, 0}, {6*time.Minute + 50*time.Second, 1}, {8 * time.Minute, 0}} {
		w.ca.Run(step.at)
		status := w.front.Status()
		warned := slices.ContainsFunc(status.Warnings, func(w string) bool {
			return strings.Contains(w, "Node group b has not been readable since 2026-08-01T12:06:")
		})
		if value(t, registry, "unreadable_node_groups") != step.said || warned != (step.said > 0) || len(status.Warnings) != int(step.said) {
			t.Errorf("after %s: %v, warnings %q", step.at, value(t, registry, "unreadable_node_groups"), status.Warnings)
		}
	}
	if events["NodeGroupUnreadable"] != 1 || events["NodeGroupReadable"] != 1 {
		t.Errorf("events %v", events)
	}
}

// TestTheSetThatPodsWaitForIsNamed on the status page.
func TestTheSetThatPodsWaitForIsNamed(t *testing.T) {
	s := ten()
	w := newHarness(t, s)
	var sets []string
	for w.clock.Since(start) < 2*time.Minute {
		w.ca.Step()
		if waits := w.front.Status().Withheld; waits != nil {
			sets = waits.Sets
		}
	}
	if fmt.Sprint(sets) != "[a]" {
		t.Errorf("pods wait for the sets %v", sets)
	}
}
