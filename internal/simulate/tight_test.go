package simulate_test

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/expander"
)

// Three machine types with tight maxima, as spec; %s are the expander, provision
// times of the types and the workloads.
const tight = `
options: {expander: %s, priorities: {10: [".*"]}}
machines:
- {name: s, resources: {cpu: 2, memory: 8Gi}}
- {name: m, resources: {cpu: 4, memory: 16Gi}}
- {name: l, resources: {cpu: 16, memory: 64Gi}}
nodeGroups:
- {name: s-a, zone: a, machine: s, max: 2, bootTime: %[2]s}
- {name: s-b, zone: b, machine: s, max: 2, bootTime: %[2]s}
- {name: s-c, zone: c, machine: s, max: 2, bootTime: %[2]s}
- {name: m-a, zone: a, machine: m, max: 1, bootTime: %[3]s}
- {name: m-b, zone: b, machine: m, max: 2, bootTime: %[3]s}
- {name: m-c, zone: c, machine: m, max: 1, bootTime: %[3]s}
- {name: l-a, zone: a, machine: l, max: 1, bootTime: %[4]s}
- {name: l-b, zone: b, machine: l, max: 1, bootTime: %[4]s}
- {name: l-c, zone: c, machine: l, max: 1, bootTime: %[4]s}
workloads:
%[5]s
`

func TestNoNodeIsOrderedThatNoPodRunsOn(t *testing.T) {
	workloads := map[string]string{
		"zones, 31 pods": "- {name: w, replicas: 31, requests: {cpu: 1}, spread: [{maxSkew: 2}]}",
		"zones, 20 pods": "- {name: w, replicas: 20, requests: {cpu: 1}, spread: [{maxSkew: 1}]}",
		"zones, 43 pods": "- {name: w, replicas: 43, requests: {cpu: 1}, spread: [{maxSkew: 3}]}",
		"hosts":          "- {name: w, replicas: 25, requests: {cpu: 1}, spread: [{maxSkew: 2, topologyKey: kubernetes.io/hostname}]}",
		"plain":          "- {name: w, replicas: 31, requests: {cpu: 1}}",
		"two workloads":  "- {name: w, replicas: 17, requests: {cpu: 1}, spread: [{maxSkew: 2}]}\n- {name: v, replicas: 9, requests: {cpu: 1500m}}",
	}
	times := map[string][3]any{"together": {"1m", "1m", "1m"}, "small first": {"1m", "2m", "3m"}, "large first": {"3m", "2m", "1m"}}
	for _, chain := range expander.Names() {
		for name, w := range workloads {
			for when, boot := range times {
				t.Run(fmt.Sprintf("%s/%s/%s", chain, name, when), func(t *testing.T) {
					report := run(t, loadFiles(t, scenario(fmt.Sprintf(tight, chain, boot[0], boot[1], boot[2], w)), nil))
					used := map[string]bool{}
					for _, p := range report.Status.Pods {
						for _, r := range p.Runs {
							used[r.Node] = true
						}
					}
					for _, n := range report.Status.Nodes {
						if n.Ordered != nil && !used[n.Name] {
							t.Errorf("no pod ever ran on %s", n.Name)
						}
					}
					if report.Status.Pending > 0 {
						t.Errorf("%d pods wait", report.Status.Pending)
					}
					if t.Failed() {
						t.Log(describe(report))
					}
				})
			}
		}
	}
}
