package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// withNew adds manifests, as for kubectl apply, to a dump of one node with 4 CPUs.
func withNew(t *testing.T, manifests string) *v1alpha1.Scenario {
	t.Helper()
	d := cloudDump(t, []string{machine{name: "n1", zone: "eu-west-1a", labels: "agentpool: web"}.object()})
	for item, err := range document.Objects("new", strings.NewReader(manifests), document.StreamOptions{}) {
		if err == nil {
			err = d.AddNew(item)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := d.Scenario(simulate.DumpOptions{Name: "x", Max: 9})
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, out)
}

func TestHowManyNodesAWorkloadNeeds(t *testing.T) {
	const pod = `{metadata: {labels: {app: w}}, spec: {containers: [{name: c, resources: {limits: {cpu: 3}}}]}}`
	const head, spec = "metadata: {name: w}\nspec: ", "selector: {matchLabels: {app: w}}, template: " + pod
	for name, tc := range map[string]struct {
		manifest string
		nodes    int // ordered, beside the one that is there
	}{
		"Deployment":        {"apiVersion: apps/v1\nkind: Deployment\n" + head + "{replicas: 4, " + spec + "}", 3},
		"Deployment of one": {"apiVersion: apps/v1\nkind: Deployment\n" + head + "{" + spec + "}", 0},
		"ReplicaSet":        {"apiVersion: apps/v1\nkind: ReplicaSet\n" + head + "{replicas: 3, " + spec + "}", 2},
		"StatefulSet":       {"apiVersion: apps/v1\nkind: StatefulSet\n" + head + "{replicas: 3, serviceName: w, " + spec + "}", 2},
		"Job":               {"apiVersion: batch/v1\nkind: Job\n" + head + "{parallelism: 5, completions: 3, template: " + pod + "}", 2},
		"CronJob": {"apiVersion: batch/v1\nkind: CronJob\n" + head +
			"{schedule: '* * * * *', jobTemplate: {spec: {parallelism: 2, template: " + pod + "}}}", 1},
		"Deployment of none": {"apiVersion: apps/v1\nkind: Deployment\n" + head + "{replicas: 0, " + spec + "}", 0},
		"Pod, and one by list": {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: w}, spec: " +
			"{containers: [{name: c, resources: {requests: {cpu: 3}}}]}}]", 0},
	} {
		report := played(t, withNew(t, tc.manifest))
		if got := report.Status.NodesOrdered; got != tc.nodes || report.Status.Pending > 0 {
			t.Errorf("%s: %d nodes ordered, %d pods pending, want %d and none", name, got, report.Status.Pending, tc.nodes)
		}
	}
}

func TestTheStoryOfAPod(t *testing.T) {
	s := withNew(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {replicas: 2, selector: {matchLabels: {app: w}},
  template: {metadata: {labels: {app: w}}, spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: c, resources: {requests: {cpu: 30}}}]}}`)
	story := func(name string) (rows []string) {
		report := playedWith(t, s, func(setup *simulate.Setup) { setup.ExplainPod = name })
		if report.Status.Story == nil {
			return nil
		}
		for _, row := range report.Status.Story.Rows {
			text, _, _ := strings.Cut(row.Text, " web-")
			rows = append(rows, row.What+": "+text)
		}
		return rows
	}
	if diff := cmp.Diff([]string{"pending: waits for a node",
		"unhelped: fit no node group: Insufficient cpu (wants 30, free 4 of 4 allocatable; 1 group)",
		"group: web: does not take it: Insufficient cpu (wants 30, free 4 of 4 allocatable)", "end: still pending"},
		story("default/huge")); diff != "" {
		t.Errorf("huge (-want +got):\n%s", diff)
	}
	helped := strings.Join(story("w-added-2"), "\n")
	for _, want := range []string{"pending: waits", "helped: nodes ordered in web", "group: web: a new node would take it", "bound: runs on"} {
		if !strings.Contains(helped, want) {
			t.Errorf("got %s, want %s", helped, want)
		}
	}
	if rows := story("nobody"); rows != nil {
		t.Errorf("the story of no pod: %v", rows)
	}
}
