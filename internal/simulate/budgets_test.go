package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/simulate"
)

// withBudget is a group of three nodes of which two have pods of web; the third has room for all.
func withBudget(budget, options string, pods ...string) string {
	objects := []string{budget}
	for i, on := range pods {
		objects = append(objects,
			fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web-%d, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]},
  spec: {nodeName: %s, containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}`, i, on))
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		objects = append(objects,
			fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {group: a}}, status: {capacity: {cpu: 2, memory: 8Gi, pods: 110}, conditions: [{type: Ready, status: "True"}]}}`, n))
	}
	return scenario(fmt.Sprintf(`groupLabel: group
duration: 40m
options: {scaleDownEnabled: true, %s}
machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups: [{name: a, zone: z, machine: m, min: 1, max: 3}]
objects:
- %s
workloads: [{name: full, replicas: 1, requests: {cpu: 1500m}}]`, options, strings.Join(objects, "\n- ")))
}

func budgetOf(spec string) string {
	return "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, " +
		spec + "}}"
}

func TestBudgetsHoldScaleDown(t *testing.T) {
	for name, c := range map[string]struct {
		budget, options string
		pods            []string
		rows            []string // of waiting, scale-down and refused
		waits           string   // a node at the end
		moved           int
	}{
		"no budget": {
			budget: budgetOf("minAvailable: 0"), pods: []string{"n1", "n1", "n1"},
			rows: []string{"scale-down a 3→1 (2 nodes not needed; 3 pods to move)"}, moved: 3,
		},
		"one after the other": {
			budget: budgetOf("maxUnavailable: 1"), pods: []string{"n1", "n1", "n1"},
			rows: []string{
				"scale-down a 3→2 (1 node not needed)",
				"waiting n1 of a is drained as budgets allow: PodDisruptionBudget web does not let pod default/web-1 go",
				"scale-down a 2→1 (1 node not needed; 3 pods to move)",
			}, moved: 3,
		},
		"two nodes": {
			budget: budgetOf("minAvailable: 1"), options: "maxDrainParallelism: 3", pods: []string{"n1", "n2"},
			rows: []string{"scale-down a 3→2 (1 node not needed; 1 pod to move)", "scale-down a 2→1 (1 node not needed; 1 pod to move)"}, moved: 2,
		},
		"none may go": {
			budget: budgetOf("maxUnavailable: 0"), pods: []string{"n1"}, rows: []string{"scale-down a 3→2 (1 node not needed)"},
			waits: "has a pod that PodDisruptionBudget default/web protects, which allows no eviction",
		},
		"given up": {
			budget: budgetOf("minAvailable: 2"), options: "maxPodEvictionTime: 0s", pods: []string{"n1", "n1", "n1"}, rows: []string{
				"scale-down a 3→2 (1 node not needed)",
				"refused a -1: n1 was not drained in time: PodDisruptionBudget web does not let pod default/web-1 go",
				"refused a -1: n1 was not drained in time: PodDisruptionBudget web does not let pod default/web-2 go",
				"scale-down a 2→1 (1 node not needed; 3 pods to move)",
			}, moved: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			setup, err := load("x.yaml", []byte(withBudget(c.budget, c.options, c.pods...)))
			if err != nil {
				t.Fatal(err)
			}
			setup.Mode = simulate.Stock
			report := run(t, setup)
			var rows []string
			moved := 0
			for _, row := range report.Status.Timeline {
				if row.What == "waiting" || row.What == "scale-down" || row.What == "refused" {
					rows = append(rows, row.What+" "+row.Text)
					moved += row.Pods
				}
			}
			if !slices.Equal(rows, c.rows) || moved != c.moved {
				t.Errorf("%d pods moved:\n%s\nwant %d:\n%s", moved, strings.Join(rows, "\n"), c.moved, strings.Join(c.rows, "\n"))
			}
			waits := ""
			for _, row := range report.Status.WaitingNodes {
				waits = row.Reason
			}
			if c.waits != "" && waits != c.waits {
				t.Errorf("waits: %q, want %q", waits, c.waits)
			}
		})
	}
}

// TestDumpsKeepBudgets, and which pods are not ready, but no status.
func TestDumpsKeepBudgets(t *testing.T) {
	out, err := cloudDump(t, []string{
		machine{name: "n1", labels: "agentpool: web"}.object(),
		"{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: default}, spec: {maxUnavailable: " +
			"10%}, status: {disruptionsAllowed: 3}}",
		`{apiVersion: v1, kind: Pod, metadata: {name: ready, namespace: default}, spec: {nodeName: n1, containers: [{name: c}]}, status: {conditions: [{type: Ready, status: "True"}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: unready, namespace: default}, spec: {nodeName: n1, containers: [{name: c}]}, status: {conditions: [{type: Ready, status: "False", reason: x}]}}`,
	}).Scenario(simulate.DumpOptions{Name: "x", Max: 9})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range whole(t, out).Spec.Objects[1:] {
		_, status, _ := strings.Cut(string(object), `"spec"`)
		got = append(got, status)
	}
	want := []string{
		`:{"maxUnavailable":"10%"},"status":{"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,"expectedPods":0}}`,
		`:{"containers":[{"name":"c","resources":{}}],"nodeName":"n1"},"status":{}}`,
		`:{"containers":[{"name":"c","resources":{}}],"nodeName":"n1"},"status":{"conditions":[{"reason":"x","status":"False","type":"Ready"}]}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	played(t, whole(t, out))
}
