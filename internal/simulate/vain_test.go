package simulate_test

import (
	"strings"
	"testing"
)

// Nodes of this group lie in two zones. The first by name lies in z-c, so pods of z-c seem to fit;
// what the cloud makes lies in z-a.
const overZones = `
groupLabel: team-pool
nodeGroups: [{name: pool, max: 40, template: {metadata: {labels: {team-pool: pool, topology.kubernetes.io/zone: z-a}}, status: {capacity: {cpu: 2, memory: 8Gi, pods: 110}}}}]
nodesFrom: [{file: nodes.yaml}]
duration: 3h
`

func TestANeedThatDoesNotShrinkIsNotOrderedAgain(t *testing.T) {
	files := map[string]string{"nodes.yaml": nodeYAML("a-c", "z-c", "", "team-pool: pool") + nodeYAML("b-a", "z-a", "", "team-pool: pool")}
	const pinned = "- {name: pinned, replicas: 3, requests: {cpu: 1500m}, nodeSelector: {topology.kubernetes.io/zone: z-c}}\n"
	const reason = "do not take them: node(s) didn't match Pod's node affinity/selector (2 pods); not ordered again until something changes"
	for name, c := range map[string]struct {
		spec             string
		pending, ordered int
		scaleUps         int
	}{
		"once, and never again":       {"workloads:\n" + pinned, 2, 2, 1},
		"nor when its nodes are gone": {"options: {scaleDownEnabled: true}\nworkloads:\n" + pinned, 2, 2, 1},
		"other pods get nodes":        {"workloads:\n" + pinned + "- {name: free, replicas: 5, arrive: 30m, requests: {cpu: 1500m}}\n", 2, 4, 2},
		"new pods are tried once":     {"workloads:\n" + pinned + "- {name: later, replicas: 1, arrive: 30m, requests: {cpu: 1600m}, nodeSelector: {topology.kubernetes.io/zone: z-c}}\n", 3, 3, 2},
		"served pods need no guard":   {"workloads:\n- {name: free, replicas: 9, requests: {cpu: 1500m}, scale: [{at: 20m, replicas: 12}]}\n", 0, 10, 2},
	} {
		t.Run(name, func(t *testing.T) {
			report := run(t, loadFiles(t, scenario(overZones+c.spec), files))
			s := &report.Status
			if s.Pending != c.pending || s.NodesOrdered != c.ordered || s.ScaleUps != c.scaleUps {
				t.Errorf("%d pods pending, %d nodes ordered in %d scale-ups; want %d, %d, %d", s.Pending, s.NodesOrdered, s.ScaleUps, c.pending, c.ordered, c.scaleUps)
			}
			said := false
			for _, row := range s.PendingPods {
				said = said || strings.Contains(row.Reason, reason)
			}
			if said != (c.pending > 0) {
				t.Errorf("reasons %+v", s.PendingPods)
			}
			if t.Failed() {
				t.Log(describe(report))
			}
		})
	}
}
