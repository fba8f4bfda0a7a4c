package simulate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// threePools is a cloud with room for everything, and a WorkloadSpread over three of its node groups.
func threePools(workload, spread string) string {
	return scenario(`machines: [{name: m, resources: {cpu: 64, memory: 256Gi, pods: 500}}]
nodeGroups:
- {name: a, zone: a, machine: m, size: 2, max: 9}
- {name: b, zone: b, machine: m, size: 2, max: 9}
- {name: c, zone: c, machine: m, size: 2, max: 9}
workloads: [{name: web, requests: {cpu: 10m}, ` + workload + `}]
workloadSpreads: [{metadata: {name: web}, spec: {` + spread + `}}]`)
}

const (
	ofDeployment = "targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, "
	inZone       = "requiredNodeSelector: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%s]}]}"
)

// zone is a subset in a zone, with more fields.
func zone(name, fields string) string {
	return "{name: " + name + ", " + fmt.Sprintf(inZone, name) + fields + "}"
}

func reported(t *testing.T, text string) *v1alpha1.ScenarioReport {
	t.Helper()
	setup, err := loadWith(text)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, setup)
}

// filled is how many pods each subset has at the end, and how many no subset has.
func filled(s *v1alpha1.WorkloadSpreadReport) string {
	var parts []string
	for _, subset := range s.Subsets {
		parts = append(parts, fmt.Sprintf("%s %d", subset.Name, subset.Running+subset.Pending))
	}
	if s.Unassigned > 0 {
		parts = append(parts, fmt.Sprintf("none %d", s.Unassigned))
	}
	if s.Refused > 0 {
		parts = append(parts, fmt.Sprintf("refused %d", s.Refused))
	}
	return strings.Join(parts, ", ")
}

func TestASpreadFillsItsSubsets(t *testing.T) {
	ratio := "distribution: Weighted, subsets: [" + zone("a", ", base: 2, weight: 20") + ", " + zone("b", ", weight: 80") + "]"
	zones := "subsets: [" + zone("a", ", maxReplicas: 20%") + ", " + zone("b", ", maxReplicas: 20%") + ", " +
		zone("c", ", maxReplicas: 60%") + "]"
	even := "distribution: Even, subsets: [" + zone("a", "") + ", " + zone("b", "") + ", " + zone("c", "") + "]"
	full := "subsets: [" + zone("a", ", maxReplicas: 3") + "]"
	for name, c := range map[string]struct{ workload, spread, want string }{
		"normal then elastic": {"replicas: 10", ofDeployment + "subsets: [" + zone("a", ", maxReplicas: 8") + ", " + zone("b", "") + "]",
			"a 8, b 2"},
		"20/20/60 of 7":  {"replicas: 7", ofDeployment + zones, "a 2, b 1, c 4"},
		"20/20/60, down": {"replicas: 20, scale: [{at: 1m, replicas: 10}]", ofDeployment + zones, "a 2, b 2, c 6"},
		"even":           {"replicas: 100", ofDeployment + even, "a 34, b 33, c 33"},
		"even on the way down": {"replicas: 100, scale: [{at: 1m, replicas: 61}, {at: 2m, replicas: 32}]", ofDeployment + even,
			"a 11, b 11, c 10"},
		"two, then 20/80":          {"replicas: 12", ofDeployment + ratio, "a 4, b 8"},
		"two, then 20/80, down":    {"replicas: 52, scale: [{at: 1m, replicas: 12}]", ofDeployment + ratio, "a 4, b 8"},
		"two, then 20/80, rollout": {"replicas: 12, rollouts: [{at: 1m}, {at: 2m}]", ofDeployment + ratio, "a 4, b 8"},
		"minimum kept free": {"replicas: 5", ofDeployment + "subsets: [" + zone("a", "") + ", " + zone("b", ", minReplicas: 2") + "]",
			"a 3, b 2"},
		"full":                     {"replicas: 5", ofDeployment + full, "a 3, none 2"},
		"full, refused":            {"replicas: 5", ofDeployment + "whenFull: Refuse, " + full, "a 3, refused 2"},
		"scaled down to what fits": {"replicas: 5, scale: [{at: 1m, replicas: 3}]", ofDeployment + full, "a 3"},
		"stateful set": {"kind: StatefulSet, replicas: 5",
			"targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}, subsets: [" + zone("a", ", maxReplicas: 2") + ", " + zone("b", "") +
				"]", "a 2, b 3"},
		"stateful set, down": {"kind: StatefulSet, replicas: 5, scale: [{at: 1m, replicas: 1}, {at: 2m, replicas: 3}]",
			"targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}, subsets: [" + zone("a", ", maxReplicas: 2") + ", " + zone("b", "") +
				"]", "a 2, b 1"},
		"replica set": {"kind: ReplicaSet, replicas: 5", "targetRef: {apiVersion: apps/v1, kind: ReplicaSet, name: web}, subsets: [" +
			zone("a", ", maxReplicas: 2") + ", " + zone("b", "") + "]", "a 2, b 3"},
		"job": {"kind: Job, replicas: 5", "targetRef: {apiVersion: batch/v1, kind: Job, name: web}, subsets: [" +
			zone("a", ", maxReplicas: 2") + ", " + zone("b", "") + "]", "a 2, b 3"},
		"some pods only": {"replicas: 5", ofDeployment + "targetFilter: {selector: {matchLabels: {app: other}}}, subsets: [" + zone("a", "") +
			"]", "a 0, none 5"},
	} {
		t.Run(name, func(t *testing.T) {
			report := reported(t, threePools(c.workload, c.spread))
			if got := filled(&report.Status.WorkloadSpreads[0]); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			for _, p := range report.Status.Pods { // each in its zone
				if p.Subset != "" && len(p.Runs) > 0 && !strings.HasPrefix(p.Runs[0].Node, p.Subset) {
					t.Errorf("%s of subset %s runs on %s", p.Name, p.Subset, p.Runs[0].Node)
				}
			}
		})
	}
}

// With two subsets a (8 at most) and b and ten pods, those of a have 200 and those of b 100, which
// go first.
func TestTheLastSubsetIsDeletedFirst(t *testing.T) {
	report := reported(t, threePools("replicas: 10", ofDeployment+"subsets: ["+zone("a", ", maxReplicas: 8")+", "+zone("b", "")+"]"))
	order := report.Status.WorkloadSpreads[0].DeletionOrder
	if len(order) != 10 {
		t.Fatalf("%d pods are in the order", len(order))
	}
	for i, c := range order {
		subset, cost := "a", int32(200)
		if i < 2 {
			subset, cost = "b", 100
		}
		if c.Subset != subset || c.Cost == nil || *c.Cost != cost || c.Node == "" {
			t.Errorf("number %d is %+v, want one of %s with cost %d", i, c, subset, cost)
		}
	}
}

// While a node for its pods is on its way, nothing moves, however long that takes.
func TestAPodWaitsForItsNode(t *testing.T) {
	text := scenario(`machines: [{name: m, resources: {cpu: 4, memory: 8Gi}}]
nodeGroups:
- {name: a, zone: a, machine: m, max: 9, bootTime: 5m}
- {name: b, zone: b, machine: m, size: 1, max: 9}
workloads: [{name: web, requests: {cpu: 1}, replicas: 2}]
workloadSpreads: [{metadata: {name: web}, spec: {` + ofDeployment + `subsets: [` + zone("a", "") + `, ` + zone("b", "") + `],
  scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 60WAIT}}}}]`)
	for more, want := range map[string]string{
		"":                               "a 2, b 0",
		", waitForAutoscaler: false":     "a 0, b 2",
		", autoscalerTimeoutSeconds: 90": "a 0, b 2",
	} {
		report := reported(t, strings.Replace(text, "WAIT", more, 1))
		s := &report.Status.WorkloadSpreads[0]
		if got := filled(s); got != want {
			t.Errorf("with %q: %s, want %s", more, got, want)
		}
		if more == "" && (s.Waited != 2 || s.Rescheduled != 0) {
			t.Errorf("%d waited, %d rescheduled", s.Waited, s.Rescheduled)
		}
	}
}

// A rollout keeps within surge and unavailability at every moment, and no subset above its quota by
// more than the surge.
func TestARolloutKeepsItsBounds(t *testing.T) {
	for _, c := range []struct {
		bounds      string
		most, least int
	}{{"", 25, 15}, {", maxSurge: 0, maxUnavailable: 1", 20, 19}, {", maxSurge: 3, maxUnavailable: 0", 23, 20},
		{", maxSurge: 0, maxUnavailable: 0", 20, 19}} {
		report := reported(t, threePools("replicas: 20, rollouts: [{at: 1m}, {at: 2m}]"+c.bounds,
			ofDeployment+"subsets: ["+zone("a", ", maxReplicas: 8")+", "+zone("b", ", maxReplicas: 6")+", "+zone("c", "")+"]"))
		have, seen := map[string]int{}, 0
		for _, row := range report.Status.Timeline {
			sign := 1
			if row.Reason == v1alpha1.PodsLeft {
				sign = -1
			}
			for _, subset := range row.Subsets {
				have[subset.Name] += sign * subset.Pods
			}
			if row.What != v1alpha1.RowPods || row.At.Duration == 0 {
				continue
			}
			seen++
			total := have["a"] + have["b"] + have["c"]
			if surge := c.most - 20; total > c.most && sign > 0 || total < c.least || have["a"] > 8+surge || have["b"] > 6+surge {
				t.Errorf("%q at +%s: %v", c.bounds, row.At.Duration, have)
			}
		}
		if seen < 4 {
			t.Errorf("%q: nothing happens", c.bounds)
		}
		if got := filled(&report.Status.WorkloadSpreads[0]); got != "a 8, b 6, c 6" {
			t.Errorf("%q: %s", c.bounds, got)
		}
	}
}

// cluster is a dump: a Deployment in the middle of its life, with pods that have an assignment, and
// some without, on two nodes.
const cluster = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Node","metadata":{"name":"a1","labels":{"topology.kubernetes.io/zone":"a"}},"status":{"capacity":{"cpu":"8","memory":"8Gi","pods":"10"}}},
{"apiVersion":"v1","kind":"Node","metadata":{"name":"b1","labels":{"topology.kubernetes.io/zone":"b"}},"status":{"capacity":{"cpu":"8","memory":"8Gi","pods":"10"}}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{"replicas":4,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}},
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"default","annotations":{"deployment.kubernetes.io/revision":"1"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"d","controller":true}]},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","pod-template-hash":"1"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}},
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-2","namespace":"default","annotations":{"deployment.kubernetes.io/revision":"2"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"d","controller":true}]},"spec":{"replicas":4,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","pod-template-hash":"2"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}},
PODS]}`

func podOf(name, node, annotations string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"default","uid":"` + name +
		`","labels":{"app":"web","pod-template-hash":"2"},"annotations":{` + annotations +
		`},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-2","uid":"r","controller":true}]},"spec":{"nodeName":"` +
		node + `","containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`
}

// From a dump, pods keep the subset of their annotation, others get the one that their node matches,
// and new ones go where there is room.
func TestADumpGoesOn(t *testing.T) {
	pods := []string{
		podOf("web-2-a", "a1", `"evenkeel.dev/workload-spread":"{\"name\":\"web\",\"subset\":\"a\"}"`),
		podOf("web-2-b", "a1", ""), podOf("web-2-c", "b1", ""), podOf("web-2-d", "b1", ""),
	}
	text := strings.Replace(cluster, "PODS", strings.Join(pods, ","), 1)
	setup, err := loadWith(scenario("objects: [" + strings.Join(itemsOf(t, text), ",\n") +
		"]\nworkloadSpreads: [{metadata: {name: web}, spec: {" +
		ofDeployment + "subsets: [" + zone("a", ", maxReplicas: 3") + ", " + zone("b", "") + "]}}]"))
	if err != nil {
		t.Fatal(err)
	}
	w := &setup.Workloads[0]
	w.Steps = append(w.Steps, simulate.Step{At: time.Minute, Replicas: 6})
	report := run(t, setup)
	s := report.Status.WorkloadSpreads[0]
	if got := filled(&s); got != "a 3, b 3" {
		t.Errorf("%s", got)
	}
	subsets := map[string]string{}
	for _, p := range report.Status.Pods {
		subsets[strings.TrimPrefix(p.Name, "default/")] = p.Subset
	}
	want := map[string]string{"web-2-a": "a", "web-2-b": "a", "web-2-c": "b", "web-2-d": "b", "web-1": "a", "web-2": "b"}
	if diff := cmp.Diff(want, subsets); diff != "" {
		t.Error(diff)
	}
	for i, c := range s.DeletionOrder {
		if i < 3 != (c.Subset == "b") {
			t.Errorf("number %d to go is %+v", i, c)
		}
	}
}

func itemsOf(t *testing.T, list string) []string {
	t.Helper()
	var l struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(list), &l); err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, item := range l.Items {
		items = append(items, string(item))
	}
	return items
}

// An unknown workload is a condition, not an error.
func TestASpreadWithoutItsWorkload(t *testing.T) {
	report := reported(t, scenario("workloadSpreads: [{metadata: {name: web}, spec: {"+ofDeployment+"subsets: [{name: a}]}}]"))
	s := report.Status.WorkloadSpreads[0]
	if len(s.Conditions) != 1 || s.Conditions[0] != "TargetFound NotFound: there is no Deployment web" || len(report.Status.Notes) != 1 {
		t.Errorf("%+v %q", s, report.Status.Notes)
	}
}

func TestRefuseWordsOfSpreads(t *testing.T) {
	one := func(spec string) string { return "workloadSpreads: [{metadata: {name: web}, spec: {" + spec + "}}]" }
	for name, c := range map[string]struct{ spec, want string }{
		"no name": {"workloadSpreads: [{spec: {" + ofDeployment + "subsets: [{name: a}]}}]",
			"spec.workloadSpreads[0].metadata.name: Required value: needs a name"},
		"no subset": {one("targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}"),
			"spec.workloadSpreads[0].spec.subsets: Required value"},
		"unknown field": {one(ofDeployment + "subset: [{name: a}]"),
			`spec.workloadSpreads[0].spec.subset: unknown field (did you mean "subsets"?)`},
		"wrong type": {one(ofDeployment + "subsets: [{name: a, weight: many}]"),
			`spec.workloadSpreads[0].spec.subsets[0].weight: Invalid value: "many": must be an integer`},
		"more than all": {one(ofDeployment + "subsets: [{name: a, maxReplicas: 60%}, {name: b, maxReplicas: 60%}]"),
			"spec.workloadSpreads[0].spec.subsets[1].maxReplicas: Invalid value: \"60%\": the percentages must not exceed 100% together"},
		"mixed": {one(ofDeployment + "subsets: [{name: a, maxReplicas: 60%}, {name: b, maxReplicas: 6}]"),
			"spec.subsets[1].maxReplicas: Invalid value: \"6\": must be a number in all subsets, or a percentage in all subsets"},
		"wrong kind": {"workloadSpreads: [{kind: Balancer, metadata: {name: web}, spec: {" + ofDeployment + "subsets: [{name: a}]}}]",
			`spec.workloadSpreads[0].kind: Unsupported value: "Balancer": supported values: "WorkloadSpread"`},
		"wrong version": {"workloadSpreads: [{apiVersion: apps.kruise.io/v1beta1, metadata: {name: web}, spec: {" + ofDeployment +
			"subsets: [{name: a}]}}]", `spec.workloadSpreads[0].apiVersion: Unsupported value: "apps.kruise.io/v1beta1"`},
		"twice": {"workloadSpreads: [{metadata: {name: web}, spec: {" + ofDeployment +
			"subsets: [{name: a}]}}, {metadata: {name: web}, spec: {" + ofDeployment + "subsets: [{name: a}]}}]",
			`spec.workloadSpreads[1].metadata.name: Duplicate value: "web"`},
		"two on one": {"workloadSpreads: [{metadata: {name: web}, spec: {" + ofDeployment +
			"subsets: [{name: a}]}}, {metadata: {name: web2}, spec: {" + ofDeployment + "subsets: [{name: a}]}}]",
			"spec.workloadSpreads[1].spec.targetRef"},
		"rollout backward": {"workloads: [{name: w, replicas: 1, rollouts: [{at: 5m}, {at: 1m}]}]",
			`spec.workloads[0].rollouts[1].at: Invalid value: "1m0s": must not be before 5m0s`},
		"rollout of a set": {"workloads: [{name: w, kind: StatefulSet, replicas: 1, rollouts: [{at: 5m}]}]",
			"spec.workloads[0].rollouts: Forbidden: is for kind Deployment, not for StatefulSet"},
		"surge of a set": {"workloads: [{name: w, kind: ReplicaSet, replicas: 1, maxSurge: 1}]",
			"spec.workloads[0].maxSurge: Forbidden: is for kind Deployment, not for ReplicaSet"},
		"surge": {"workloads: [{name: w, replicas: 1, maxSurge: some}]",
			`spec.workloads[0].maxSurge: Invalid value: "some": must be a number or a percentage, 0 or more`},
		"unavailable": {"workloads: [{name: w, replicas: 1, maxUnavailable: -1}]",
			`spec.workloads[0].maxUnavailable: Invalid value: "-1": must be a number or a percentage, 0 or more`},
		"expects unknown": {one(ofDeployment+"subsets: [{name: a}]") + "\nexpect: {subsets: {api: {a: 1}}}",
			`spec.expect.subsets[api]: Not found: "api"`},
		"unknown subset": {one(ofDeployment+"subsets: [{name: a}]") + "\nexpect: {subsets: {web: {b: 1}}}",
			`spec.expect.subsets[web]: Unsupported value: "b": supported values: "a"`},
		"expects below 0": {one(ofDeployment+"subsets: [{name: a}]") + "\nexpect: {subsets: {web: {a: -1}}}",
			"spec.expect.subsets[web][a]: Invalid value: -1: must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadWith(scenario(c.spec))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\ndoes not say\n%s", err, c.want)
			}
		})
	}
}

// TestFiftyThousandPodsOfASpread: a large workload over three subsets is played to the end.
func TestFiftyThousandPodsOfASpread(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	report := reported(t, largeSpread(50_000))
	s := report.Status.WorkloadSpreads[0]
	if got := filled(&s); got != "a 20000, b 15000, c 10000" || len(s.DeletionOrder) != 45_000 {
		t.Errorf("%s", got)
	}
	if slices.ContainsFunc(s.DeletionOrder[:10_000], func(c v1alpha1.DeletionCandidate) bool { return c.Subset != "c" }) {
		t.Error("pods of others than the last subset go first")
	}
}

// largeSpread begins with so many pods on 1,000 nodes, and scales them down by a tenth.
func largeSpread(pods int) string {
	return scenario(fmt.Sprintf(`machines: [{name: m, resources: {cpu: 64, memory: 256Gi, pods: 110}}]
nodeGroups:
- {name: a, zone: a, machine: m, size: 200, max: 400}
- {name: b, zone: b, machine: m, size: 200, max: 400}
- {name: c, zone: c, machine: m, size: 200, max: 400}
workloads: [{name: web, requests: {cpu: 100m}, replicas: %d, scale: [{at: 5m, replicas: %d}]}]
workloadSpreads: [{metadata: {name: web}, spec: {%s subsets: [%s, %s, %s]}}]`, pods, pods*9/10, ofDeployment,
		zone("a", fmt.Sprintf(", maxReplicas: %d", pods*4/10)), zone("b", fmt.Sprintf(", maxReplicas: %d", pods*3/10)), zone("c", "")))
}
