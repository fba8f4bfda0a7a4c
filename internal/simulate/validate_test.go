package simulate_test

import (
	"fmt"
	"strings"
	"testing"
)

const (
	machines = "machines: [{name: m, resources: {cpu: 1, memory: 1Gi}}]\n"
	wrongKey = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " +
		"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is " +
		"'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	wrongValue = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must " +
		"start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation " +
		"is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
	wrongEffect = `: supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`
	wrongWhen   = `: supported values: "DoNotSchedule", "ScheduleAnyway"`
	wrongOp     = `: supported values: "Equal", "Exists"`
)

// TestRefuseWords wants whole messages, of what the API server would refuse as
// well and of what makes no run.
func TestRefuseWords(t *testing.T) {
	workload := func(shape string) string { return "workloads: [{name: w, replicas: 1, " + shape + "}]" }
	template := func(spec string) string {
		return workload("template: {spec: {containers: [{name: c}], " + spec + "}}")
	}
	group := func(fields string) string {
		return machines + "nodeGroups: [{name: a, machine: m, max: 1, " + fields + "}]"
	}
	from := func(fields string) string {
		return machines + "groupLabel: group\nnodeGroups: [{name: c, machine: m, max: 1}]\nnodeGroupsFrom: [" + fields + "]"
	}
	for name, c := range map[string]struct{ spec, want string }{
		"no skew": {workload("spread: [{maxSkew: -1}]"),
			"spec.workloads[0].spread[0].maxSkew: Invalid value: -1: must be at least 1"},
		"no skew, template": {template("topologySpreadConstraints: [{topologyKey: z, whenUnsatisfiable: DoNotSchedule}]"),
			"spec.workloads[0].template.spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be at least 1"},
		"no domain": {template("topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]"),
			"spec.workloads[0].template.spec.topologySpreadConstraints[0].topologyKey: Required value: must be a key such as example.com/pool"},
		"unsatisfiable": {workload("spread: [{whenUnsatisfiable: Never}]"),
			`spec.workloads[0].spread[0].whenUnsatisfiable: Unsupported value: "Never"` + wrongWhen},
		"unsatisfiable, empty": {template("topologySpreadConstraints: [{maxSkew: 1, topologyKey: z}]"),
			`spec.workloads[0].template.spec.topologySpreadConstraints[0].whenUnsatisfiable: Required value: must be one of DoNotSchedule, ScheduleAnyway`},
		"operator": {workload("tolerations: [{key: a, operator: In}]"),
			`spec.workloads[0].tolerations[0].operator: Unsupported value: "In"` + wrongOp},
		"operator, template": {template("tolerations: [{key: a, operator: In}]"),
			`spec.workloads[0].template.spec.tolerations[0].operator: Unsupported value: "In"` + wrongOp},
		"toleration's effect": {workload("tolerations: [{key: a, effect: NoStart}]"),
			`spec.workloads[0].tolerations[0].effect: Unsupported value: "NoStart"` + wrongEffect},
		"machine's taint": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi}, taints: [{key: a, effect: " +
			"NoStart}]}]\nnodeGroups: [{name: a, machine: m, max: 1}]", `spec.machines[0].taints[0].effect: Unsupported value: "NoStart"` +
			wrongEffect},
		"group's taint": {group("taints: [{key: a}]"),
			`spec.nodeGroups[0].taints[0].effect: Required value: must be one of NoSchedule, PreferNoSchedule, NoExecute`},
		"taint's key": {group("taints: [{key: a b, effect: NoSchedule}]"), `spec.nodeGroups[0].taints[0].key: Invalid value: "a b": ` +
			wrongKey},
		"label's key":   {group("labels: {a b: c}"), `spec.nodeGroups[0].labels: Invalid value: "a b": ` + wrongKey},
		"label's value": {group("labels: {a: b c}"), `spec.nodeGroups[0].labels[a]: Invalid value: "b c": ` + wrongValue},
		"pod's label":   {workload("labels: {a: b c}"), `spec.workloads[0].labels[a]: Invalid value: "b c": ` + wrongValue},
		"selector":      {workload("nodeSelector: {a: b c}"), `spec.workloads[0].nodeSelector[a]: Invalid value: "b c": ` + wrongValue},
		"daemon set's label": {"daemonSets: [{name: d, labels: {a: b c}}]", `spec.daemonSets[0].labels[a]: Invalid value: "b c": ` +
			wrongValue},
		"no machine at all": {"nodeGroups: [{name: a, machine: m5, max: 1}]",
			`spec.nodeGroups[0].machine: Not found: "m5": the scenario has no machines`},
		"other machines": {machines + "nodeGroups: [{name: a, machine: m5, max: 1}]",
			`spec.nodeGroups[0].machine: Not found: "m5": the machines are m`},
		"no time":             {"duration: 0s", `spec.duration: Invalid value: "0s": must be greater than zero`},
		"time backwards":      {"duration: -5m", `spec.duration: Invalid value: "-5m0s": must be greater than zero`},
		"GPUs without bounds": {"options: {gpuTotal: ['k80']}", `spec.options.gpuTotal[0]: Invalid value: "k80": must be kind:min:max`},
		"GPUs in parts": {"options: {gpuTotal: ['k80:0:1.5']}",
			`spec.options.gpuTotal[0]: Invalid value: "k80:0:1.5": must be kind:min:max, with whole numbers`},
		"GPUs below minimum": {"options: {gpuTotal: ['k80:2:1']}",
			`spec.options.gpuTotal[0]: Invalid value: "k80:2:1": min must not exceed max`},
		"GPU threshold": {"options: {scaleDownGpuUtilizationThreshold: 2}",
			`spec.options.scaleDownGpuUtilizationThreshold: Invalid value: "2": must be between 0 and 1`},
		"no time to estimate": {"options: {maxNodegroupBinpackingDuration: -1s}",
			`spec.options.maxNodegroupBinpackingDuration: Invalid value: "-1s": must not be negative`},
		"no time to evict": {"options: {maxPodEvictionTime: -1s}",
			`spec.options.maxPodEvictionTime: Invalid value: "-1s": must not be negative`},
		"system pods for ever": {"options: {blockingSystemPodDistruptionTimeout: -1s}",
			`spec.options.blockingSystemPodDistruptionTimeout: Invalid value: "-1s": must not be negative`},
		"negative minimum": {"options: {minReplicaCount: -1}", `spec.options.minReplicaCount: Invalid value: -1: must not be negative`},
		"no interval":      {"options: {scanInterval: 0s}", `spec.options.scanInterval: Invalid value: "0s": must be at least 1s`},
		"unneeded, backwards": {"options: {scaleDownUnneededTime: -1m}",
			`spec.options.scaleDownUnneededTime: Invalid value: "-1m0s": must not be negative`},
		"deferral backwards": {"options: {maxBalanceDeferral: -1m}",
			`spec.options.maxBalanceDeferral: Invalid value: "-1m0s": must not be negative`},
		"more than all": {"options: {scaleDownUtilizationThreshold: 1.5}",
			`spec.options.scaleDownUtilizationThreshold: Invalid value: "1.5": must be between 0 and 1`},
		"nothing in parallel": {"options: {maxScaleDownParallelism: 0}",
			`spec.options.maxScaleDownParallelism: Invalid value: 0: must be 1 or more`},
		"no drain at all": {"options: {maxDrainParallelism: 0}", `spec.options.maxDrainParallelism: Invalid value: 0: must be 1 or more`},
		"zone and zones":  {group("zone: a, zones: [a, b]"), "spec.nodeGroups[0].zone: Forbidden: not together with zones"},
		"a zone twice":    {group("zones: [a, a]"), `spec.nodeGroups[0].zones[1]: Duplicate value: "a"`},
		"other zones": {group("zones: [a, b], labels: {topology.kubernetes.io/zone: c}"),
			`spec.nodeGroups[0].labels[topology.kubernetes.io/zone]: Invalid value: "c": contradicts zone a, b of the group: leave one of the two out`},
		"distribution": {group("zones: [a, b], distribution: Odd"),
			`spec.nodeGroups[0].distribution: Unsupported value: "Odd": supported values: "Balanced", "Even", "Any"`},
		"nothing to spread": {group("zone: a, distribution: Any"), "spec.nodeGroups[0].distribution: Forbidden: only with zones"},
		"release": {"autoscaler: {mode: stock, version: \"1.33\"}",
			`spec.autoscaler.version: Unsupported value: "1.33": supported values: "1.34", "1.35", "1.36"`},
		"nothing to link into": {"autoscaler: {version: \"1.35\"}",
			`spec.autoscaler.version: Invalid value: "1.35": has no hooks to link into: mode linked needs 1.36, the others play all`},
		"larger than a cloud": {group("size: 1000001"), "spec.nodeGroups[0].size: Invalid value: 1000001: must not exceed 1000000"},
		"larger in a file": {from("{file: list.json, max: 1, size: 1000001}"),
			"spec.nodeGroupsFrom[0].size: Invalid value: 1000001: must not exceed 1000000"},
		"larger together": {machines +
			"nodeGroups: [{name: a, machine: m, max: 1, size: 600000}, {name: b, machine: m, max: 1, size: 600000}]",
			"spec.nodeGroups: Invalid value: 1200000: the nodes of all groups must not exceed 1000000"},
		"nodes for groups": {from("{file: twice.json, max: 9}"),
			`spec.nodeGroupsFrom[0].file: Invalid value: "twice.json": lists node group a 3 times and 1 other more than once: give one node for each group, and the nodes of a cluster in nodesFrom`},
		"group of two files": {from("{file: list.json, max: 9}, {file: list.json, max: 9}"),
			`spec.nodeGroupsFrom[1]: Duplicate value: "a": the node group of list.json already exists`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadWith(scenario(c.spec))
			if want := "s.yaml: document 1: " + c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestManyProblems wants the first of them and how many more there are.
func TestManyProblems(t *testing.T) {
	var pods strings.Builder
	pods.WriteString("podsFrom: [")
	for i := range 25 {
		fmt.Fprintf(&pods, "{file: none%d.json}, ", i)
	}
	pods.WriteString("]")
	_, err := loadWith(scenario(pods.String()))
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if want := "s.yaml: document 1: and 5 more problems"; len(lines) != 21 || lines[20] != want {
		t.Errorf("%d lines, the last %q, want 21 with %q", len(lines), lines[len(lines)-1], want)
	}
}
