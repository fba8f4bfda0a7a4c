package simulate_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// rowsOf are the texts of the timeline's rows of a kind.
func rowsOf(report *v1alpha1.ScenarioReport, what string) []string {
	var texts []string
	for _, row := range report.Status.Timeline {
		if row.What == what {
			texts = append(texts, row.Text)
		}
	}
	return texts
}

// TestFailingRounds has the cloud's list of groups fail for ten minutes, and to
// the end: the error is reported once, and is why pods still wait.
func TestFailingRounds(t *testing.T) {
	for name, c := range map[string]struct {
		until   string
		row     string
		pending []v1alpha1.PendingReport
	}{
		"for a while": {
			until: "until: 10m, ",
			row:   "the round failed: list node groups: fake cloud: NodeGroups: cloud unavailable: asleep (in 60 rounds)",
		},
		"for ever": {
			row: "the round failed: list node groups: fake cloud: NodeGroups: cloud unavailable: asleep (in 361 rounds)",
			pending: []v1alpha1.PendingReport{{Example: "default/web-1", Pods: 2,
				Reason: "no round could be made: list node groups: fake cloud: NodeGroups: cloud unavailable: asleep"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			setup, err := loadWith(scenario("workloads: [{name: web, replicas: 2, requests: {cpu: 1500m}}]\nfaults: {calls: " +
				"[{methods: [NodeGroups], " + c.until + "error: asleep}]}"))
			if err != nil {
				t.Fatal(err)
			}
			report := run(t, setup)
			if got := rowsOf(report, "error"); !slices.Equal(got, []string{c.row}) {
				t.Errorf("rows %q, want %q", got, c.row)
			}
			if got := report.Status.PendingPods; !reflect.DeepEqual(got, c.pending) {
				t.Errorf("pending %+v, want %+v", got, c.pending)
			}
		})
	}
}

// TestPartOfANeed has one of two groups refuse, and the other has no room for all of its share.
func TestPartOfANeed(t *testing.T) {
	setup, err := loadWith(scenario(`machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups: [{name: a, machine: m, max: 3}, {name: b, machine: m, max: 20}]
workloads: [{name: web, replicas: 4, requests: {cpu: 1500m}}]
faults: {stockOuts: [{groups: [b]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a 0→3 (3 nodes for 3 pods)"}
	if got := rowsOf(run(t, setup), "scale-up"); !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}
