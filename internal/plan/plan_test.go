package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/plan"
)

const head = "apiVersion: evenkeel.dev/v1alpha1\nkind: "

// read gives the one document of a text.
func read(tb testing.TB, text string) document.Document {
	tb.Helper()
	docs, err := document.Read("test", strings.NewReader(text), document.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return docs[0]
}

// answer gives the status of the one document of a text, as JSON.
func answer(tb testing.TB, text string) string {
	tb.Helper()
	d := read(tb, text)
	before, err := json.Marshal(d.Object)
	if err != nil {
		tb.Fatal(err)
	}
	status, err := plan.Answer(d.Object)
	if err != nil {
		tb.Fatal(err)
	}
	if after, err := json.Marshal(d.Object); err != nil || string(after) != string(before) {
		tb.Errorf("the document changed from\n%s\nto\n%s, %v", before, after, err)
	}
	out, err := json.Marshal(status)
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

func TestAnswer(t *testing.T) {
	split := func(spec string) string { return head + "NodeGroupSplit\nspec: {" + spec + "}" }
	replicas := func(spec string) string { return head + "ReplicaDistribution\nspec: {" + spec + "}" }
	spread := func(spec string) string { return head + "SpreadSplit\nspec: {" + spec + "}" }
	for _, tc := range []struct{ name, in, want string }{
		{
			"portions: a base, then by weight",
			split("nodes: 7, policy: Proportional, groups: [{name: o, size: 0, max: 9}, {name: s, size: 0, max: 9}, {name: t, size: 0, max: 9}], " +
				"portions: [{name: on-demand, groups: [o], weight: 20, base: 2}, {name: spot, groups: [s, t], weight: 80}]"),
			`{"groups":[{"name":"o","size":0,"newSize":3},{"name":"s","size":0,"newSize":2},{"name":"t","size":0,"newSize":2}],"unplaced":0}`,
		},
		{
			"10/5/2 machines with four cores each",
			split("nodes: 16, nodeCapacity: 4, groups: [{name: a, size: 10, max: 40, capacity: 4}, {name: b, size: 5, max: 40, " +
				"capacity: 4}, {name: c, size: 2, max: 40, capacity: 4}]"),
			`{"groups":[{"name":"a","size":10,"newSize":11},{"name":"b","size":5,"newSize":11},{"name":"c","size":2,"newSize":11}],"unplaced":0}`,
		},
		{
			"the example of the proposal",
			split("nodes: 4, policy: Even, chosen: c, groups: [{name: a, size: 1, max: 10}, {name: b, size: 3, max: 10}, {name: " +
				"c, size: 6, max: 10}]"),
			`{"groups":[{"name":"a","size":1,"newSize":4},{"name":"b","size":3,"newSize":4},{"name":"c","size":6,"newSize":6}],"unplaced":0}`,
		},
		{
			"every reason, and what has no place",
			split("nodes: 12, groups: [{name: full, size: 9, max: 10}, {name: over, size: 6, max: 5}, {name: low, size: 0, min: " +
				"10, max: 10}, {name: off, size: 0, max: 0}]"),
			`{"groups":[{"name":"full","size":9,"newSize":10,"reason":"max"},{"name":"over","size":6,"newSize":6,"reason":"overMax"},` +
				`{"name":"low","size":0,"newSize":10,"reason":"max"},{"name":"off","size":0,"newSize":0,"reason":"max"}],"unplaced":1}`,
		},
		{
			"raised to its min",
			split("nodes: 2, groups: [{name: a, size: 5, max: 10}, {name: b, size: 0, min: 2, max: 10}]"),
			`{"groups":[{"name":"a","size":5,"newSize":5},{"name":"b","size":0,"newSize":2,"reason":"min"}],"unplaced":0}`,
		},
		{
			"the chosen group is first among equals",
			split("nodes: 1, chosen: b, groups: [{name: a, size: 1, max: 10}, {name: b, size: 1, max: 10}]"),
			`{"groups":[{"name":"a","size":1,"newSize":1},{"name":"b","size":1,"newSize":2}],"unplaced":0}`,
		},
		{
			"in proportion",
			split("nodes: 9, policy: Proportional, groups: [{name: a, size: 0, max: 100, weight: 2}, {name: b, size: 0, max: 100}]"),
			`{"groups":[{"name":"a","size":0,"newSize":6},{"name":"b","size":0,"newSize":3}],"unplaced":0}`,
		},
		{
			"in order of the list",
			split("nodes: 5, policy: Priority, groups: [{name: b, size: 1, max: 4}, {name: a, size: 0, max: 100}]"),
			`{"groups":[{"name":"b","size":1,"newSize":4,"reason":"max"},{"name":"a","size":0,"newSize":2}],"unplaced":0}`,
		},
		{
			"a great many nodes",
			split("nodes: 2147483647, groups: [{name: a, size: 0, max: 2147483647}, {name: b, size: 1, max: 2147483647}]"),
			`{"groups":[{"name":"a","size":0,"newSize":1073741824},{"name":"b","size":1,"newSize":1073741824}],"unplaced":0}`,
		},
		{
			"thirty pods over three zones",
			spread("pods: 30, maxSkew: 1, podsPerNode: 2, domains: [{name: a, matchingPods: 2, active: true}, {name: b, " +
				"matchingPods: 2, freeSlots: 0, active: true}, {name: c, matchingPods: 2, active: true}], " +
				"groups: [{name: nc, domain: c, size: 1, max: 4}, {name: na, domain: a, size: 1, max: 20}, {name: nb, domain: b, " +
				"size: 1, max: 20}], extraNodes: 1"),
			`{"groups":[{"name":"nc","size":1,"newSize":4},{"name":"na","size":1,"newSize":6},{"name":"nb","size":1,"newSize":5}],"placed":20,"unplaced":10,"binding":["c"]}`,
		},
		{
			"too few domains",
			spread("pods: 3, maxSkew: 2, minDomains: 2, podsPerNode: 5, domains: [{name: a}], groups: [{name: na, domain: a, " +
				"size: 9, max: 10}, {name: over, domain: a, size: 3, max: 2}]"),
			`{"groups":[{"name":"na","size":9,"newSize":10},{"name":"over","size":3,"newSize":3}],"placed":2,"unplaced":1,"binding":[]}`,
		},
		{
			"no groups",
			spread("pods: 3, maxSkew: 2, podsPerNode: 5, domains: [{name: a, freeSlots: 2, active: true}], groups: []"),
			`{"groups":[],"placed":2,"unplaced":1,"binding":["a"]}`,
		},
		{
			"as many as can be",
			spread("pods: 2147483647, maxSkew: 2147483647, podsPerNode: 1, extraNodes: 2147483647, domains: [{name: a, " +
				"matchingPods: 2147483647, active: true}, {name: b}], " +
				"groups: [{name: na, domain: a, size: 0, max: 2147483647}, {name: nb, domain: b, size: 0, max: 2147483647}]"),
			`{"groups":[{"name":"na","size":0,"newSize":2147483647},{"name":"nb","size":0,"newSize":2147483647}],"placed":2147483647,"unplaced":0,"binding":[]}`,
		},
		{
			"fifty replicas",
			replicas("replicas: 50, targets: [{name: a, weight: 1, min: 0, max: 100, capacity: 6, current: 0}, {name: b}, {name: c}]"),
			`{"targets":[{"name":"a","replicas":17,"pending":11,"reason":"capacity"},{"name":"b","replicas":22,"pending":0,"reason":"weight"},` +
				`{"name":"c","replicas":22,"pending":0,"reason":"weight"}],"unplaced":0,"excess":0}`,
		},
		{
			"no targets",
			replicas("replicas: 5, targets: []"),
			`{"targets":[],"unplaced":5,"excess":0}`,
		},
		{
			"all options, all reasons",
			replicas("replicas: 20, policy: Priority, rounding: Webster, minMode: Additive, shortage: TotalWins, rebalance: " +
				"false, pending: Trim, relief: LaterOnly, key: k, tieBreak: Hash, " +
				"targets: [{name: a, max: 4}, {name: b, min: 3, weight: 0}, {name: c, capacity: 2}, {name: d}]"),
			`{"targets":[{"name":"a","replicas":4,"pending":0,"reason":"max"},{"name":"b","replicas":3,"pending":0,"reason":"min"},` +
				`{"name":"c","replicas":2,"pending":0,"reason":"capacity"},{"name":"d","replicas":11,"pending":0,"reason":"order"}],"unplaced":0,"excess":0}`,
		},
		{
			"minimums beyond the total",
			replicas("replicas: 10, targets: [{name: a, min: 20}, {name: b}]"),
			`{"targets":[{"name":"a","replicas":20,"pending":0,"reason":"min"},{"name":"b","replicas":0,"pending":0,"reason":"weight"}],"unplaced":0,"excess":10}`,
		},
		{
			"weights beyond what a float can tell apart",
			replicas("replicas: 1, targets: [{name: a, weight: 9223372036854775806}, {name: b, weight: 9223372036854775807}]"),
			`{"targets":[{"name":"a","replicas":0,"pending":0,"reason":"weight"},{"name":"b","replicas":1,"pending":0,"reason":"weight"}],"unplaced":0,"excess":0}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, answer(t, tc.in)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// fleet is a and b, which are alike, c, which differs in four fields, and d, which differs from a
// and b in one.
const fleet = head + `NodeGroupSimilarity
spec:
  OPTIONS
  groups:
  - name: d
    template:
      metadata: {labels: {pool: blue, topology.kubernetes.io/zone: d}}
      status: {capacity: {cpu: 4, memory: 16Gi}, allocatable: {cpu: 1980m, memory: 15Gi}}
    pods: [{spec: {containers: [{resources: {requests: {cpu: 200m}}}]}}]
  - name: c
    template:
      metadata: {labels: {topology.kubernetes.io/zone: c}}
      spec: {taints: [{key: dedicated, value: gpu, effect: NoSchedule}]}
      status: {capacity: {cpu: 8, memory: 16Gi}, allocatable: {cpu: 1980m, memory: 15Gi}}
    pods: [{spec: {containers: [{resources: {requests: {cpu: 200m}}}]}}]
  - name: a
    template: &like
      metadata: {labels: {pool: blue, topology.kubernetes.io/zone: a}}
      status: {capacity: {cpu: 4000m, memory: 16Gi}, allocatable: {cpu: 1980m, memory: 15Gi}}
    pods: [{spec: {containers: [{resources: {requests: {cpu: 100m}}}]}}]
  - {name: b, template: *like, pods: [{spec: {containers: [{resources: {requests: {cpu: 0.1}}}]}}]}
`

func TestAnswerSimilarity(t *testing.T) {
	const free = `{"field":"free.cpu","left":"1880m","right":"1780m","ratio":"0.0532","limit":"0.05"}`
	const sets = `{"sets":[{"groups":["a","b"]},{"groups":["c"]},{"groups":["d"]}],"differences":[`
	ac := `{"groups":["a","c"],"fields":[{"field":"capacity.cpu","left":"4","right":"8","limit":"equal"},` + free +
		`,{"field":"labels[pool]","left":"blue","limit":"equal"},{"field":"taints[dedicated:NoSchedule]","right":"gpu","limit":"equal"}]}`
	ad := `{"groups":["a","d"],"fields":[` + free + `]}`
	cd := `{"groups":["c","d"],"fields":[{"field":"capacity.cpu","left":"8","right":"4","limit":"equal"},` +
		`{"field":"labels[pool]","right":"blue","limit":"equal"},{"field":"taints[dedicated:NoSchedule]","left":"gpu","limit":"equal"}]}`
	for _, tc := range []struct{ name, options, want string }{
		{"pairs that differ in few fields", "", sets + ad + "," + cd + "]}"},
		{"all pairs", "allDifferences: true", sets + ac + "," + ad + "," + cd + "]}"},
		{"a ratio that is just enough", "options: {maxFreeDifferenceRatio: 0.0532}",
			`{"sets":[{"groups":["a","b","d"]},{"groups":["c"]}],"differences":[` +
				`{"groups":["a","c"],"fields":[` + strings.Replace(strings.TrimPrefix(ac, `{"groups":["a","c"],"fields":[`), free+",", "", 1) + "]}"},
		{"labels that alone decide", "options: {balancingLabels: [pool]}", `{"sets":[{"groups":["a","b","d"]},{"groups":["c"]}],"differences":[` +
			`{"groups":["a","c"],"fields":[{"field":"labels[pool]","left":"blue","limit":"equal"}]}]}`},
		{"a label that is ignored", "options: {balancingIgnoreLabels: [pool], maxFreeDifferenceRatio: 1}",
			`{"sets":[{"groups":["a","b","d"]},{"groups":["c"]}],"differences":[` +
				`{"groups":["a","c"],"fields":[{"field":"capacity.cpu","left":"4","right":"8","limit":"equal"},{"field":"taints[dedicated:NoSchedule]","right":"gpu","limit":"equal"}]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, answer(t, strings.Replace(fleet, "OPTIONS", tc.options, 1))); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	template := "template: {status: {capacity: {cpu: 1}}}"
	for _, tc := range []struct {
		kind, spec string
		want       []string
	}{
		{"NodeGroupSplit", "", []string{"spec.nodes: Required value: must be an integer",
			"spec.groups: Required value: must have at least one group"}},
		{"NodeGroupSplit", "nodes: -1, groups: []", []string{"spec.nodes: Invalid value: -1: must not be negative",
			"spec.groups: Required value: must have at least one group"}},
		{"NodeGroupSplit", "nodes: 1, chosen: z, groups: [{name: a, size: 1, max: 1}]",
			[]string{`spec.chosen: Invalid value: "z": must be the name of a group`}},
		{"NodeGroupSplit", "nodes: 1, policy: even, groups: [{name: a, size: 1, max: 1}]",
			[]string{`spec.policy: Unsupported value: "even": supported values: "Even", "Proportional", "Priority"`}},
		{"NodeGroupSplit",
			"nodes: 1, groups: [{name: a, size: 1, max: 1}, {name: b, size: 1, max: 1}, {name: b, size: 1, max: -1, min: -2, weight: -3}]", []string{
				`spec.groups[2].name: Duplicate value: "b"`, "spec.groups[2].min: Invalid value: -2: must not be negative",
				"spec.groups[2].max: Invalid value: -1: must not be negative", "spec.groups[2].weight: Invalid value: -3: must not be negative",
			}},
		{"NodeGroupSplit", "nodes: 2147483648, groups: [{name: a, size: 2147483647, max: 1, min: 2}]", []string{
			"spec.nodes: Invalid value: 2147483648: must be at most 2147483647",
			"spec.groups[0].min: Invalid value: 2: must not be greater than max",
		}},
		{"NodeGroupSplit", "nodes: 1, groups: [{}]", []string{
			"spec.groups[0].name: Required value: must be a name", "spec.groups[0].size: Required value: must be an integer",
			"spec.groups[0].max: Required value: must be an integer",
		}},
		{"NodeGroupSplit", "nodes: 1, nodeCapacity: 4, groups: [{name: a, size: 1, max: 1}]",
			[]string{"spec.nodeCapacity: Invalid value: 4: the groups have no capacity"}},
		{"ReplicaDistribution", "targets: [{name: a}]", []string{"spec.replicas: Required value: must be an integer"}},
		{"ReplicaDistribution", "replicas: 1, relief: LaterOnly",
			[]string{`spec.relief: Invalid value: "LaterOnly": may be set only with policy Priority`}},
		{"ReplicaDistribution", "replicas: 1, rounding: a, minMode: b, shortage: c, pending: d, relief: e, tieBreak: f, policy: g", []string{
			`spec.policy: Unsupported value: "g": supported values: "Proportional", "Priority"`,
			`spec.rounding: Unsupported value: "a": supported values: "LargestRemainder", "Webster", "DHondt"`,
			`spec.minMode: Unsupported value: "b": supported values: "Floor", "Additive"`,
			`spec.shortage: Unsupported value: "c": supported values: "GuaranteeMin", "TotalWins"`,
			`spec.pending: Unsupported value: "d": supported values: "Keep", "Trim"`,
			`spec.relief: Unsupported value: "e": supported values: "Any", "LaterOnly", "HealthyOnly"`,
			`spec.tieBreak: Unsupported value: "f": supported values: "Name", "Hash"`,
		}},
		{"ReplicaDistribution", "replicas: 1, targets: [{name: a, min: 2147483648}, {name: a, min: 5, max: 4}, {name: \"\"}]", []string{
			"spec.targets[0].min: Invalid value: 2147483648: must be at most 2147483647", `spec.targets[1].name: Duplicate value: "a"`,
			"spec.targets[1].min: Invalid value: 5: must not be greater than max", "spec.targets[2].name: Required value: must be a name",
		}},
		{"SpreadSplit", "", []string{
			"spec.pods: Required value: must be an integer", "spec.maxSkew: Required value: must be an integer",
			"spec.podsPerNode: Required value: must be an integer",
			"spec.domains: Required value: must have at least one domain",
		}},
		{"SpreadSplit", "pods: -1, maxSkew: 0, minDomains: 0, podsPerNode: 0, extraNodes: 2147483648, domains: [{name: a, " +
			"matchingPods: -1}, {name: a, freeSlots: 2147483648, active: true}, {}]", []string{
			"spec.pods: Invalid value: -1: must not be negative", "spec.maxSkew: Invalid value: 0: must be at least 1",
			"spec.minDomains: Invalid value: 0: must be at least 1",
			"spec.podsPerNode: Invalid value: 0: must be at least 1", "spec.domains[0].matchingPods: Invalid value: -1: must not be negative",
			`spec.domains[1].name: Duplicate value: "a"`,
			"spec.domains[1].freeSlots: Invalid value: 2147483648: must be at most 2147483647",
			"spec.domains[2].name: Required value: must be a name",
			"spec.extraNodes: Invalid value: 2147483648: must be at most 2147483647",
		}},
		{"SpreadSplit", "pods: 1, maxSkew: 1, podsPerNode: 1, domains: [{name: a, matchingPods: 1, freeSlots: 2}], groups: " +
			"[{name: x, domain: b, size: 1, max: 1}, {name: x}, {name: y, domain: a, size: -1, max: -1}]", []string{
			"spec.domains[0].matchingPods: Invalid value: 1: must be 0 in a domain that is not active: set active if it has an eligible node",
			"spec.domains[0].freeSlots: Invalid value: 2: must be 0 in a domain that is not active: set active if it has an eligible node",
			`spec.groups[0].domain: Invalid value: "b": must be the name of a domain`, `spec.groups[1].name: Duplicate value: "x"`,
			"spec.groups[1].domain: Required value: must be the name of a domain", "spec.groups[1].size: Required value: must be an integer",
			"spec.groups[1].max: Required value: must be an integer",
			"spec.groups[2].size: Invalid value: -1: must not be negative", "spec.groups[2].max: Invalid value: -1: must not be negative",
		}},
		{"NodeGroupSimilarity", "", []string{"spec.groups: Required value: must have at least one group"}},
		{"NodeGroupSimilarity", "groups: [{name: a, template: {spec: {taints: [{key: a, effect: NoShedule}]}, status: {capacity: {cpu: 1}}}}]",
			[]string{`spec.groups[0].template.spec.taints[0].effect: Unsupported value: "NoShedule": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		{"NodeGroupSimilarity", "groups: [{name: a, template: {spec: {taints: [{value: x}]}, status: {capacity: {cpu: 1}}}}]",
			[]string{"spec.groups[0].template.spec.taints[0].key: Required value: must be a key such as example.com/pool",
				"spec.groups[0].template.spec.taints[0].effect: Required value: must be one of NoSchedule, PreferNoSchedule, NoExecute"}},
		{"NodeGroupSimilarity", "groups: [{name: a, template: {metadata: {labels: {pool: a b}}, status: {capacity: {cpu: 1}}}}]",
			[]string{`spec.groups[0].template.metadata.labels[pool]: Invalid value: "a b": ` + validation.IsValidLabelValue("a b")[0]}},
		{"NodeGroupSplit", "nodes: 1, groups: [{name: a, size: 0, max: 1}], portions: [{name: p, groups: [a]}, {name: q}]",
			[]string{"spec.portions[1].groups: Required value: must have at least one group"}},
		{"TopologySpread", "pod: {}, nodes: [{metadata: {name: n}}], pods: [{metadata: {labels: {a: b c}}, spec: {nodeName: n}, status: {phase: succeeded}}]",
			[]string{`spec.pods[0].metadata.labels[a]: Invalid value: "b c": ` + validation.IsValidLabelValue("b c")[0],
				`spec.pods[0].status.phase: Unsupported value: "succeeded": supported values: "Pending", "Running", "Succeeded", "Failed", "Unknown"`}},
		{"NodeGroupSimilarity", "groups: [{name: a}]",
			[]string{"spec.groups[0].template.status.capacity: Required value: a template needs the capacity of its nodes"}},
		{"NodeGroupSimilarity", "options: {memoryDifferenceRatio: 1.5, balancingLabels: [\"\"]}, groups: [{name: a, " + template + "}]", []string{
			"spec.options.balancingLabels[0]: Required value: must be a key such as example.com/pool",
			"spec.options.memoryDifferenceRatio: Invalid value: 1.5: must be between 0 and 1",
		}},
		{"NodeGroupSimilarity",
			"groups: [{name: a, template: {apiVersion: v2, kind: Pod, status: {capacity: {cpu: -1}}}, pods: [{kind: Node, spec: " +
				"{overhead: {cpu: -1}, initContainers: [{resources: {requests: {cpu: -2}}}]}}]}]", []string{
				`spec.groups[0].template.apiVersion: Unsupported value: "v2": supported values: "v1"`,
				`spec.groups[0].template.kind: Unsupported value: "Pod": supported values: "Node"`,
				`spec.groups[0].template.status.capacity[cpu]: Invalid value: "-1": must not be negative`,
				`spec.groups[0].pods[0].kind: Unsupported value: "Node": supported values: "Pod"`,
				`spec.groups[0].pods[0].spec.initContainers[0].resources.requests[cpu]: Invalid value: "-2": must not be negative`,
				`spec.groups[0].pods[0].spec.overhead[cpu]: Invalid value: "-1": must not be negative`,
			}},
	} {
		d := read(t, head+tc.kind+"\nspec: {"+tc.spec+"}")
		var got []string
		errs := plan.Validate(d.Object)
		for _, err := range errs {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.kind, tc.spec, diff)
		}
		if _, err := plan.Answer(d.Object); err == nil || err.Error() != errs.ToAggregate().Error() {
			t.Errorf("%s %s: answered with error %v", tc.kind, tc.spec, err)
		}
	}
}

func TestAnswerTellsWhatTheEngineRefuses(t *testing.T) {
	d := read(t, head+"NodeGroupSimilarity\nspec: {groups: [{name: a, template: {status: {capacity: {cpu: 1}}}}, {name: b, "+
		"template: {status: {capacity: {cpu: 2}}}}]}")
	similarity := d.Object.(*v1alpha1.NodeGroupSimilarity)
	similarity.Spec.Groups[1].Template.Status.Capacity["cpu"] = resource.MustParse("1e30") // reading refuses it
	_, err := plan.Answer(d.Object)
	const want = `spec.groups[1].template.status.capacity[cpu]: Invalid value: "1e30": is out of range`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAnswerNeedsAPlanningDocument(t *testing.T) {
	for _, wrong := range []any{nil, "text", errors.New("x")} {
		if status, err := plan.Answer(wrong); err == nil || status != nil {
			t.Errorf("%v: got %v, %v", wrong, status, err)
		}
	}
}
