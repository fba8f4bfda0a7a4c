package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// A pod of a dump that has room on a node that was starting then runs there: no node is ordered for it.
// A node that has been starting for longer than Cluster Autoscaler waits never takes one.
func TestANodeOfADumpThatStarts(t *testing.T) {
	const cilium = "node.cilium.io/agent-not-ready"
	tests := map[string]struct {
		age     time.Duration
		ready   string
		taint   string
		since   time.Duration // ago
		later   time.Duration // the dump was made so much after its newest time
		ordered int
	}{
		"not ready yet":                  {90 * time.Second, "False", "node.kubernetes.io/not-ready", 90 * time.Second, 0, 0},
		"just created":                   {20 * time.Second, "False", "node.kubernetes.io/not-ready", 20 * time.Second, 0, 0},
		"a taint of its start":           {90 * time.Second, "True", cilium, 30 * time.Second, 0, 0},
		"no longer ready":                {10 * time.Minute, "False", "node.kubernetes.io/not-ready", 5 * time.Minute, 0, 1},
		"for longer than starting takes": {time.Hour, "False", "node.kubernetes.io/not-ready", time.Hour, 0, 1},
		"not ready yet, an hour later":   {90 * time.Second, "False", "node.kubernetes.io/not-ready", 90 * time.Second, time.Hour, 1},
		"a taint that stays":             {time.Hour, "True", cilium, time.Hour, 0, 1},
	}
	for name, tt := range tests {
		for _, mode := range simulate.Modes() {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				stamp := func(ago time.Duration) string { return dumpedAt.Add(-ago).Format(time.RFC3339) }
				var dump strings.Builder
				node := func(name string, age time.Duration, ready string, since time.Duration, taints string) {
					fmt.Fprintf(&dump, `---
apiVersion: v1
kind: Node
metadata: {name: %s, creationTimestamp: %q, labels: {eks.amazonaws.com/nodegroup: web, topology.kubernetes.io/zone: a}}
spec: {providerID: "aws:///a/i-%s", taints: [%s]}
status:
  capacity: {cpu: 2, memory: 8Gi, pods: 110}
  conditions: [{type: Ready, status: %q, lastTransitionTime: %q}]
`, name, stamp(age), name, taints, ready, stamp(since))
				}
				pod := func(name, node string, age time.Duration) {
					fmt.Fprintf(&dump, `---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, creationTimestamp: %q, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}
spec: {nodeName: %q, containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}
`, name, stamp(age), node)
				}
				node("full", 24*time.Hour, "True", 24*time.Hour, "")
				node("starting", tt.age, tt.ready, tt.since, fmt.Sprintf("{key: %s, effect: NoSchedule}", tt.taint))
				pod("old", "full", 20*time.Hour)
				pod("waiting", "", 0)
				var read simulate.Dump
				for item, err := range document.Objects("dump", strings.NewReader(dump.String()), document.StreamOptions{}) {
					if err == nil {
						err = read.Add(item)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				out, err := read.Scenario(simulate.DumpOptions{Name: "starting", Max: 10, Now: &metav1.Time{Time: dumpedAt.Add(tt.later)}})
				if err != nil {
					t.Fatal(err)
				}
				out.Scenario.Spec.Autoscaler.Mode = string(mode)
				report := played(t, whole(t, out))
				if s := &report.Status; s.NodesOrdered != tt.ordered || s.Running != 2 || s.Pending != 0 {
					t.Errorf("%d nodes ordered, %d pods running, %d pending; want %d, 2, 0\n%v", s.NodesOrdered, s.Running, s.Pending, tt.ordered,
						s.Timeline)
				}
			})
		}
	}
}
