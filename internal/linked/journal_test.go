package linked

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

func newTestJournal() (*Journal, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(start)
	return NewJournal(clock), clock
}

// counting has a journal count in a registry of its own.
func counting(j *Journal) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	j.CountIn(NewMetrics(registry))
	return registry
}

// metricValues are the metrics by name; a histogram is the number of its observations.
func metricValues(t interface{ Fatal(...any) }, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "evenkeel_linked_")
		switch one := f.GetMetric()[0]; f.GetType().String() {
		case "COUNTER":
			out[name] = one.GetCounter().GetValue()
		case "GAUGE":
			out[name] = one.GetGauge().GetValue()
		case "HISTOGRAM":
			out[name] = float64(one.GetHistogram().GetSampleCount())
		}
	}
	return out
}

var anyNode = rapid.Custom(func(t *rapid.T) nodeDecision {
	return nodeDecision{
		Node: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "node")), Group: "g",
		Reason: rapid.SampledFrom([]string{"", reasonLevel, reasonLimit, reasonOverdue}).Draw(t, "reason"),
	}
})

// Counters are the sums over all decisions, also of those the journal has forgotten; the journal
// keeps the newest.
func TestCountersAreSumsOfDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, _ := newTestJournal()
		registry := counting(j)
		want := map[string]float64{"node_groups": 0, "sets": 0, "incomparable_node_groups": 0, "set_size_spread": 0}
		splits := rapid.IntRange(0, 2*remembered).Draw(t, "splits")
		want["splits_total"] = float64(splits)
		for i := range splits {
			size, more := rapid.Int64Range(0, 9).Draw(t, "size"), rapid.Int64Range(0, 9).Draw(t, "more")
			d := splitDecision{Chosen: fmt.Sprint(i), Unplaced: rapid.IntRange(0, 3).Draw(t, "unplaced"),
				Groups: []splitMember{{Name: "a", Size: size, NewSize: size + more}, {Name: "b", Size: 1, NewSize: 1}}}
			if rapid.Bool().Draw(t, "fails") {
				d.LeftOut = []problem{{"c", "away"}}
			}
			j.split(d)
			want["split_nodes_total"] += float64(more)
			want["unplaced_nodes_total"] += float64(d.Unplaced)
			want["left_out_node_groups_total"] += float64(len(d.LeftOut))
		}
		for range rapid.IntRange(0, 9).Draw(t, "rounds") {
			d := shrinkDecision{Removed: rapid.SliceOfN(anyNode, 0, 4).Draw(t, "removed"), Waiting: rapid.SliceOfN(anyNode, 0, 4).Draw(t, "waiting")}
			j.shrunk(d)
			want["scale_down_removed_nodes_total"] += float64(len(d.Removed))
			for _, node := range d.Removed {
				if node.Reason == reasonOverdue {
					want["scale_down_overdue_nodes_total"]++
				}
			}
			want["scale_down_deferred_nodes"] = float64(len(forBalance(d.Waiting)))
		}
		for range rapid.IntRange(0, 4).Draw(t, "comparisons") {
			c := comparison{Groups: rapid.IntRange(0, 9).Draw(t, "groups"), Changed: rapid.IntRange(0, 9).Draw(t, "changed"),
				Sets: [][]string{{"a", "b"}, {"c"}}}
			j.compared(c)
			want["comparison_duration_seconds"]++
			want["templates_changed_total"] += float64(c.Changed)
			want["node_groups"], want["sets"] = float64(c.Groups), 1
		}
		got := metricValues(t, registry)
		for name, value := range got {
			if value != want[name] {
				t.Errorf("%s is %v, want %v", name, value, want[name])
			}
		}
		kept := j.remembers().splits
		if len(kept) != min(splits, remembered) || len(kept) > 0 && kept[len(kept)-1].Chosen != fmt.Sprint(splits-1) {
			t.Errorf("%d of %d splits are kept", len(kept), splits)
		}
	})
}

func TestMetricsAreNamedWellAndDocumented(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	NewMetrics(registry)
	conditions.NewMetrics(registry, MetricsPrefix) // where it writes them
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "custom-autoscaler.md"))
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		row := fmt.Sprintf("| %#q | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp())
		if !strings.Contains(string(manual), row) {
			t.Errorf("the manual has no row\n%s", row)
		}
	}
	if rows := strings.Count(string(manual), "| `evenkeel_linked_"); rows != len(families) {
		t.Errorf("the manual has %d metrics, %d are registered", rows, len(families))
	}
}

// A round that does what the one before did is not worth a line.
func TestUnchangedRoundsAreNotKept(t *testing.T) {
	j, clock := newTestJournal()
	waiting := []nodeDecision{{Node: "n", Group: "b", Reason: reasonLevel, Behind: "a"}}
	for _, step := range []struct {
		d    shrinkDecision
		kept int
	}{
		{shrinkDecision{}, 0},
		{shrinkDecision{Waiting: waiting}, 1},
		{shrinkDecision{Waiting: waiting}, 1},
		{shrinkDecision{Removed: waiting, Waiting: waiting}, 2},
		{shrinkDecision{Waiting: []nodeDecision{{Node: "n", Group: "b", Reason: reasonLimit}}}, 3},
		{shrinkDecision{}, 4},
		{shrinkDecision{}, 4},
	} {
		clock.SetTime(clock.Now().Add(time.Second))
		j.shrunk(step.d)
		if h := j.remembers(); len(h.rounds) != step.kept || !h.last.Time.Equal(clock.Now()) {
			t.Errorf("%+v: %d rounds are kept, the last of %v", step.d, len(h.rounds), h.last.Time)
		}
	}
}

// eventsOf makes the journal write its events to the channel that is returned.
func eventsOf(j *Journal) <-chan string {
	recorder := &eventsRecorder{record.NewFakeRecorder(10)}
	j.WriteEvents(recorder)
	return recorder.Events
}

// eventsRecorder writes events about one object, as the autoscaler's recorder does.
type eventsRecorder struct{ *record.FakeRecorder }

func (r *eventsRecorder) Eventf(kind, reason, format string, args ...any) {
	r.FakeRecorder.Eventf(&v1.ConfigMap{}, kind, reason, format, args...)
}

func TestDecisionsAreToldAsEvents(t *testing.T) {
	var many []splitMember
	for i := range 20 {
		many = append(many, splitMember{Name: fmt.Sprintf("g%d", i), NewSize: 1})
	}
	three := membersOf([]nodegroupset.GroupSplit{
		{Name: "a", Size: 1, NewSize: 4}, {Name: "b", Size: 3, NewSize: 3, Reason: nodegroupset.ReasonAtMax},
		{Name: "c", Size: 2, NewSize: 3, Reason: nodegroupset.ReasonQuota, Detail: "cores"},
	})
	waits := func(names ...string) (out []nodeDecision) {
		for _, name := range names {
			out = append(out, nodeDecision{Node: name, Group: "b", Reason: reasonLevel, Behind: "a", Began: true})
		}
		return out
	}
	still := func(d nodeDecision) nodeDecision {
		d.Began = false
		return d
	}
	for _, test := range []struct {
		name string
		do   func(j *Journal)
		want []string
	}{
		{"a split", func(j *Journal) { j.split(splitDecision{Groups: three}) },
			[]string{"Normal BalancedScaleUp 4 nodes for similar node groups: a 1->4, b 3 (at its maximum), c 2->3 (quota cores)"}},
		{"a split without everybody", func(j *Journal) {
			j.split(splitDecision{Groups: three[:1], Unplaced: 2, LeftOut: problems(map[string]string{"x": "100%", "d": "away"})})
		}, []string{"Warning UnevenScaleUp 3 nodes for similar node groups: a 1->4; no room for 2 more; left out: d (away), x (100%)"}},
		{"a group on its own", func(j *Journal) { j.split(splitDecision{Groups: three[:1]}) }, nil},
		{"a large split", func(j *Journal) { j.split(splitDecision{Groups: many}) },
			[]string{"Normal BalancedScaleUp 20 nodes for similar node groups: g0 0->1, g1 0->1, g2 0->1, g3 0->1, g4 0->1, g5 " +
				"0->1, g6 0->1, g7 0->1, 12 more"}},
		{"nodes that wait, told once", func(j *Journal) {
			j.shrunk(shrinkDecision{Waiting: waits("n1")})
			j.shrunk(shrinkDecision{}) // it is passed over
			j.shrunk(shrinkDecision{Waiting: []nodeDecision{still(waits("n1")[0])}})
			j.shrunk(shrinkDecision{Waiting: append(waits("n2"), still(waits("n1")[0]))})
		}, []string{
			"Normal ScaleDownDeferred may be removed but wait for balance: n1 of b behind a",
			"Normal ScaleDownDeferred may be removed but wait for balance: n2 of b behind a",
		}},
		{"nodes that have waited long enough", func(j *Journal) {
			j.shrunk(shrinkDecision{Removed: []nodeDecision{{Node: "n1", Group: "b", Reason: reasonOverdue}}, Waiting: waits("n2")})
		}, []string{"Warning UnevenScaleDown waited for balance as long as they may and go: n1 of b; may be removed but wait " +
			"for balance: n2 of b behind a"}},
		{"nodes that go", func(j *Journal) { j.shrunk(shrinkDecision{Removed: []nodeDecision{{Node: "n1"}}}) }, nil},
		{"nodes over the limit", func(j *Journal) { j.shrunk(shrinkDecision{Waiting: []nodeDecision{{Node: "n1", Reason: reasonLimit}}}) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			j, _ := newTestJournal()
			events := eventsOf(j)
			test.do(j)
			var got []string
			for len(events) > 0 {
				got = append(got, <-events)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Sizes are read of the groups that have similar ones, and one that fails does not stop the others.
func TestSizesAreReadAtTheEndOfALoop(t *testing.T) {
	j, _ := newTestJournal()
	registry := counting(j)
	j.compared(comparison{Sets: [][]string{{"a", "b", "c"}, {"lone"}}})
	ReadSizes(j, []*testGroup{{id: "a", size: 1}, {id: "b", size: 4}, {id: "c", size: 9, err: errors.New("away")}, {id: "lone", size: 7}})
	want := sizeReading{Sizes: map[string]int{"a": 1, "b": 4}, Failed: map[string]string{"c": "away"}}
	if diff := cmp.Diff(want, j.remembers().sizes); diff != "" {
		t.Error(diff)
	}
	if spread := metricValues(t, registry)["set_size_spread"]; spread != 3 {
		t.Errorf("spread %v", spread)
	}
}

// The page may be read while decisions are made.
func TestTheJournalIsSafeForConcurrentUse(t *testing.T) {
	j, _ := newTestJournal()
	registry := counting(j)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 100 {
				j.split(splitDecision{Groups: []splitMember{{Name: "a", NewSize: 1}}})
				j.shrunk(shrinkDecision{Removed: []nodeDecision{{Node: fmt.Sprint(i)}}})
				j.compared(comparison{Sets: [][]string{{"a", "b"}}, Explain: func() (nodegroupset.Report, error) { return nodegroupset.Report{}, nil }})
				j.sized(sizeReading{Sizes: map[string]int{"a": i}})
				j.remembers().status(start)
			}
		})
	}
	group.Wait()
	if got := metricValues(t, registry)["splits_total"]; got != 400 {
		t.Errorf("%v splits", got)
	}
}
