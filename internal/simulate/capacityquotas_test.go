package simulate_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/simulate"
)

// TestTotalsAndCapacityQuotas: six pods want a GPU node each, in groups of two kinds of two GPUs a node.
func TestTotalsAndCapacityQuotas(t *testing.T) {
	quota := func(fields string) string {
		return "{apiVersion: autoscaling.x-k8s.io/v1alpha1, kind: CapacityQuota, metadata: {name: q}, " + fields + "}"
	}
	for name, c := range map[string]struct {
		options, objects string
		k80, t4          int // nodes in the end
		reason           string
	}{
		"no limit":         {k80: 3, t4: 3},
		"GPUs of a kind":   {options: "gpuTotal: ['k80:0:2', 't4:0:5']", k80: 1, t4: 2, reason: "no room under gpu-total of k80"},
		"none of a kind":   {options: "gpuTotal: ['k80:0:0']", t4: 3, reason: "no room under gpu-total of k80"},
		"cores":            {options: "coresTotal: '12'", k80: 3},
		"a quota over all": {objects: quota("spec: {limits: {resources: {nodes: 4}}}"), k80: 3, t4: 1, reason: "CapacityQuota/q"},
		"a quota over a kind": {objects: quota("spec: {selector: {matchLabels: {cloud.google.com/gke-accelerator: " +
			"t4}}, limits: {resources: {t4: 4, memory: 1Ti}}}"), k80: 3, t4: 2},
		"a quota that is valid":     {objects: quota(`spec: {limits: {resources: {cpu: 8}}}, status: {conditions: [{type: Valid, status: "True", reason: x, message: x, lastTransitionTime: null}]}`), k80: 2},
		"a quota that is not valid": {objects: quota(`spec: {limits: {resources: {cpu: 8}}}, status: {conditions: [{type: Valid, status: "False", reason: x, message: x, lastTransitionTime: null}]}`), k80: 3, t4: 3},
		"a quota without a selector": {objects: quota("spec: {selector: {matchExpressions: [{key: a, operator: Is}]}, limits: " +
			"{resources: {cpu: 8}}}"), k80: 3, t4: 3},
	} {
		for _, mode := range simulate.Modes() {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				objects := ""
				if c.objects != "" {
					objects = "\nobjects: [" + c.objects + "]"
				}
				setup, err := load("x.yaml", []byte(scenario(fmt.Sprintf(`options: {expander: priority, priorities: {"20": [k80], "10": [t4]}, %s}
machines: [{name: m, resources: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 2}}]
nodeGroups:
- {name: k80, zone: z, machine: m, max: 3, labels: {cloud.google.com/gke-accelerator: k80}}
- {name: t4, zone: z, machine: m, max: 3, labels: {cloud.google.com/gke-accelerator: t4}}
workloads: [{name: train, replicas: 6, requests: {cpu: 1, nvidia.com/gpu: 2}}]%s`, c.options, objects))))
				if err != nil {
					t.Fatal(err)
				}
				setup.Mode = mode
				report := run(t, setup)
				got := map[string]int{}
				text := describe(report)
				for _, g := range report.Status.Groups {
					got[g.Name] = g.After
					text += g.Why
				}
				if got["k80"] != c.k80 || got["t4"] != c.t4 {
					t.Errorf("%v, want k80 %d, t4 %d", got, c.k80, c.t4)
				}
				if mode == simulate.Stock && !strings.Contains(text, c.reason) {
					t.Errorf("nowhere %q:\n%s", c.reason, text)
				}
			})
		}
	}
}

// TestMinimumsOfTheCluster hold scale-down: four nodes of 4 cores, 16 GiB and two GPUs are not needed. From 1.36
// on nodes that are being removed count as if they stayed, so that more of them go in each loop.
func TestMinimumsOfTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		options  string
		left     map[string]int // by version
		waits    string
		terminal string // time until nodes are gone
	}{
		"none": {left: map[string]int{"1.35": 0, "1.36": 0}},
		"cores": {options: "coresTotal: '9:100'", left: map[string]int{"1.35": 3, "1.36": 1},
			waits: "the cluster would be below the minimum of cores-total"},
		"cores, gone soon": {options: "coresTotal: '9:100'", terminal: "1s", left: map[string]int{"1.35": 3, "1.36": 3},
			waits: "the cluster would be below the minimum of cores-total"},
		"memory": {options: "memoryTotal: '32:100'", terminal: "1s", left: map[string]int{"1.35": 2, "1.36": 2},
			waits: "the cluster would be below the minimum of memory-total"},
		"GPUs": {options: "gpuTotal: ['k80:3:9', 't4:5:9']", terminal: "1s", left: map[string]int{"1.35": 2, "1.36": 2},
			waits: "the cluster would be below the minimum of gpu-total of k80"},
	} {
		for _, mode := range []simulate.Mode{simulate.Stock, simulate.Sidecar, simulate.Linked} {
			for version, left := range c.left {
				if mode == simulate.Linked && version != "1.36" {
					continue // there is nothing to link into
				}
				t.Run(fmt.Sprint(name, " ", mode, " ", version), func(t *testing.T) {
					setup, err := load("x.yaml", []byte(scenario(fmt.Sprintf(`options: {scaleDownEnabled: true, %s}
machines: [{name: m, resources: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 2}}]
nodeGroups: [{name: k80, zone: z, machine: m, max: 9, size: 4, terminationTime: %s, labels: {cloud.google.com/gke-accelerator: k80}}]`,
						c.options, cmp.Or(c.terminal, "30s")))))
					if err != nil {
						t.Fatal(err)
					}
					setup.Mode, setup.Version = mode, version
					status := run(t, setup).Status
					waits := ""
					for _, row := range status.WaitingNodes {
						waits = row.Reason
					}
					if got := status.Groups[0].After; got != left || waits != c.waits {
						t.Errorf("%d nodes left, want %d; they wait: %q, want %q", got, left, waits, c.waits)
					}
				})
			}
		}
	}
}

// TestGPUNodesGoByTheirGPUs: their cores are full, and of their GPUs few are used.
func TestGPUNodesGoByTheirGPUs(t *testing.T) {
	for threshold, left := range map[string]int{"0.5": 1, "0.2": 2} {
		setup, err := load("x.yaml", []byte(scenario(fmt.Sprintf(`options: {scaleDownEnabled: true, scaleDownGpuUtilizationThreshold: %s}
machines: [{name: m, resources: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4}}]
nodeGroups: [{name: a, zone: z, machine: m, max: 9, size: 2}]
workloads: [{name: train, replicas: 2, requests: {cpu: 4, nvidia.com/gpu: 1}, onePerNode: false, spread: [{topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}]}]`, threshold))))
		if err != nil {
			t.Fatal(err)
		}
		if status := run(t, setup).Status; status.Groups[0].After != left {
			t.Errorf("threshold %s: %d nodes left, want %d", threshold, status.Groups[0].After, left)
		}
	}
}

// TestANodeWithoutItsGPUs: a node that should have GPUs and has none is not ready to Cluster Autoscaler, which
// removes it as such; its pods lose nothing, for the node serves them.
func TestANodeWithoutItsGPUs(t *testing.T) {
	for label, left := range map[string]int{"cloud.google.com/gke-accelerator": 1, "accelerator": 2} {
		setup, err := load("x.yaml", []byte(scenario(fmt.Sprintf(`options: {scaleDownEnabled: true, scaleDownUnneededTime: 40m}
groupLabel: group
duration: 30m
machines: [{name: m, resources: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4}, labels: {%[1]s: t4}}]
nodeGroups: [{name: a, zone: z, machine: m, max: 9}]
objects:
- {apiVersion: v1, kind: Node, metadata: {name: broken, labels: {group: a, %[1]s: t4}}, status: {capacity: {cpu: 8, memory: 16Gi, pods: 110}}}
- {apiVersion: v1, kind: Node, metadata: {name: whole, labels: {group: a, %[1]s: t4}}, status: {capacity: {cpu: 8, memory: 16Gi, pods: 110, nvidia.com/gpu: 4}}}`, label))))
		if err != nil {
			t.Fatal(err)
		}
		if status := run(t, setup).Status; status.Groups[0].After != left {
			t.Errorf("label %s: %d nodes left, want %d", label, status.Groups[0].After, left)
		}
	}
}

// TestNodesThatCannotBeCountedForQuotas: nothing is ordered until the cloud says which group a node belongs to.
func TestNodesThatCannotBeCountedForQuotas(t *testing.T) {
	setup, err := load("x.yaml", []byte(scenario(`options: {coresTotal: "8"}
machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups: [{name: a, zone: z, machine: m, max: 9, size: 1}]
workloads: [{name: web, replicas: 3, requests: {cpu: 1500m}}]
faults: {calls: [{methods: [NodeGroupForNode], error: boom, until: 1m}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	if text := describe(run(t, setup)); !strings.Contains(text, "+1m0s scale-up: a 1→3 (2 nodes for 2 pods)") {
		t.Error(text)
	}
}
