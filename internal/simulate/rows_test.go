package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/configs/scenarios"
)

// TestRowsNeedNoParsing plays every scenario that comes with the program: what the
// text of a row says stands in its fields too.
func TestRowsNeedNoParsing(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range scenarios.Names() {
		for _, row := range run(t, builtIn(t, name)).Status.Timeline {
			seen[row.What] = true
			for _, word := range wordsOf(row) {
				if !strings.Contains(row.Text, word) {
					t.Errorf("%s: %q does not say %q of its fields: %+v", name, row.Text, word, row)
				}
			}
			if len(wordsOf(row)) == 0 {
				t.Errorf("%s: %s row %q has no fields", name, row.What, row.Text)
			}
		}
	}
	for _, what := range []string{
		v1alpha1.RowPods, v1alpha1.RowBound, v1alpha1.RowNodesReady, v1alpha1.RowNodesLost, v1alpha1.RowScaleUp,
		v1alpha1.RowScaleDown, v1alpha1.RowWaiting, v1alpha1.RowRefused, v1alpha1.RowRepair, v1alpha1.RowUnhelped, v1alpha1.RowWarning,
		v1alpha1.RowZoneShifted, v1alpha1.RowZoneReturned, v1alpha1.RowRollout, v1alpha1.RowSubset,
	} {
		if !seen[what] {
			t.Errorf("no scenario has a row %s", what)
		}
	}
}

// wordsOf are the parts of a row's text, made from its fields.
func wordsOf(row v1alpha1.TimelineRow) []string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	groups := row.Groups[:min(len(row.Groups), 8)] // the text names no more
	switch row.What {
	case v1alpha1.RowPods:
		add("%d pod", row.Pods)
		if row.Workload != "" {
			add("of %s", strings.TrimPrefix(row.Workload, "default/"))
		}
		for _, subset := range row.Subsets {
			add("%s %d", subset.Name, subset.Pods)
		}
	case v1alpha1.RowSidecar:
		add("%s", row.Reason)
	case v1alpha1.RowBound:
		add("%d pod", row.Pods)
		add("%d pending", *row.Pending)
	case v1alpha1.RowNodesReady, v1alpha1.RowNodesLost:
		add("%d node", row.Nodes)
		for _, g := range groups {
			add("%s %d", g.Name, g.Nodes)
		}
	case v1alpha1.RowScaleUp, v1alpha1.RowScaleDown:
		for _, g := range groups {
			add("%s %d→%d", g.Name, *g.From, *g.To)
		}
		add("%d", row.Nodes)
		if row.ScaleUp != nil {
			add("for %d pod", row.Pods)
		}
	case v1alpha1.RowWaiting:
		add("%s has unneeded nodes, but %s", row.Groups[0].Name, row.Groups[0].Behind)
	case v1alpha1.RowRefused:
		add("%s %+d: %s", row.Groups[0].Name, row.Groups[0].Nodes, row.Error)
	case v1alpha1.RowRepair:
		add("%s: ", row.Groups[0].Name)
		add(": %s", row.Reason)
	case v1alpha1.RowUnhelped:
		add("%s", row.Example)
		add("%s", row.Reason)
		for _, r := range row.Rejections[:min(len(row.Rejections), 3)] {
			add("%s", r.Reason)
		}
	case v1alpha1.RowZoneShifted, v1alpha1.RowZoneReturned:
		add("%s", row.Domain)
		add("%s", row.Reason)
		if row.Until != nil {
			add("until +%s", row.Until.Duration)
		}
	case v1alpha1.RowRollout:
		add("of %s", strings.TrimPrefix(row.Workload, "default/"))
	case v1alpha1.RowSubset:
		add("%s", strings.TrimPrefix(row.Workload, "default/"))
		add("%s", row.Domain)
		for _, subset := range row.Subsets {
			add("%s %d", subset.Name, subset.Pods)
		}
		if row.Until != nil {
			add("until +%s", row.Until.Duration)
		}
	case v1alpha1.RowWarning:
		add("%s", row.Reason+row.Error)
	case v1alpha1.RowError:
		add("%s", row.Error)
	}
	return words
}

// TestRowsNameTheirFaults: rows that a fault is behind say which one it was, and
// a refusal for another reason names none.
func TestRowsNameTheirFaults(t *testing.T) {
	setup, err := loadWith(scenario(`machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups:
- {name: a, zone: x, machine: m, size: 1, max: 9}
- {name: b, zone: y, machine: m, size: 1, max: 9}
- {name: c, zone: z, machine: m, size: 1, max: 9}
workloads: [{name: web, replicas: 9, requests: {cpu: 1500m}}]
faults:
  stockOuts: [{groups: [a], from: 1h}, {groups: [a], until: 10m}]
  outages: [{zones: [y], from: 20m, until: 30m}]
  calls: [{methods: [IncreaseSize], groups: [c], until: 5m, error: "too many requests"}]`))
	if err != nil {
		t.Fatal(err)
	}
	report := run(t, setup)
	got := map[string][]int{}
	for _, row := range report.Status.Timeline {
		if len(row.Groups) == 1 && (row.Error != "" || row.What == v1alpha1.RowNodesLost) {
			key := row.What + " " + row.Groups[0].Name
			got[key] = slices.Compact(slices.Sorted(slices.Values(append(got[key], row.Faults...))))
		}
	}
	if diff := cmp.Diff(map[string][]int{"refused a": {1}, "refused c": {3}, "nodes-lost b": {2}}, got); diff != "" {
		t.Errorf("faults by row (-want +got):\n%s", diff)
	}
	kinds := []string{}
	for _, f := range report.Status.Faults {
		kinds = append(kinds, f.Kind+" "+f.Mode)
	}
	if want := []string{"StockOut Refuse", "StockOut Refuse", "Outage Unready", "Call "}; !slices.Equal(kinds, want) {
		t.Errorf("faults %q, want %q", kinds, want)
	}
}

// TestGroupsWithoutAPriceAreNamed: their nodes are not in the cost.
func TestGroupsWithoutAPriceAreNamed(t *testing.T) {
	setup, err := loadWith(scenario(`duration: 1h
machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups:
- {name: a, machine: m, size: 2, max: 9, price: 0.5}
- {name: b, machine: m, size: 3, max: 9}
workloads: [{name: web, replicas: 5, requests: {cpu: 1500m}, arrive: 1h}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.Cost{Total: "1", PerHour: "1", HighestPerHour: "1", Unpriced: []string{"b"}}
	if diff := cmp.Diff(want, run(t, setup).Status.Cost); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
}
