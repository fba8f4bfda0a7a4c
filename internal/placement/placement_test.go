package placement

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/document"
)

const (
	examples = "../../configs/examples/"
	samples  = "../../configs/samples/"
)

func read(t *testing.T, files ...string) *Dump {
	t.Helper()
	d, err := readDump(files, document.Stdin(nil), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func explained(t *testing.T, d *Dump) []*Explanation {
	t.Helper()
	all, err := d.Explain()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The decision that is made again from a dump is the one that its status has: numbers, reasons and
// messages.
func TestADumpExplainsItself(t *testing.T) {
	d := read(t, examples+"federated-dump.yaml")
	for _, f := range d.Sets {
		known, err := federation.Explain(d.inputOf(f))
		if err != nil {
			t.Fatal(err)
		}
		for i, now := range known.Status.Clusters {
			before := f.Status.Clusters[i]
			a, b := asJSON(t, before), asJSON(t, now)
			if a != b {
				t.Errorf("%s: stored\n%s\nis now\n%s", f.Name, a, b)
			}
		}
		for i, c := range known.Status.Conditions {
			if before := f.Status.Conditions[i]; asJSON(t, before) != asJSON(t, c) {
				t.Errorf("%s: stored\n%s\nis now\n%s", f.Name, asJSON(t, before), asJSON(t, c))
			}
		}
		if len(known.Writes) > 0 {
			t.Errorf("%s: writes %+v", f.Name, known.Writes)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// base is an object without a status; the cases below add to it.
const base = `
apiVersion: evenkeel.dev/v1alpha1
kind: FederatedReplicaSet
metadata: {namespace: shop, name: web, generation: 1, annotations: ANNOTATIONS}
spec:
  replicas: 9
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
  preferences: PREFERENCES
status: STATUS
---
apiVersion: v1
kind: ConfigMap
metadata: {name: passed-over}
data: {replicas: "1"}
`

const threeClusters = `
---
apiVersion: v1
kind: List
items:
- {apiVersion: evenkeel.dev/v1alpha1, kind: MemberCluster, metadata: {name: a, labels: {region: eu}}, spec: {kubeconfigSecretRef: {name: a}}}
- {apiVersion: evenkeel.dev/v1alpha1, kind: MemberCluster, metadata: {name: b, labels: {region: eu}}, spec: {kubeconfigSecretRef: {name: b}, taints: TAINTS}}
- {apiVersion: evenkeel.dev/v1alpha1, kind: MemberCluster, metadata: {name: c, labels: {region: us}}, spec: {kubeconfigSecretRef: {name: c}}, status: {conditions: CONDITIONS}}
`

// text replaces the words in capitals; the others become empty.
func text(template string, values map[string]string) string {
	for word, empty := range map[string]string{"ANNOTATIONS": "{}", "PREFERENCES": "null",
		"STATUS": "{replicas: 0, readyReplicas: 0, unplaced: 0, askedReplicas: 0}", "TAINTS": "[]", "CONDITIONS": "[]"} {
		value, ok := values[word]
		if !ok {
			value = empty
		}
		template = strings.ReplaceAll(template, word, value)
	}
	return template
}

func parse(t *testing.T, text string) *Dump {
	t.Helper()
	d, err := readDump([]string{"-"}, document.Stdin(strings.NewReader(text)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Objects without a status: what would be decided, with and without MemberClusters beside them.
func TestNeverReconciled(t *testing.T) {
	for name, c := range map[string]struct {
		values  map[string]string
		members bool
		want    string
		note    string
	}{
		"no preferences": {nil, true, "shop/web asks for 9 replicas: a 3, b 3, c 3", "no status yet"},
		"no preferences, no member": {nil, false,
			"shop/web asks for 9 replicas: no cluster takes part; 9 replicas of 9 have no cluster that is able to run them, or " +
				"may: no cluster takes part", "no MemberClusters"},
		"names": {map[string]string{"PREFERENCES": `{clusters: {x: {weight: 2}, y: {weight: 1}, "*": {weight: 5}}}`}, false,
			"shop/web asks for 9 replicas: x 6, y 3", "no MemberClusters"},
		"names that are no member": {map[string]string{"PREFERENCES": `{clusters: {x: {weight: 2}, a: {weight: 1}}}`}, true,
			"shop/web asks for 9 replicas: a 9", "no status yet"},
		"labels": {map[string]string{"PREFERENCES": `{clusters: {eu: {weight: 1, selector: {matchLabels: {region: eu}}}, us: {weight: 2, selector: {matchLabels: {region: us}}}}}`}, true,
			"shop/web asks for 9 replicas: a 1, b 2, c 6", "no status yet"},
		"labels, no member": {map[string]string{"PREFERENCES": `{clusters: {eu: {weight: 1, selector: {matchLabels: {region: eu}}}}}`}, false,
			"shop/web asks for 9 replicas: no cluster takes part; 9 replicas of 9 have no cluster that is able to run them, or " +
				"may: no cluster takes part", "not their labels"},
		"the annotation for ReplicaSets": {map[string]string{"ANNOTATIONS": `{federation.kubernetes.io/replica-set-preferences: '{"rebalance": true, "clusters": {"a": {"weight": 2}, "*": {"weight": 1, "maxReplicas": 2}}}'}`}, true,
			"shop/web asks for 9 replicas: a 5, b 2, c 2", "no status yet"},
		"the annotation for Deployments": {map[string]string{"ANNOTATIONS": `{federation.kubernetes.io/deployment-preferences: '{"Clusters": {"b": {"MinReplicas": 4, "Weight": 0}, "c": {"Weight": 1}}}'}`}, true,
			"shop/web asks for 9 replicas: b 4, c 5", "no status yet"},
		"a cluster that gets no more": {map[string]string{"TAINTS": `[{key: maintenance, effect: NoSchedule}]`}, true,
			"shop/web asks for 9 replicas: a 4, b 0, c 5", "no status yet"},
		"a cluster that is emptied": {map[string]string{"TAINTS": `[{key: gone, effect: NoExecute}]`}, true,
			"shop/web asks for 9 replicas: a 4, b 0, c 5", "no status yet"},
		"a cluster that is lost": {map[string]string{"CONDITIONS": `[{type: Reachable, status: "False", reason: Offline, message: "", lastTransitionTime: "2026-07-01T12:00:00Z"}]`}, true,
			"shop/web asks for 9 replicas: a 4, b 5, c 0", "no status yet"},
	} {
		all := base
		if c.members {
			all += threeClusters
		}
		s := explained(t, parse(t, text(all, c.values)))[0].Status
		if s.Answer != c.want {
			t.Errorf("%s: %s\nwant %s", name, s.Answer, c.want)
		}
		if !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, c.note) }) {
			t.Errorf("%s: notes %q", name, s.Notes)
		}
	}
}

// A status about an earlier spec: the numbers in the clusters are those that it has, the decision is
// the next one.
func TestEditedSinceItsStatus(t *testing.T) {
	status := `{observedGeneration: 0, replicas: 9, readyReplicas: 9, unplaced: 0, askedReplicas: 9, clusters: [
  {name: a, desired: 9, written: 9, pods: 9, running: 9, ready: 9, unschedulable: 0, uncreated: 0, pending: 0, reachable: true, revision: x}]}`
	s := explained(t, parse(t, text(base+threeClusters,
		map[string]string{"STATUS": strings.Replace(status, "observedGeneration: 0", "observedGeneration: 7", 1),
			"PREFERENCES": "{rebalance: false}"})))[0].Status
	if s.Answer != "shop/web asks for 9 replicas: a 9, b 0, c 0" || s.Steps[0].Parts[0].WithinBounds != 3 || s.Steps[0].Parts[0].Staying != 9 {
		t.Errorf("%s %+v", s.Answer, s.Steps)
	}
	s = explained(t, parse(t, text(base+threeClusters,
		map[string]string{"STATUS": strings.Replace(status, "observedGeneration: 0", "observedGeneration: 7", 1),
			"PREFERENCES": "{rebalance: true}"})))[0].Status
	if s.Answer != "shop/web asks for 9 replicas: a 3, b 3, c 3" || s.Clusters[0].Written != 9 || len(s.Writes) != 3 {
		t.Errorf("%s %+v", s.Answer, s.Writes)
	}
	if !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "about an earlier spec") }) {
		t.Errorf("notes %q", s.Notes)
	}
}

// What the controller has decided counts more than what can be decided again from the dump.
func TestTheStatusCounts(t *testing.T) {
	status := `{observedGeneration: 1, replicas: 9, readyReplicas: 9, unplaced: 2, askedReplicas: 9, clusters: [
  {name: a, desired: 7, written: 7, pods: 7, running: 7, ready: 7, unschedulable: 0, uncreated: 0, pending: 0, reachable: true, reason: Capacity, message: it has room for 7 replicas, revision: x}],
  conditions: [{type: Placed, status: "False", reason: NoRoom, message: 2 replicas of 9 have no cluster, lastTransitionTime: "2026-07-01T12:00:00Z"}]}`
	s := explained(t, parse(t, text(base, map[string]string{"STATUS": status})))[0].Status
	if s.Answer != "shop/web asks for 9 replicas: a 7; 2 replicas of 9 have no cluster" ||
		s.Clusters[0].Message != "it has room for 7 replicas" {
		t.Errorf("%s %+v", s.Answer, s.Clusters)
	}
	if !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "the decision would be a 9") }) {
		t.Errorf("notes %q", s.Notes)
	}
}

// Invalid input: the object and the field are named.
func TestRefusedDumps(t *testing.T) {
	set := func(values map[string]string) string { return text(base, values) }
	for name, c := range map[string]struct{ text, want string }{
		"nothing":       {"", "holds no document"},
		"not YAML":      {"a: [", "stdin: document 1"},
		"unknown field": {strings.Replace(set(nil), "replicas: 9", "replica: 9", 1), "document 1: spec.replica: unknown field"},
		"wrong type": {strings.Replace(set(nil), "replicas: 9", "replicas: many", 1),
			`document 1: spec.replicas: Invalid value: "many": must be an integer`},
		"negative": {strings.Replace(set(nil), "replicas: 9", "replicas: -9", 1),
			"document 1: spec.replicas: Invalid value: -9: must not be negative"},
		"other version": {strings.Replace(set(nil), "evenkeel.dev/v1alpha1", "evenkeel.dev/v1", 1),
			"document 1: apiVersion: Unsupported value"},
		"no name": {strings.Replace(set(nil), "name: web, gen", "gen", 1), "document 1: metadata.name: Required value"},
		"twice":   {set(nil) + "---" + set(nil), `document 3: metadata.name: Duplicate value: "shop/web"`},
		"min above max": {set(map[string]string{"PREFERENCES": "{clusters: {a: {minReplicas: 2, maxReplicas: 1}}}"}),
			"document 1: spec.preferences.clusters[a].minReplicas: Invalid value: 2: must not be greater than maxReplicas"},
		"annotation": {set(map[string]string{"ANNOTATIONS": `{federation.kubernetes.io/replica-set-preferences: '{"clusters": {"a": {"weight": -1}}}'}`}), "metadata.annotations[federation.kubernetes.io/replica-set-preferences]: clusters[a].weight: Invalid value: -1"},
		"in a list": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: evenkeel.dev/v1alpha1, kind: " +
			"MemberCluster, metadata: {name: a}, spec: {taints: x}}\n", "items[0].spec.taints: Invalid value"},
		"status of other type": {set(map[string]string{"STATUS": "{clusters: [{name: a, desired: x}]}"}),
			"document 1: status.clusters[0].desired: Invalid value"},
	} {
		_, err := readDump([]string{"-"}, document.Stdin(strings.NewReader(c.text)), 1<<20)
		var invalid *document.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}

func TestExplainByName(t *testing.T) {
	two := text(base, nil) + "---" + strings.ReplaceAll(text(base, nil), "shop", "other")
	for names, want := range map[string]int{"": 2, "web": 2, "frs/web": 2, "shop/web": 1, "frs/other/web": 1, "FederatedReplicaSet/web": 2,
		"frs/shop/web frs/other/web": 2} {
		if all, err := parse(t, two).Explain(strings.Fields(names)...); err != nil || len(all) != want {
			t.Errorf("%q: %v, %d", names, err, len(all))
		}
	}
	_, err := parse(t, two).Explain("frs/wep")
	var unknown *document.UnknownName
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), `no FederatedReplicaSet "wep" among 2, did you mean web`) {
		t.Error(err)
	}
}

// Whatever is read is refused with a message, or explained: every number of the steps adds up.
func FuzzExplain(f *testing.F) {
	for _, file := range []string{examples + "federated-dump.yaml", samples + "federated-tiers.yaml", samples + "federated-weights.yaml"} {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte(text(base+threeClusters, nil)))
	f.Fuzz(func(t *testing.T, content []byte) {
		d, err := readDump([]string{"-"}, document.Stdin(bytes.NewReader(content)), 1<<20)
		if err != nil {
			return
		}
		all, err := d.Explain()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			for _, step := range e.Status.Steps {
				checkStep(t, step)
			}
		}
	})
}

func checkStep(t interface{ Errorf(string, ...any) }, step federation.Step) {
	var byWeight, able int64
	for _, p := range step.Parts {
		byWeight, able = byWeight+p.ByWeight, able+p.Able
		if p.Able > p.Staying && p.Capacity != nil && p.Able > *p.Capacity {
			t.Errorf("%s runs %d of %d", p.Name, p.Able, *p.Capacity)
		}
		if p.Max != nil && p.WithinBounds > *p.Max {
			t.Errorf("%s has %d within a maximum of %d", p.Name, p.WithinBounds, *p.Max)
		}
	}
	if byWeight > step.Replicas || able > step.Replicas {
		t.Errorf("%d and %d of %d replicas in %+v", byWeight, able, step.Replicas, step)
	}
}

// readDump reads files as evenkeel explain does.
func readDump(files []string, open document.Open, maxSize int64) (*Dump, error) {
	contents, err := document.Scan(files, open, document.Options{Kinds: document.Kinds{v1alpha1.FederatedReplicaSet{},
		v1alpha1.MemberCluster{}}, MaxSize: maxSize})
	if err != nil {
		return nil, err
	}
	return Of(contents)
}
