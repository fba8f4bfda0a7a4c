package simulate_test

import (
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/simulate"
)

const bufferScenario = `machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups: [{name: a, machine: m, size: 1, max: 9}]
objects:
- {apiVersion: v1, kind: PodTemplate, metadata: {name: chunk}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}}}
- {apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: spare}, spec: {SPEC}}
`

// TestBuffersKeepRoom: the pods of a buffer get nodes and never run; what runs takes their room, and they get other nodes.
func TestBuffersKeepRoom(t *testing.T) {
	const web = "workloads: [{name: web, replicas: 2, arrive: 10m, requests: {cpu: 1500m}}]\n"
	for name, c := range map[string]struct {
		spec, more string
		nodes      int
		running    int
		note       string
	}{
		"replicas":             {"podTemplateRef: {name: chunk}, replicas: 3", "", 3, 0, ""},
		"a version before":     {"podTemplateRef: {name: chunk}, replicas: 2", "", 2, 0, ""},
		"pods take the room":   {"podTemplateRef: {name: chunk}, replicas: 3", web, 5, 2, ""},
		"limits alone":         {"podTemplateRef: {name: chunk}, limits: {cpu: 3}", "", 2, 0, ""},
		"limits bound":         {"podTemplateRef: {name: chunk}, replicas: 5, limits: {cpu: 3, memory: 1Gi}", "", 2, 0, ""},
		"part of a workload":   {"scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 60", web, 4, 2, ""},
		"the larger one":       {"scalableRef: {apiGroup: apps, kind: Deployment, name: web}, percentage: 50, replicas: 3", web, 5, 2, ""},
		"scale-down leaves it": {"podTemplateRef: {name: chunk}, replicas: 3", "options: {scaleDownEnabled: true}\nduration: 2h", 3, 0, ""},
		"no template": {"podTemplateRef: {name: other}, replicas: 3", "", 1, 0,
			"CapacityBuffer default/spare keeps no room: there is no PodTemplate other"},
		"no workload": {"scalableRef: {kind: Deployment, name: other}, replicas: 3", "", 1, 0,
			"keeps no room: there is no Deployment other"},
		"another strategy": {"podTemplateRef: {name: chunk}, replicas: 3, provisioningStrategy: example.com/other", "", 1, 0,
			"its provisioning strategy is example.com/other"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(bufferScenario, "SPEC", c.spec, 1)
			if name == "a version before" {
				text = strings.Replace(text, "v1beta1", "v1alpha1", 1)
			}
			for _, mode := range simulate.Modes() {
				setup, err := loadWith(scenario(text + c.more))
				if err != nil {
					t.Fatal(err)
				}
				setup.Mode = mode
				s := run(t, setup).Status
				if s.Groups[0].After != c.nodes || s.Running != c.running || s.Pending != 0 {
					t.Errorf("%s: %d nodes, %d pods running and %d pending, want %d nodes and %d running", mode, s.Groups[0].After, s.Running, s.Pending,
						c.nodes, c.running)
				}
				if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
					t.Errorf("%s: notes %q, want %q", mode, notes, c.note)
				}
			}
		})
	}
}
