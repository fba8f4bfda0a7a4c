package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/pending"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

const (
	zoneSpread = "{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: " +
		"{matchLabels: {app: web}}}"
	threeZones = `
machines: [{name: m, resources: {cpu: 4, memory: 16Gi}}]
nodeGroups:
- {name: a, zone: z-a, machine: m, size: 1, max: 9}
- {name: b, zone: z-b, machine: m, size: 1, max: 9}
- {name: c, zone: z-c, machine: m, size: 1, max: 9}
`
)

// oddSpread are six pods, two to a node, on three zones with a node each.
func oddSpread(constraints, spec, more string) string {
	return threeZones + "workloads: [{name: web, replicas: 6, template: {metadata: {labels: {app: web}}, spec: {topologySpreadConstraints: [" +
		constraints +
		"], containers: [{name: c, resources: {requests: {cpu: 1500m}}}]" + spec + "}}}]\n" + more
}

// Constraints that cannot hold are reported with the pods, and no node is ordered that no pod can use.
func TestConstraintsThatCannotHoldOrderNoNode(t *testing.T) {
	foreign := "objects: [{apiVersion: v1, kind: Node, metadata: {name: f, labels: {topology.kubernetes.io/zone: z-x}}, " +
		"status: {allocatable: {cpu: 1, pods: 9}, conditions: [{type: Ready, status: \"True\"}]}}]\n"
	shift := "faults: {zonalShifts: [{zones: [z-c], from: 0s, reason: power}]}\n"
	atLeast := strings.Replace(zoneSpread, "maxSkew: 1", "maxSkew: 1, minDomains: 4", 1)
	for _, tc := range []struct {
		name, text      string
		ordered, bound  int
		reason, explain string
	}{
		{"a topology key that no node has", oddSpread(zoneSpread+", "+strings.Replace(zoneSpread, "topology.kubernetes.io/zone",
			"example.com/rack", 1), "", ""), 0, 0,
			"missing required label example.com/rack",
			"wait for a node with the label example.com/rack: no node that would take them has it, nor would a new one"},
		{"minDomains above the zones there are", oddSpread(atLeast, "", ""), 0, 3,
			"didn't match pod topology spread constraints (3 groups)", "3 domains, and minDomains is 4; no node group is in another domain"},
		{"minDomains above the zones in use", oddSpread(strings.Replace(atLeast, "4", "3", 1), "", shift), 0, 6, "", ""},
		{"a zone that does not exist", oddSpread(zoneSpread, ", nodeSelector: {topology.kubernetes.io/zone: z-nowhere}", ""), 0, 0,
			"node(s) didn't match Pod's node affinity/selector", ""},
		{"a zone without a node group", oddSpread(zoneSpread, "", foreign), 0, 3, "didn't match pod topology spread constraints (3 groups)",
			"z-x has 0 matching pods and no node for one more (1 node: insufficient cpu); no node group is there"},
		{"a zone that the pods may not use but that counts",
			oddSpread(strings.Replace(zoneSpread, "maxSkew: 1", "maxSkew: 1, nodeAffinityPolicy: Ignore", 1),
				", nodeSelector: {topology.kubernetes.io/zone: z-a}", ""), 0, 1,
			"didn't match pod topology spread constraints (1 group)",
			"a new node of b would not: its node selector or affinity does not match; z-c has 0 matching pods"},
		{"a zone that is shifted away", strings.Replace(oddSpread(zoneSpread, "", shift), "replicas: 6", "replicas: 12", 1), 2, 8,
			"c (zone z-c is shifted away: annotation of node c-0001)", "c gets no node: zone z-c is shifted away: annotation of node c-0001"},
		{"minDomains with a zone that is shifted away", "autoscaler: {mode: sidecar}\n" +
			strings.ReplaceAll(strings.Replace(oddSpread(strings.Replace(atLeast, "4", "3", 1), "", shift), "replicas: 6", "replicas: 12", 1),
				"size: 1", "size: 0"), 2, 2,
			"pass on c, where nothing could be placed", "minDomains is 3; z-c has no node"},
		{"a pod that is too large", strings.Replace(oddSpread(zoneSpread, "", ""), "1500m", "15", 1), 0, 0, "Insufficient cpu", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setup, err := loadWith(scenario(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			report := run(t, setup)
			reasons := ""
			for _, p := range report.Status.PendingPods {
				reasons += p.Reason + "\n"
			}
			if s := report.Status; s.NodesOrdered != tc.ordered || s.Running != tc.bound || !strings.Contains(reasons, tc.reason) {
				t.Errorf("%d nodes ordered, %d pods run, want %d and %d\nreasons %swant    %s", s.NodesOrdered, s.Running, tc.ordered, tc.bound,
					reasons, tc.reason)
			}
			moment, err := simulate.See(t.Context(), setup, 30*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			answers := ""
			all, err := pending.Spreads(moment.Checker, pending.OfRound(moment.Nodes, moment.Pending, moment.Groups))
			if err != nil {
				t.Fatal(err)
			}
			for i := range all {
				answers += all[i].Answer + "\n"
			}
			if !strings.Contains(answers, tc.explain) || tc.explain == "" && answers != "" {
				t.Errorf("explained as %swant %q", answers, tc.explain)
			}
		})
	}
}
