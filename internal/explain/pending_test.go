package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

func nodeIn(name, zone, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {group: ng-%s, zone: %s}}\n%sstatus: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}, capacity: {cpu: 4, memory: 8Gi, pods: 110}}\n---\n", name, zone, zone, more)
}

// webPod asks for three of a node's four cores; it is pending without a node.
func webPod(name, node, more string) string {
	if node != "" {
		more += ", nodeName: " + node
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: %s, labels: {app: web}}\nspec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]%s}\n---\n", name, more)
}

const overZones = ", topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}%s}]"

func TestPendingSpreadPodsNameTheZoneThatBinds(t *testing.T) {
	zoned := fmt.Sprintf(overZones, "")
	running := webPod("web-1", "a1", "") + webPod("web-2", "b1", "")
	for _, tc := range []struct{ name, nodes, pods, want string }{
		{"a zone whose node is full", nodeIn("a1", "a", "") + nodeIn("a2", "a", "") + nodeIn("b1", "b", "") + nodeIn("c1", "c", ""),
			running + strings.Replace(webPod("db-1", "c1", ""), "app: web", "app: db", 1) + webPod("web-3", "", zoned) + webPod("web-4", "", zoned),
			"default/web-3 and 1 more wait for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no node for one more (1 node: insufficient cpu); a new node of ng-c would take it"},
		{"a zone that is cordoned", nodeIn("a1", "a", "") + nodeIn("a2", "a", "") + nodeIn("b1", "b", "") + nodeIn("c1", "c", "spec: {unschedulable: true}\n"), running + webPod("web-3", "", zoned),
			"default/web-3 waits for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no node for one more (1 node: cordoned); a new node of ng-c would take it"},
		{"a zone that is tainted", nodeIn("a1", "a", "") + nodeIn("a2", "a", "") + nodeIn("b1", "b", "") + nodeIn("c1", "c", "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n"), running + webPod("web-3", "", zoned),
			"default/web-3 waits for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no node for one more (1 node: it does not tolerate the taint gpu:NoSchedule); " +
				"a new node of ng-c would not: it does not tolerate the taint gpu:NoSchedule"},
		{"too few zones", nodeIn("a1", "a", "") + nodeIn("a2", "a", "") + nodeIn("b1", "b", "") + nodeIn("b2", "b", ""), running + webPod("web-3", "", fmt.Sprintf(overZones, ", minDomains: 3")),
			"default/web-3 waits for another domain: zone has 2 domains, and minDomains is 3"},
		{"a node takes it", nodeIn("a1", "a", "") + nodeIn("b1", "b", "") + nodeIn("c1", "c", ""), running + webPod("web-3", "", zoned), ""},
		{"no node has room, so no constraint holds it", nodeIn("a1", "a", "") + nodeIn("b1", "b", ""), running + webPod("web-3", "", zoned), ""},
		{"a soft constraint", nodeIn("a1", "a", "") + nodeIn("b1", "b", ""), running + webPod("web-3", "", strings.Replace(zoned, "DoNotSchedule", "ScheduleAnyway", 1)), ""},
		{"a pod that waits for a gate", nodeIn("a1", "a", "") + nodeIn("a2", "a", "") + nodeIn("b1", "b", "") + nodeIn("c1", "c", "spec: {unschedulable: true}\n"),
			running + webPod("web-3", "", zoned+", schedulingGates: [{name: x}]"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fleet := mustRead(t, Sources{Nodes: "nodes.yaml", Pods: "pods.yaml", GroupLabel: "group"}, texts(map[string]string{"nodes.yaml": tc.nodes, "pods.yaml": tc.pods}))
			var got []string
			for _, p := range explained(t, fleet, nodegroupset.Options{}).Status.Pending {
				got = append(got, p.Answer)
			}
			if strings.Join(got, "\n") != tc.want {
				t.Errorf("\ngot  %s\nwant %s", strings.Join(got, "\n"), tc.want)
			}
		})
	}
}
