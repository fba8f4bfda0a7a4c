package simulate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// dumpedAt is when the clusters of this file were dumped: long after a run's own clock begins.
var dumpedAt = time.Date(2026, time.October, 5, 9, 30, 0, 0, time.UTC)

// deadNode is how the dead one of 31 nodes looks in a dump.
type deadNode struct {
	status      string        // of its condition Ready
	dead        time.Duration // for so long
	tainted     bool
	tolerations string
	pods        string // cpu requests of its two pods
}

// dump is a cluster of 31 nodes of 2 cores, each with two pods.
func (d *deadNode) dump() (nodes, pods string) {
	var ofNodes, ofPods strings.Builder
	stamp := func(ago time.Duration) string { return dumpedAt.Add(-ago).Format(time.RFC3339) }
	for i := range 31 {
		status, since, heartbeat, taints, request := "True", 30*24*time.Hour, time.Duration(0), "", "900m"
		if i == 7 {
			if status, since, heartbeat, request = d.status, d.dead, d.dead, d.pods; d.tainted {
				taints = ", taints: [{key: node.kubernetes.io/unreachable, effect: NoSchedule}, {key: " +
					"node.kubernetes.io/unreachable, effect: NoExecute}]"
			}
		}
		fmt.Fprintf(&ofNodes, `---
apiVersion: v1
kind: Node
metadata: {name: n%02d, creationTimestamp: %q, labels: {eks.amazonaws.com/nodegroup: web, topology.kubernetes.io/zone: a}}
spec: {providerID: "aws:///a/i-%02d"%s}
status:
  capacity: {cpu: 2, memory: 8Gi, pods: 110}
  conditions: [{type: Ready, status: %q, lastTransitionTime: %q, lastHeartbeatTime: %q}]
`, i, stamp(30*24*time.Hour), i, taints, status, stamp(since), stamp(heartbeat))
		for k := range 2 {
			fmt.Fprintf(&ofPods, `---
apiVersion: v1
kind: Pod
metadata: {name: p%02d-%d, namespace: default, creationTimestamp: %q, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}
spec: {nodeName: n%02d, tolerations: [%s], containers: [{name: c, resources: {requests: {cpu: %s}}}]}
`, i, k, stamp(20*24*time.Hour), i, d.tolerations, request)
		}
	}
	return ofNodes.String(), ofPods.String()
}

// play makes a scenario of the dump, to which four pods come, and plays it.
func (d *deadNode) play(t *testing.T, mode simulate.Mode) *v1alpha1.ScenarioReport {
	t.Helper()
	nodes, pods := d.dump()
	var dump simulate.Dump
	for item, err := range document.Objects("dump", strings.NewReader(nodes+pods), document.StreamOptions{}) {
		if err == nil {
			err = dump.Add(item)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := dump.Scenario(simulate.DumpOptions{Name: "dead", Max: 40})
	if err != nil {
		t.Fatal(err)
	}
	spec := &out.Scenario.Spec
	if err := json.Unmarshal([]byte(`{"duration": "1h", "options": {"scaleDownEnabled": true},
		"workloads": [{"name": "more", "arrive": "2m", "replicas": 4, "requests": {"cpu": "900m"}}]}`), spec); err != nil {
		t.Fatal(err)
	}
	spec.Autoscaler.Mode = string(mode)
	return played(t, whole(t, out))
}

// TestADeadNodeOfADump: in every mode nodes are ordered for pods that a dead node has no room for, its pods do
// not run until they are elsewhere, and it goes.
func TestADeadNodeOfADump(t *testing.T) {
	const forever = "{operator: Exists, effect: NoExecute}"
	cases := map[string]struct {
		node    deadNode
		evicted time.Duration // negative: never
		gone    bool
	}{
		"tainted":           {deadNode{status: "Unknown", dead: time.Hour, tainted: true, pods: "300m"}, 0, true},
		"not ready":         {deadNode{status: "False", dead: time.Hour, pods: "300m"}, 0, true},
		"full":              {deadNode{status: "Unknown", dead: time.Hour, pods: "950m"}, 0, true},
		"since two minutes": {deadNode{status: "Unknown", dead: 2 * time.Minute, pods: "950m"}, 3 * time.Minute, true},
		"patient pods": {deadNode{status: "Unknown", dead: time.Hour, pods: "950m",
			tolerations: "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 3660}"}, time.Minute, true},
		"pods that stay": {deadNode{status: "Unknown", dead: time.Hour, pods: "950m", tolerations: forever}, -1, false},
	}
	for name, c := range cases {
		for _, mode := range simulate.Modes() {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				s := c.node.play(t, mode).Status
				if s.NodesOrdered < 2 || s.Pending != 0 {
					t.Errorf("%d nodes ordered, %d pods pending", s.NodesOrdered, s.Pending)
				}
				at := time.Duration(-1)
				for _, row := range s.Timeline {
					if row.Reason == v1alpha1.PodsEvicted && row.Pods == 2 {
						at = row.At.Duration
					}
				}
				if at != c.evicted {
					t.Errorf("pods evicted at %s, want %s", at, c.evicted)
				}
				if got := s.History[0].Running; got > 60 {
					t.Errorf("%d pods run at first", got)
				}
				for _, n := range s.Nodes {
					if n.Name == "n07" && (n.Gone != nil) != c.gone {
						t.Errorf("the dead node: %+v", n)
					}
				}
				if want := 66; c.gone && s.Running != want || !c.gone && s.Running != want-2 {
					t.Errorf("%d pods run in the end", s.Running)
				}
			})
		}
	}
}
