package document_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/evenkeel/evenkeel/internal/document"
)

// FuzzRead: whatever the text, there is an answer; what is read, written and read again is the
// same.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		splitHead + "spec: {nodes: 4, groups: [{name: a, size: 1, max: 10}, {name: b, weight: 9223372036854775807}]}",
		splitHead + "---\n" + splitHead + "spec: {nodes: 0x10, chosen: \"\\u00e9\\n\"}\n...\n",
		`{"apiVersion":"evenkeel.dev/v1alpha1","kind":"ReplicaDistribution","spec":{"replicas":50,"rebalance":false,"targets":[{"name":"a"}]}}`,
		"apiVersion: evenkeel.dev/v1alpha1\nkind: SpreadSplit\nspec: {pods: 3, maxSkew: 1, podsPerNode: 2, domains: [{name: a, active: true}], groups: [{name: g, domain: a, size: 0, max: 9}]}",
		"apiVersion: evenkeel.dev/v1alpha1\nkind: NodeGroupSimilarity\nspec:\n  options: {memoryDifferenceRatio: 0.015}\n  groups:\n" +
			"  - name: a\n    template: {metadata: {creationTimestamp: 2026-01-31T15:04:05Z, labels: {x: \"on\"}}, status: {capacity: {cpu: 0.5, memory: 4Gi}}}\n" +
			"    pods: [{spec: {containers: [{name: c, livenessProbe: {httpGet: {port: 80}}}], tolerations: [{operator: Exists}]}}]\n",
		"apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: evenkeel.dev/v1alpha1, kind: NodeGroupSplit}\n- {<<: *a, spec: {nodes: .5e1}}",
		"apiVersion: evenkeel.dev/v1alpha1\nkind: TopologySpread\nspec:\n  pod: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}}\n" +
			"  nodes: [{metadata: {name: a}, spec: {taints: [{key: x, effect: NoSchedule}]}, status: {allocatable: {cpu: 1500m}}}]\n  pods: [{spec: {nodeName: a}}]\n",
		"a: &a [*a]", "{\"a\": ", "? ]", "- - - -", "%YAML 1.1\n--- !!map {}", "'", "\"\\x", "&", "<<: {a: 1}", "!!binary aGk=", "1: {~: 2}", "|\n \n", "\ttab: x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := document.Read("f", bytes.NewReader(data), document.Options{MaxSize: 1 << 16})
		if err != nil {
			return
		}
		for _, d := range docs {
			encoded, err := json.Marshal(d.Object)
			if err != nil {
				t.Fatalf("%+v does not encode: %v", d.Object, err)
			}
			checkSame(t, d, encoded)
			written, err := d.WithStatus(nil)
			if err != nil || !json.Valid(written) {
				t.Fatalf("written as %s, %v", written, err)
			}
		}
	})
}

// checkSame reads a document's encoding, as JSON and as YAML, and compares.
func checkSame(t *testing.T, d document.Document, encoded []byte) {
	t.Helper()
	asYAML, err := document.ToYAML(encoded)
	if err != nil {
		t.Fatalf("%s as YAML: %v", encoded, err)
	}
	for _, text := range [][]byte{encoded, asYAML} {
		again, err := document.Read("again", bytes.NewReader(text), document.Options{})
		if err != nil {
			t.Fatalf("%s is not read again: %v", text, err)
		}
		if len(again) != 1 || again[0].Kind != d.Kind || !apiequality.Semantic.DeepEqual(again[0].Object, d.Object) {
			t.Fatalf("%s became %+v, was %+v", text, again[0].Object, d.Object)
		}
	}
}

// FuzzToYAML: JSON written as YAML and read by the parser of documents is the same JSON.
func FuzzToYAML(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 1.5, -0, 1e400, "yes", "1:30", "", " x ", "a\nb\n", "#", null, true, {}, []]}`, `"0x1F"`, `"\u2028\u0000\t"`, `{"<<": {"=": "~"}}`, `[[["---"]]]`, `"1_000"`, `"a: b"`, `"\u00A0"`, `"\u0085"`, `"\uFEFF"`, `{"\u3000": "\u2028 "}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := document.ToYAML(data)
		if err != nil {
			return
		}
		back, err := document.ToJSON(out)
		if err != nil {
			t.Fatalf("%q as YAML is %q, which is not read: %v", data, out, err)
		}
		if want, err := document.Rewrite(data); err != nil || !bytes.Equal(want, back) {
			t.Fatalf("%q as YAML is %q, which is read as %q, %v", data, out, back, err)
		}
	})
}

// FuzzObjects: whatever the text, the stream ends; what an object is read as encodes to what is
// read as the same, and can be packed.
func FuzzObjects(f *testing.F) {
	data, err := os.ReadFile("testdata/daemonsets.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("apiVersion: v1\nitems:\n- kind: Pod\n  metadata:\n    name: a\n- kind: Node\nkind: List\n---\nkind: Pod\n"))
	f.Add([]byte(`{"kind": "PodList", "items": [{"metadata": {"name": "x"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1e9999"}}}]}}]}`))
	f.Add([]byte("items:\n  - a\n - b\n-"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for item, err := range document.Objects("f", bytes.NewReader(data), document.StreamOptions{MaxSize: 1 << 16}) {
			if err != nil || item.Object == nil {
				continue
			}
			pack(t, []document.Item{item})
			encoded, err := json.Marshal(item.Object)
			if err != nil {
				t.Fatalf("%+v does not encode: %v", item.Object, err)
			}
			for again, err := range document.Objects("again", bytes.NewReader(encoded), document.StreamOptions{}) {
				if err != nil {
					if strings.Contains(err.Error(), "kind: Required") {
						continue // items of a PodList have no kind of their own
					}
					t.Fatalf("%s is not read again: %v", encoded, err)
				}
				if !apiequality.Semantic.DeepEqual(again.Object, item.Object) {
					t.Fatalf("%s became %+v", encoded, again.Object)
				}
			}
		}
	})
}

// FuzzReadSnapshot: whatever the text, there is an answer; what is read encodes to what is read as
// the same.
func FuzzReadSnapshot(f *testing.F) {
	data, err := os.ReadFile("testdata/snapshotz.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"NodeList": [{"Node": {}, "Pods": null}], "TemplateNodes": null, "Error": "x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := document.ReadSnapshot("f", bytes.NewReader(data), document.StreamOptions{MaxSize: 1 << 16})
		if err != nil {
			return
		}
		encoded, err := json.Marshal(map[string]any{"NodeList": s.Nodes, "TemplateNodes": s.Templates, "Error": s.Error})
		if err != nil {
			t.Fatalf("%+v does not encode: %v", s, err)
		}
		again, err := document.ReadSnapshot("again", bytes.NewReader(encoded), document.StreamOptions{})
		if err != nil || !apiequality.Semantic.DeepEqual(again, s) {
			t.Fatalf("%s became %+v, %v", encoded, again, err)
		}
	})
}
