package simulate_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// scenario wraps a spec, and the node groups it leaves out.
func scenario(spec string) string {
	if !strings.Contains(spec, "nodeGroups") {
		spec += "\nmachines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]\nnodeGroups: [{name: a, zone: z, machine: m, max: 3}]"
	}
	return "apiVersion: evenkeel.dev/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  " +
		strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
}

const (
	nodeA = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"group":"a"}},"status":{"capacity":{"cpu":"2","memory":"8Gi","pods":"10"}}}`
	nodeB = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n2","labels":{"group":"b"}},"status":{"capacity":{"cpu":"2","memory":"8Gi","pods":"10"}}}`
	podOn = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"},"spec":{"nodeName":"gone","containers":[{"name":"c"}]}}`
)

var testFiles = fstest.MapFS{
	"empty.json":    {Data: nil},
	"node.json":     {Data: []byte(nodeA)},
	"pod.json":      {Data: []byte(podOn)},
	"list.json":     {Data: []byte(`{"apiVersion":"v1","kind":"List","items":[` + nodeA + `]}`)},
	"quantity.json": {Data: []byte(strings.Replace(nodeA, `"2"`, `"2 cores"`, 1))},
	"twice.json": {Data: []byte(`{"apiVersion":"v1","kind":"List","items":[` + nodeA + "," + nodeB + "," + nodeA + "," + nodeB + "," +
		nodeA + `]}`)},
	"broken.json": {Data: []byte(`{"apiVersion":"v1","kind":"List","items":[`)},
	"bare.json":   {Data: []byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"bare"}}`)},
	"odd.json": {Data: []byte(strings.Replace(nodeA, `"labels"`,
		`"annotations":{"cluster-autoscaler.kwok.nodegroup/max-count":"many"},"labels"`, 1))},
	"negative.json": {Data: []byte(`{"apiVersion":"v1","kind":"List","items":[` +
		strings.Replace(podOn, `"name":"c"`, `"name":"c","resources":{"requests":{"cpu":"-1"}}`, 1) + `]}`)},
	"free.json":        {Data: []byte(strings.Replace(podOn, `"nodeName":"gone",`, "", 1))},
	"daemon.json":      {Data: []byte(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"d","namespace":"default"},"spec":{"template":{"spec":{"containers":[{"name":"c"}]}}}}`)},
	"nothing.json":     {Data: []byte(`{"apiVersion":"v1","kind":"List","items":[]}`)},
	"mixed/pods.yaml":  {Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {containers: [{name: c}]}\n")},
	"mixed/more.json":  {Data: []byte(strings.Replace(podOn, `"nodeName":"gone",`, "", 1) + nodeA)},
	"mixed/readme.txt": {Data: []byte("not read")},
	"bare/readme.txt":  {Data: []byte("not read")},
	"large.json":       {Data: []byte(strings.Repeat(" ", 1<<20) + nodeA)},
	"snapshot.json":    {Data: []byte(`{"NodeList":[],"TemplateNodes":{"g":{"Node":{"metadata":{"name":"t"},"status":{"capacity":{"cpu":"2","memory":"8Gi","pods":"10"}}},"Pods":[]}}}`)},
}

func loadWith(text string) (*simulate.Setup, error) {
	docs, err := document.Read("s.yaml", strings.NewReader(text), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		return nil, err
	}
	open := func(name string) (io.ReadCloser, error) { return testFiles.Open(name) }
	return simulate.Load(&docs[0], simulate.Files{Open: open, MaxSize: 1 << 19})
}

// TestRefuse gives every kind of bad input and wants one clear problem with the
// field's path.
func TestRefuse(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"unknown field":  {"workload: []", `spec.workload: unknown field (did you mean "workloads"?)`},
		"unknown option": {"options: {balanceSimilarGroups: true}", "spec.options.balanceSimilarGroups: unknown field"},
		"no groups":      {"nodeGroups: []", "spec.nodeGroups: Required value"},
		"duplicate group": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi}}]\nnodeGroups: [{name: a, machine: m, " +
			"max: 1}, {name: a, machine: m, max: 1}]", "spec.nodeGroups[1].name: Duplicate value: \"a\""},
		"no max": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi}}]\nnodeGroups: [{name: a, machine: m}]",
			"spec.nodeGroups[0].max: Required value"},
		"max below min": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi}}]\nnodeGroups: [{name: a, machine: m, min: 3, max: 2}]",
			"spec.nodeGroups[0].max: Invalid value: 2: must not be below min 3"},
		"negative size": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi}}]\nnodeGroups: [{name: a, machine: m, size: -1, max: 2}]",
			"spec.nodeGroups[0].size: Invalid value: -1: must not be negative"},
		"unknown machine": {"nodeGroups: [{name: a, machine: m5, max: 2}]", `spec.nodeGroups[0].machine: Not found: "m5"`},
		"no machine":      {"nodeGroups: [{name: a, max: 2}]", "spec.nodeGroups[0].machine: Required value"},
		"no capacity": {"nodeGroups: [{name: a, max: 2, template: {}}]",
			"spec.nodeGroups[0].template.status.capacity[cpu]: Required value"},
		"no memory": {"machines: [{name: m, resources: {cpu: 1}}]\nnodeGroups: [{name: a, machine: m, max: 1}]",
			"spec.machines[0].resources[memory]: Required value"},
		"malformed quantity": {"machines: [{name: m, resources: {cpu: two, memory: 1Gi}}]\nnodeGroups: [{name: a, machine: m, max: 1}]",
			"spec.machines[0].resources[cpu]: Invalid value: \"two\""},
		"too much allocatable": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi}, allocatable: {cpu: 2}}]\nnodeGroups: " +
			"[{name: a, machine: m, max: 1}]", "spec.machines[0].allocatable[cpu]: Invalid value: \"2\": must not exceed the capacity of 1"},
		"negative replicas":  {"workloads: [{name: w, replicas: -1}]", "spec.workloads[0].replicas: Invalid value: -1"},
		"too many replicas":  {"workloads: [{name: w, replicas: 2000000}]", "spec.workloads[0].replicas: Invalid value: 2000000"},
		"negative request":   {"workloads: [{name: w, replicas: 1, requests: {cpu: -1}}]", "spec.workloads[0].requests[cpu]: Invalid value"},
		"duplicate workload": {"workloads: [{name: w, replicas: 1}, {name: w, replicas: 1}]", "spec.workloads[1].name: Duplicate value"},
		"time goes back": {"workloads: [{name: w, replicas: 1, arrive: 2m, scale: [{at: 1m, replicas: 2}]}]",
			"spec.workloads[0].scale[0].at: Invalid value: \"1m0s\": must not be before 2m0s"},
		"malformed duration": {"duration: soon", "spec.duration: Invalid value: \"soon\""},
		"short and full form": {"workloads: [{name: w, replicas: 1, requests: {cpu: 1}, template: {spec: {containers: [{name: c}]}}}]",
			"spec.workloads[0].template: Forbidden"},
		"unknown expander": {"options: {expander: cheapest}", "spec.options.expander: Invalid value: \"cheapest\""},
		"no priorities":    {"options: {expander: priority}", "spec.options.priorities: Required value"},
		"bad priorities":   {"options: {expander: priority, priorities: {10: [\"(\"]}}", "spec.options.priorities"},
		"ratio above one":  {"options: {memoryDifferenceRatio: 1.5}", "spec.options.memoryDifferenceRatio: Invalid value: \"1.5\""},
		"unknown pack":     {"options: {disabledLabelPacks: [amazon]}", "spec.options.disabledLabelPacks[0]: Invalid value: \"amazon\""},
		"cores total":      {"options: {coresTotal: \"10:5\"}", "spec.options.coresTotal: Invalid value: \"10:5\": min must not exceed max"},
		"quota of nothing": {"quotas: [{name: q}]", "spec.quotas[0]: Required value"},
		"quota of nobody":  {"quotas: [{name: q, groups: [b], nodes: 1}]", `spec.quotas[0].groups[0]: Not found: "b"`},
		"fault in no zone": {"faults: {outages: [{zones: [y]}]}", `spec.faults.outages[0].zones[0]: Not found: "y"`},
		"fault that ends":  {"faults: {stockOuts: [{from: 2m, until: 1m}]}", "spec.faults.stockOuts[0].until: Invalid value"},
		"fault of a call": {"faults: {calls: [{methods: [Explode], error: x}]}",
			"spec.faults.calls[0].methods[0]: Unsupported value: \"Explode\""},
		"first of several":     {"faults: {calls: [{first: 1, error: x}]}", "spec.faults.calls[0].first: Forbidden"},
		"expected group":       {"expect: {sizes: {b: 1}}", "spec.expect.sizes[b]: Not found"},
		"expected workload":    {"expect: {skew: [{workload: w, pods: 1}]}", "spec.expect.skew[0].workload: Not found"},
		"missing file":         {"podsFrom: [{file: none.json}]", "spec.podsFrom[0].file: Invalid value: \"none.json\": no such file"},
		"no file":              {"podsFrom: [{}]", "spec.podsFrom[0].file: Required value"},
		"empty file":           {"podsFrom: [{file: empty.json}]", `"empty.json": holds no object`},
		"file of other things": {"podsFrom: [{file: node.json}]", "spec.podsFrom[0].file: Invalid value: \"node.json\": holds no Pod"},
		"broken file": {"nodesFrom: [{file: broken.json}]",
			`spec.nodesFrom[0].file: Invalid value: "broken.json": document 1: the JSON ends too early`},
		"quantity in a file": {"nodesFrom: [{file: quantity.json}]", "status.capacity[cpu]: Invalid value: \"2 cores\""},
		"large file":         {"nodesFrom: [{file: large.json}]", "larger than the limit"},
		"unknown node":       {"podsFrom: [{file: pod.json}]", "is bound to node gone, but no file has nodes"},
		"unknown group": {"groupLabel: group\nmachines: [{name: m, resources: {cpu: 1, memory: 1Gi}}]\nnodeGroups: " +
			"[{name: b, machine: m, max: 1}]\nnodesFrom: [{file: node.json}]", `its label group names node group "a", which does not exist`},
		"same node twice": {"nodesFrom: [{file: node.json}, {file: list.json}]", "spec.nodesFrom[1]: Duplicate value: \"n1\""},
		"group without bounds": {"nodeGroupsFrom: [{snapshot: snapshot.json}]\nnodeGroups: []",
			"spec.nodeGroupsFrom[0].max: Required value: node group g has no maximum"},
		"group of a bare node": {"nodeGroupsFrom: [{file: bare.json, max: 3}]\nnodeGroups: []",
			"status.capacity[cpu] of the template of node group bare"},
		"odd annotation": {"nodeGroupsFrom: [{file: odd.json}]\nnodeGroups: []", "must be a number that is not negative"},
		"folder without files": {"podsFrom: [{file: bare}]",
			`spec.podsFrom[0].file: Invalid value: "bare": is a folder without files that end in .json, .yaml or .yml`},
		"folder without nodes": {"daemonSetsFrom: [{file: mixed}]", `spec.daemonSetsFrom[0].file: Invalid value: "mixed": holds no DaemonSet`},
		"empty list": {"podsFrom: [{file: nothing.json}]",
			`spec.podsFrom[0].file: Invalid value: "nothing.json": the list in nothing.json has no items`},
		"misspelt machine": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi, gpu: 8}}]\nnodeGroups: [{name: a, machine: m, max: 1}]",
			`spec.machines[0].resources: Invalid value: "gpu": is not a resource of Kubernetes (did you mean "nvidia.com/gpu"?)`},
		"misspelt allocatable": {"machines: [{name: m, resources: {cpu: 1, memory: 1Gi}, allocatable: {Memory: " +
			"1}}]\nnodeGroups: [{name: a, machine: m, max: 1}]", `spec.machines[0].allocatable: Invalid value: "Memory"`},
		"misspelt request": {"workloads: [{name: w, replicas: 12, requests: {cpus: 64}}]",
			`spec.workloads[0].requests: Invalid value: "cpus": is not a resource of Kubernetes (did you mean "cpu"?)`},
		"misspelt daemon": {"daemonSets: [{name: d, requests: {mem: 1Gi}}]",
			`spec.daemonSets[0].requests: Invalid value: "mem": is not a resource of Kubernetes (did you mean "memory"?)`},
		"misspelt in a pod": {"workloads: [{name: w, replicas: 1, template: {spec: {containers: [{name: c}], overhead: {Cpu: 1}}}}]",
			`spec.workloads[0].template.spec.overhead: Invalid value: "Cpu"`},
		"misspelt template": {"nodeGroups: [{name: a, max: 2, template: {status: {capacity: {cpu: 1, memory: 1Gi, pods: 9, gpu: 1}}}}]",
			`spec.nodeGroups[0].template.status.capacity: Invalid value: "gpu"`},
		"fraction of a byte": {"workloads: [{name: w, replicas: 1, requests: {memory: 512m}}]",
			`spec.workloads[0].requests[memory]: Invalid value: "512m": must be a whole number of bytes (did you mean "512Mi"?)`},
		"half a device": {"workloads: [{name: w, replicas: 1, requests: {nvidia.com/gpu: 500m}}]",
			`spec.workloads[0].requests[nvidia.com/gpu]: Invalid value: "500m": must be a whole number`},
		"skew of nothing": {"workloads: [{name: w, replicas: 1, spread: [{maxSkew: 0}]}]",
			"spec.workloads[0].spread[0].maxSkew: Invalid value: 0: must be at least 1"},
		"zone of two words": {machines + "nodeGroups: [{name: a, machine: m, max: 1, zone: a b/c}]",
			`spec.nodeGroups[0].zone: Invalid value: "a b/c": a valid label must`},
		"another zone": {machines + "nodeGroups: [{name: a, machine: m, max: 1, zone: x, labels: {topology.kubernetes.io/zone: y}}]",
			`spec.nodeGroups[0].labels[topology.kubernetes.io/zone]: Invalid value: "y": contradicts zone x of the group: leave one of the two out`},
		"machine's zone": {"machines: [{name: m, labels: {topology.kubernetes.io/zone: y}, resources: {cpu: 1, memory: " +
			"1Gi}}]\nnodeGroups: [{name: a, machine: m, max: 1, zone: x}]",
			`spec.nodeGroups[0].zone: Invalid value: "x": contradicts label topology.kubernetes.io/zone=y of machine m`},
		"template's zone": {"nodeGroups: [{name: a, max: 2, zone: x, template: {metadata: {labels: " +
			"{topology.kubernetes.io/zone: y}}, status: {capacity: {cpu: 1, memory: 1Gi, pods: 9}}}}]",
			`spec.nodeGroups[0].template.metadata.labels[topology.kubernetes.io/zone]: Invalid value: "y"`},
		"emoji": {machines + "nodeGroups: [{name: 😀, machine: m, max: 1}]",
			`spec.nodeGroups[0].name: Invalid value: "😀": must be printable ASCII characters`},
		"long group name": {machines + "nodeGroups: [{name: " + strings.Repeat("a", 10_000) + ", machine: m, max: 1}]",
			`… (10000 characters)": must be at most 253 characters`},
		"empty taint key": {machines + "nodeGroups: [{name: a, machine: m, max: 1, taints: [{key: \"\", effect: NoSchedule}]}]",
			"spec.nodeGroups[0].taints[0].key: Required value"},
		"negative in a file": {"podsFrom: [{file: negative.json}]",
			`spec.podsFrom[0].file: Invalid value: "negative.json": document 1: items[0] (Pod default/p): spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must not be negative`},
		"pod twice": {"podsFrom: [{file: free.json}, {file: free.json}]", `spec.podsFrom[1].file: Duplicate value: "default/p"`},
		"daemon set twice": {"daemonSets: [{name: d}]\ndaemonSetsFrom: [{file: daemon.json}]",
			`spec.daemonSetsFrom[0].file: Duplicate value: "default/d"`},
		"no snapshot": {"nodeGroupsFrom: [{snapshot: node.json, max: 3}]\nnodeGroups: []", "is not a debugging snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadWith(scenario(c.spec))
			var invalid *document.Invalid
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v, want problems with %q", err, c.want)
			}
			if len(invalid.Problems) != 1 && name != "group of a bare node" && name != "no capacity" {
				t.Errorf("%d problems, want one: %v", len(invalid.Problems), err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAFolderStandsForItsFiles(t *testing.T) {
	setup, err := loadWith(scenario("podsFrom: [{file: mixed}]\nnodesFrom: [{file: mixed}]"))
	if err != nil || len(setup.Pods) != 2 || len(setup.Nodes) != 1 {
		t.Errorf("%v, %v", setup, err)
	}
}

// TestNameRequired is apart because every other scenario has a name.
func TestNameRequired(t *testing.T) {
	_, err := loadWith(strings.Replace(scenario(""), "metadata: {name: test}\n", "", 1))
	if err == nil || !strings.Contains(err.Error(), "metadata.name: Required value") {
		t.Error(err)
	}
}

// TestUnbind takes from a bound pod what binding gave it, and shares what equal
// pods have in common.
func TestUnbind(t *testing.T) {
	setup := builtIn(t, "real-cluster")
	if len(setup.Pods) != 79 {
		t.Fatalf("%d pods, want the 79 that no daemon set owns", len(setup.Pods))
	}
	containers := map[any]bool{}
	for _, p := range setup.Pods {
		if p.Spec.NodeName != "" || p.Status.PodIP != "" || p.Labels["topology.kubernetes.io/zone"] != "" {
			t.Fatalf("pod %s still shows where it ran", p.Name)
		}
		containers[&p.Spec.Containers[0]] = true
	}
	if len(containers) != 6 {
		t.Errorf("%d copies of specifications, want 6 kinds of pods to share theirs", len(containers))
	}
}

// FuzzScenario feeds the reader anything: it refuses or loads, and never panics.
func TestOptionsThatCutNothingAreNoted(t *testing.T) {
	setup, err := loadWith(scenario("options: {maxNodegroupBinpackingDuration: 10s}"))
	if err != nil {
		t.Fatal(err)
	}
	if len(setup.Notes) != 1 || !strings.HasPrefix(setup.Notes[0], "maxNodegroupBinpackingDuration cuts nothing") {
		t.Errorf("notes: %q", setup.Notes)
	}
}

func FuzzScenario(f *testing.F) {
	f.Add(scenario("workloads: [{name: w, replicas: 3, spread: [{}], requests: {cpu: 100m}}]"))
	f.Add(scenario("options: {expander: \"priority,least-waste\", priorities: {10: [.*]}}\nquotas: [{name: q, zones: [z], cores: 8}]"))
	f.Add(scenario("faults: {stockOuts: [{mode: Fail, failAfter: 3s}], calls: [{delay: 1s}]}\nnodesFrom: [{file: node.json}]"))
	f.Add(scenario("nodeGroupsFrom: [{snapshot: snapshot.json, max: 2}]\npodsFrom: [{file: pod.json, unbind: true}]"))
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := document.Read("s.yaml", strings.NewReader(text), document.Options{Kinds: simulate.Kinds(), MaxSize: 1 << 16})
		if err != nil {
			return
		}
		for i := range docs {
			open := func(name string) (io.ReadCloser, error) {
				file, err := testFiles.Open(name)
				if err != nil {
					return nil, fs.ErrNotExist
				}
				return file, nil
			}
			setup, err := simulate.Load(&docs[i], simulate.Files{Open: open, MaxSize: 1 << 19})
			var invalid *document.Invalid
			if (setup == nil) != (err != nil) || err != nil && !errors.As(err, &invalid) {
				t.Fatalf("setup %v, error %v", setup, err)
			}
		}
	})
}
