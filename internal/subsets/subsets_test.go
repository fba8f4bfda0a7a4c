package subsets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
)

func parse(t testing.TB, text string) *Dump {
	t.Helper()
	d, err := readDump([]string{"-"}, again(text), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func explained(t testing.TB, d *Dump) *Explanation {
	t.Helper()
	all, err := d.Explain()
	if err != nil || len(all) != 1 {
		t.Fatalf("%d explanations, %v", len(all), err)
	}
	return all[0]
}

// says fails the test unless a text has another one in it.
func says(t *testing.T, what, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s: %q does not say %q", what, text, want)
	}
}

func podNamed(t *testing.T, e *Explanation, name string) Pod {
	t.Helper()
	i := slices.IndexFunc(e.Status.Pods, func(p Pod) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no pod %s in %+v", name, e.Status.Pods)
	}
	return e.Status.Pods[i]
}

// The example has a pod of each kind: by annotation, by its node, and one that waits for the autoscaler.
func TestADumpIsExplained(t *testing.T) {
	d, err := readDump([]string{"../../configs/examples/workload-spread-dump.yaml"}, document.Stdin(strings.NewReader("")), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	e := explained(t, d)
	says(t, "verdict", e.Status.Answer, "default/web spreads Deployment web with 6 replicas: reserved 2 of 2, spot 2, on-demand 2")
	if p := podNamed(t, e, "web-5d9f-fk4wd"); p.Subset != "spot" || p.From != FromAnnotation || *p.Cost != 200 || len(p.Earlier) != 1 {
		t.Errorf("%+v", p)
	} else {
		says(t, "earlier", p.Earlier[0].Why, "it has 2 pods of 2")
	}
	if p := podNamed(t, e, "web-5d9f-zt3qj"); p.Subset != "on-demand" || p.From != FromNode || *p.Cost != 100 || len(p.Earlier) != 2 {
		t.Errorf("%+v", p)
	} else {
		says(t, "earlier", p.Earlier[1].Why, "requiredNodeSelector does not match node on-demand-1")
	}
	var actions []string
	for _, step := range e.Status.Next {
		actions = append(actions, step.Action+" "+step.Pod)
	}
	if want := []string{"Assign web-5d9f-zt3qj", "WriteCost web-5d9f-zt3qj", "Wait web-5d9f-h8c2n"}; !slices.Equal(actions, want) {
		t.Errorf("next %q, want %q", actions, want)
	}
	says(t, "wait", e.Status.Next[2].Why, "on its way since 2026-11-02T09:30:10Z")
	if at := e.Status.Next[2].At; at == nil || clock(at.Time) != "2026-11-02T09:45:10Z" {
		t.Errorf("waits until %v, not for the 15 minutes of autoscalerTimeoutSeconds", at)
	}
}

// template is a WorkloadSpread, its workload and two nodes; words in capitals are replaced.
const template = `
apiVersion: evenkeel.dev/v1alpha1
kind: WorkloadSpread
metadata: {name: web, generation: 1, creationTimestamp: "2026-11-02T09:00:00Z"}
spec:
  targetRef: {apiVersion: apps/v1, kind: KIND, name: web}
  subsets:
  - {name: a, maxReplicas: 2, requiredNodeSelector: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}
  - {name: b, requiredNodeSelector: {matchExpressions: [{key: zone, operator: In, values: [b]}]}}
  scheduleStrategy: {type: STRATEGY, ADAPTIVE}
status: STATUS
---
apiVersion: apps/v1
kind: KIND
metadata: {name: web}
spec: {replicas: REPLICAS, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}
---
{apiVersion: v1, kind: Node, metadata: {name: a1, labels: {zone: a}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b1, labels: {zone: b}}, spec: {taints: [{key: t, effect: NoSchedule}]}}
`

func text(values map[string]string) string {
	out := template
	for word, otherwise := range map[string]string{"KIND": "ReplicaSet", "STRATEGY": "Fixed", ", ADAPTIVE": "", "STATUS": "{}",
		"REPLICAS": "3"} {
		value, ok := values[word]
		if !ok {
			value = otherwise
		}
		out = strings.ReplaceAll(out, word, value)
	}
	return out
}

// pod is a pod of the workload.
func pod(name, kind, node, annotation, status string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: %s, creationTimestamp: "+
		"\"2026-11-02T09:10:00Z\", labels: {app: web}, annotations: {%s}, "+
		"ownerReferences: [{apiVersion: apps/v1, kind: %s, name: web, uid: w, controller: true}]}, spec: {%s containers: "+
		"[{name: c, image: i}]}, status: {%s}}\n", name, name, annotation, kind, node, status)
}

const adaptive = ", adaptive: {rescheduleCriticalSeconds: 30, unschedulableSeconds: 600}"

func TestWhyAPodIsInItsSubset(t *testing.T) {
	in := func(subset string) string {
		return `"evenkeel.dev/workload-spread": '{"name":"web","subset":"` + subset + `"}'`
	}
	unschedulable := `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, lastTransitionTime: "2026-11-02T09:10:00Z"}]`
	later := "---\n{apiVersion: v1, kind: Event, metadata: {name: e}, involvedObject: {kind: Pod, name: other}, reason: " +
		"Pulled, lastTimestamp: \"2026-11-02T09:12:00Z\"}\n"
	for name, c := range map[string]struct {
		values     map[string]string
		pods       string
		pod        string // the one that is looked at: subset, from, and a part of its reason
		want       []string
		next, cost string
	}{
		"node": {pods: pod("p", "ReplicaSet", "nodeName: a1,", "", "phase: Running"), pod: "p",
			want: []string{"a", FromNode, "its node a1 matches the subset best"}, next: "Assign p: to subset a", cost: "within the limit"},
		"node with a taint": {pods: pod("p", "ReplicaSet", "nodeName: b1,", "", "phase: Running"), pod: "p",
			want: []string{"", FromNothing, "its node b1 matches no subset"},
			next: "WriteCost p: from none to -300", cost: "in no subset"},
		"node unknown": {pods: pod("p", "ReplicaSet", "nodeName: c1,", "", "phase: Running"), pod: "p",
			want: []string{"", FromNothing, "its node c1 is not among the objects"}},
		"no node": {pods: pod("p", "ReplicaSet", "", "", "phase: Pending"), pod: "p", want: []string{"", FromNothing, "no node yet"}},
		"no room": {pods: pod("p", "ReplicaSet", "nodeName: a1,", in(""), "phase: Running"), pod: "p",
			want: []string{"", FromNothing, "no subset had room for it when it was created"}},
		"old subset": {pods: pod("p", "ReplicaSet", "nodeName: a1,", in("c"), "phase: Running"), pod: "p",
			want: []string{"", FromNothing, "which the spec does not have any more"}},
		"other's": {pods: pod("p", "ReplicaSet", "nodeName: a1,", `"evenkeel.dev/workload-spread": '{"name":"api","subset":"b"}'`,
			"phase: Running"), pod: "p", want: []string{"a", FromNode, "no assignment of web"}},
		"stateful set": {values: map[string]string{"KIND": "StatefulSet"}, pods: pod("web-2", "StatefulSet", "nodeName: b1,", in("b"),
			"phase: Running"), pod: "web-2", want: []string{"b", FromAnnotation, "its ordinal is 2"}},
		"waits": {values: map[string]string{"STRATEGY": "Adaptive", ", ADAPTIVE": adaptive},
			pods: pod("p", "ReplicaSet", "", in("a"), unschedulable), pod: "p", want: []string{"a", FromAnnotation, "annotation"},
			next: "Wait p: the scheduler finds no node; it moves on then"},
		"moves on": {values: map[string]string{"STRATEGY": "Adaptive", ", ADAPTIVE": adaptive},
			pods: pod("p", "ReplicaSet", "", in("a"), unschedulable) + later, pod: "p", want: []string{"a", FromAnnotation, ""},
			next: "Delete p: it could not be scheduled in subset a"},
	} {
		t.Run(name, func(t *testing.T) {
			e := explained(t, parse(t, text(c.values)+c.pods))
			p := podNamed(t, e, c.pod)
			if p.Subset != c.want[0] || p.From != c.want[1] {
				t.Errorf("%+v, want subset %q from %s", p, c.want[0], c.want[1])
			}
			says(t, "why", p.Why, c.want[2])
			says(t, "cost", p.CostWhy, c.cost)
			var next []string
			for _, step := range e.Status.Next {
				next = append(next, step.Action+" "+step.Pod+": "+step.Why)
			}
			says(t, "next", strings.Join(next, "\n"), c.next)
		})
	}
}

// A mark is shown with its end, and a subset before a pod's own that is marked is named.
func TestAMarkIsShown(t *testing.T) {
	values := map[string]string{"STRATEGY": "Adaptive", ", ADAPTIVE": adaptive,
		"STATUS": `{observedGeneration: 1, subsetStatuses: [{name: a, unschedulableUntil: "2026-11-02T09:18:00Z"}, {name: b}]}`}
	b := pod("p", "ReplicaSet", "nodeName: b1,", `"evenkeel.dev/workload-spread": '{"name":"web","subset":"b"}'`, "phase: Running")
	e := explained(t, parse(t, text(values)+b))
	if s := e.Status.Subsets[0]; s.State != StateMarked || s.UnschedulableUntil == nil {
		t.Errorf("%+v", s)
	}
	says(t, "earlier", podNamed(t, e, "p").Earlier[0].Why, "new ones pass over it until 2026-11-02T09:18:00Z")
}

// Without the workload beside it, the status has the replicas; without that either, nothing is spread.
func TestAWorkloadThatIsMissing(t *testing.T) {
	alone, _, _ := strings.Cut(text(nil), "---")
	e := explained(t, parse(t, alone))
	says(t, "verdict", e.Status.Answer, "default/web spreads nothing: there is no ReplicaSet web")
	alone, _, _ = strings.Cut(text(map[string]string{"STATUS": "{observedGeneration: 1, replicas: 7}"}), "---")
	e = explained(t, parse(t, alone))
	says(t, "verdict", e.Status.Answer, "with 7 replicas")
	says(t, "notes", strings.Join(e.Status.Notes, "\n"), "its replicas are those of the status")
}

func TestRefusedDumps(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown field": {strings.Replace(text(nil), "maxReplicas: 2", "maxReplica: 2", 1), "spec.subsets[0].maxReplica: unknown field"},
		"wrong value":   {strings.Replace(text(nil), "maxReplicas: 2", "maxReplicas: -2", 1), "spec.subsets[0].maxReplicas: Invalid value: -2"},
		"no name":       {strings.Replace(text(nil), "name: web, generation", "generation", 1), "metadata.name: Required value"},
		"twice":         {text(nil) + "---\n" + text(nil), `metadata.name: Duplicate value: "default/web"`},
		"two on one": {text(nil) + "---" + strings.Replace(text(nil), "name: web, generation", "name: other, generation", 1),
			"spec.targetRef"},
		"a pod too many": {text(nil) +
			"---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: {requests: {cpu: -1}}}]}}\n",
			"resources.requests"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readDump([]string{"-"}, again(c.text), 1<<20)
			var invalid *document.Invalid
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %s", err, c.want)
			}
		})
	}
}

func TestExplainByName(t *testing.T) {
	for _, name := range []string{"web", "ews/web", "default/web", "workloadspreads/default/web", "EWS/web"} {
		if all, err := parse(t, text(nil)).Explain(name); err != nil || len(all) != 1 {
			t.Errorf("%s is not found", name)
		}
	}
	var unknown *document.UnknownName
	if _, err := parse(t, text(nil)).Explain("ews/wep"); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "did you mean web") {
		t.Errorf("%v", err)
	}
}

// FuzzExplain: whatever a dump holds, it is refused or explained, each time in the same words, and
// every pod is in a subset of the spec or in none.
func FuzzExplain(f *testing.F) {
	f.Add(text(nil) + pod("p", "ReplicaSet", "nodeName: a1,", "", "phase: Running"))
	f.Add(text(map[string]string{"STRATEGY": "Adaptive", ", ADAPTIVE": adaptive,
		"STATUS": `{subsetStatuses: [{name: a, unschedulableUntil: "2026-11-02T09:18:00Z"}]}`}))
	f.Add(strings.Replace(text(nil), "type: Fixed", "type: Fixed}\n  distribution: Even\n  targetFilter: {selector: {matchLabels: {a: b}}", 1))
	f.Fuzz(func(t *testing.T, text string) {
		d, err := readDump([]string{"-"}, again(text), 1<<16)
		if err != nil {
			return
		}
		first, err := d.Explain()
		again, err2 := d.Explain()
		if (err == nil) != (err2 == nil) {
			t.Fatal(err, err2)
		}
		a, b := asJSON(t, first), asJSON(t, again)
		if !bytes.Equal(a, b) {
			t.Fatalf("%s\n%s", a, b)
		}
		for i, e := range first {
			for _, p := range e.Status.Pods {
				x := explainer{WorkloadSpread: d.Spreads[i]}
				if p.Subset != "" && x.index(p.Subset) < 0 || p.Why == "" {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// again opens a text as often as it is read.
func again(text string) document.Open {
	return func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// readDump reads files as evenkeel explain does.
func readDump(files []string, open document.Open, maxSize int64) (*Dump, error) {
	contents, err := document.Scan(files, open, document.Options{Kinds: document.Kinds{v1alpha1.WorkloadSpread{}}, MaxSize: maxSize})
	if err != nil {
		return nil, err
	}
	return Of(contents)
}
