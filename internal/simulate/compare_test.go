package simulate_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// TestCompareOverEqualTimes plays a scenario that settles at once and one that
// orders a node late: what the first one ends with counts on to the end of the other.
func TestCompareOverEqualTimes(t *testing.T) {
	played := func(spec string) *v1alpha1.ScenarioReport {
		setup, err := loadWith(scenario(spec))
		if err != nil {
			t.Fatal(err)
		}
		return run(t, setup)
	}
	const groups = `machines: [{name: m, price: 3, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups: [{name: a, zone: x, machine: m, size: 2, max: 2}, {name: b, zone: y, machine: m, size: 1, max: 2}]
`
	baseline := played(groups + "workloads: [{name: web, replicas: 4, requests: {cpu: 1500m}}]\noptions: {maxNodesTotal: 3}")
	changed := played(groups + "workloads: [{name: web, replicas: 4, requests: {cpu: 1500m}, leave: 1h}]\noptions: {maxNodesTotal: 4}")
	c := simulate.Compare(baseline, changed, []v1alpha1.ChangedOption{{Name: "maxNodesTotal", Baseline: json.RawMessage("3"),
		Changed: json.RawMessage("4")}})
	got := map[string][3]json.Number{}
	for _, f := range c.Status.Figures {
		got[f.Name] = [3]json.Number{f.Baseline, f.Changed, f.Difference}
	}
	want := map[string][3]json.Number{
		"nodesOrdered": {"0", "1", "1"}, "nodesRemoved": {"0", "0", "0"}, "nodesAtEnd": {"3", "4", "1"}, "nodesReadyAtMost": {"3", "4", "1"},
		"nodesOrderedUnused": {"0", "0", "0"}, "nodeHours": {"3", "3.980556", "0.980556"}, "increases": {"0", "1", "1"},
		"podsMovedByScaleDown": {"0", "0", "0"},
		"cloudCalls":           {"34", "201", "167"}, "podsEvicted": {"0", "0", "0"},
		"scaleUps": {"0", "1", "1"}, "podsRunning": {"3", "0", "-3"}, "podsPending": {"1", "0", "-1"},
		"pendingPodSeconds":    {"3600", "70", "-3530"}, // the whole hour, and the minute and a loop until the node is ready
		"pendingSecondsMedian": {"0", "0", "0"}, "pendingSecondsLongest": {"0", "70", "70"}, "pendingSecondsP99": {"0", "70", "70"},
		"unevennessLargest": {"1", "1", "0"}, "unevennessMean": {"1", "0.003", "-0.997"}, // until the scale-up
		"unevennessAtEnd":  {"1", "0", "-1"},
		"costTotal":        {"9", "11.958333", "2.958333"}, // 3 nodes for an hour, and a fourth from when it has booted
		"costPerHourAtEnd": {"9", "12", "3"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if g := c.Status.Groups[1]; g.Name != "b" || g.Baseline != 1 || g.Changed != 2 || g.Difference != 1 {
		t.Errorf("group %+v", g)
	}
	further := simulate.Compare(baseline, changed, nil, changed, baseline)
	for _, f := range further.Status.Figures {
		if len(f.Further) != 2 || f.Further[0] != f.Changed || f.Further[1] != f.Baseline {
			t.Errorf("figure of four runs %+v", f)
		}
	}
	if g := further.Status.Groups[1]; len(g.Further) != 2 || g.Further[0] != 2 || g.Further[1] != 1 {
		t.Errorf("group of four runs %+v", g)
	}
	if same := simulate.Compare(baseline, baseline, nil); cmp.Diff(same.Status.Baseline, same.Status.Changed) != "" {
		t.Error("a run differs from itself")
	}
}
