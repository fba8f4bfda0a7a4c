package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
)

const splitHead = "apiVersion: evenkeel.dev/v1alpha1\nkind: NodeGroupSplit\n"

func read(text string) ([]document.Document, error) {
	return document.Read("f.yaml", strings.NewReader(text), document.Options{})
}

func TestReadKeepsEveryValue(t *testing.T) {
	docs, err := read(splitHead + `
metadata: {name: proposal-example}
spec:
  nodes: 4
  policy: Even
  chosen: c
  groups:
  - {name: a, size: 1, max: 10}
  - {name: b, size: 0x3, max: 10, weight: 9223372036854775807}
  - {name: "c", size: 6, max: 10, min: null}
`)
	if err != nil {
		t.Fatal(err)
	}
	n := func(i int64) *int64 { return &i }
	want := v1alpha1.NodeGroupSplitSpec{
		Nodes: n(4), Policy: v1alpha1.SplitEven, Chosen: "c",
		Groups: []v1alpha1.SplitGroup{
			{Name: "a", Size: n(1), Max: n(10)},
			{Name: "b", Size: n(3), Max: n(10), Weight: n(1<<63 - 1)},
			{Name: "c", Size: n(6), Max: n(10)},
		},
	}
	d := docs[0]
	if diff := cmp.Diff(want, d.Object.(*v1alpha1.NodeGroupSplit).Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if d.Kind != "NodeGroupSplit" || d.Name != "proposal-example" || d.Number != 1 || d.File != "f.yaml" {
		t.Errorf("got document %s %q number %d of %s", d.Kind, d.Name, d.Number, d.File)
	}
}

func TestReadRefuses(t *testing.T) {
	group := func(fields string) string {
		return splitHead + "spec:\n  nodes: 1\n  groups:\n  - {name: a, size: 1, max: 2}\n  - {" + fields + "}\n"
	}
	node := func(node string) string {
		return "apiVersion: evenkeel.dev/v1alpha1\nkind: NodeGroupSimilarity\nspec:\n  groups:\n  - name: a\n    template: {" + node + "}\n"
	}
	pod := func(pod string) string {
		return node("status: {capacity: {cpu: 1}}") + "    pods:\n    - {" + pod + "}\n"
	}
	d1 := "f.yaml: document 1: "
	for _, tc := range []struct{ name, in, want string }{
		{"wrong type: text", group(`size: "abc"`), d1 + `spec.groups[1].size: Invalid value: "abc": must be an integer`},
		{"wrong type: number in quotes", group(`size: "1"`), d1 + `spec.groups[1].size: Invalid value: "1": must be an integer`},
		{"wrong type: boolean", group(`size: true`), d1 + `spec.groups[1].size: Invalid value: true: must be an integer`},
		{"wrong type: list", group(`size: [1]`), d1 + `spec.groups[1].size: Invalid value: must be an integer, not a list`},
		{"wrong type: object", group(`size: {a: 1}`), d1 + `spec.groups[1].size: Invalid value: must be an integer, not an object`},
		{"fraction", group(`size: 1.5`), d1 + `spec.groups[1].size: Invalid value: 1.5: must be an integer`},
		{"fraction without a rest", group(`size: 1.0`), d1 + `spec.groups[1].size: Invalid value: 1.0: must be an integer`},
		{"exponent", group(`size: 1e3`), d1 + `spec.groups[1].size: Invalid value: 1e3: must be an integer`},
		{"beyond 64 bits", group(`weight: 9223372036854775808`), d1 +
			`spec.groups[1].weight: Invalid value: 9223372036854775808: must be at most 9223372036854775807`},
		{"below 64 bits", group(`weight: -99999999999999999999`), d1 +
			`spec.groups[1].weight: Invalid value: -99999999999999999999: must be at least -9223372036854775808`},
		{"infinite", group(`weight: .inf`), `f.yaml: document 1: line 7: .inf is not a number that JSON can carry`},
		{"number for a string", group(`name: 12`), d1 + `spec.groups[1].name: Invalid value: 12: must be a string: write it in quotes, "12"`},
		{"number as it is written", group(`name: 0x1F`), d1 +
			`spec.groups[1].name: Invalid value: 31: must be a string: write it in quotes, "0x1F"`},
		{"boolean for a string", group(`name: true`), d1 +
			`spec.groups[1].name: Invalid value: true: must be a string: write it in quotes, "true"`},
		{"unknown field", group(`sise: 1`), d1 + `spec.groups[1].sise: unknown field (did you mean "size"?)`},
		{"unknown field, other case", group(`Size: 1`), d1 + `spec.groups[1].Size: unknown field (did you mean "size"?)`},
		{"unknown field like no other", group(`colour: 1`), d1 + `spec.groups[1].colour: unknown field`},
		{"field given twice", group("name: b, size: 1, size: 2"), d1 +
			`spec.groups[1].size: Duplicate value: the field is given twice, on lines 7 and 7`},
		{"null in a list", splitHead + "spec: {groups: [null]}", d1 + `spec.groups[0]: Invalid value: null: must be an object`},
		{"object for a list", splitHead + "spec: {groups: {a: 1}}", d1 + `spec.groups: Invalid value: must be a list, not an object`},
		{"text for an object", splitHead + "spec: nothing", d1 + `spec: Invalid value: "nothing": must be an object`},

		{"quantity", node(`status: {capacity: {cpu: 1x}}`), d1 +
			`spec.groups[0].template.status.capacity[cpu]: Invalid value: "1x": must be a quantity such as 500m, 2 or 4Gi`},
		{"quantity without a value", node(`status: {capacity: {cpu: }}`), d1 +
			`spec.groups[0].template.status.capacity[cpu]: Invalid value: null: must be a quantity such as 500m, 2 or 4Gi`},
		{"quantity of a type", node(`status: {capacity: {cpu: [1]}}`), d1 +
			`spec.groups[0].template.status.capacity[cpu]: Invalid value: must be a quantity such as 500m, 2 or 4Gi, not a list`},
		{"quantity that never ends", node(`status: {capacity: {cpu: 1e1000000000}}`), d1 +
			`spec.groups[0].template.status.capacity[cpu]: Invalid value: "1e1000000000": must be a quantity such as 500m, 2 or 4Gi`},
		{"quantity beyond the scheduler's arithmetic", node(`status: {capacity: {cpu: 1e16}}`), d1 +
			`spec.groups[0].template.status.capacity[cpu]: Invalid value: 1e16: is out of range: must be at most 9223372036854775`},
		{"quantity in binary units", node(`status: {capacity: {memory: 8Ei}}`), d1 +
			`spec.groups[0].template.status.capacity[memory]: Invalid value: "8Ei": is out of range: must be at most 9223372036854775`},
		{"quantity far below", node(`status: {capacity: {cpu: -9223372036854776}}`), d1 +
			`spec.groups[0].template.status.capacity[cpu]: Invalid value: -9223372036854776: is out of range: must be at least -9223372036854775`},
		{"time", node(`metadata: {creationTimestamp: yesterday}`), d1 +
			`spec.groups[0].template.metadata.creationTimestamp: Invalid value: "yesterday": must be a time such as 2026-01-31T15:04:05Z`},
		{"label", node(`metadata: {labels: {a/b: 1}}`), d1 +
			`spec.groups[0].template.metadata.labels[a/b]: Invalid value: 1: must be a string: write it in quotes, "1"`},
		{"unknown field of a node", node(`spec: {taint: []}`), d1 + `spec.groups[0].template.spec.taint: unknown field (did you mean "taints"?)`},
		{"boolean of a node", node(`spec: {unschedulable: "yes"}`), d1 +
			`spec.groups[0].template.spec.unschedulable: Invalid value: "yes": must be true or false`},
		{"a pod's request", pod(`spec: {containers: [{resources: {requests: {cpu: 1y}}}]}`), d1 +
			`spec.groups[0].pods[0].spec.containers[0].resources.requests[cpu]: Invalid value: "1y": must be a quantity such as 500m, 2 or 4Gi`},
		{"a pod's huge request", pod(`spec: {containers: [{resources: {requests: {memory: "1e30"}}}]}`), d1 +
			`spec.groups[0].pods[0].spec.containers[0].resources.requests[memory]: Invalid value: "1e30": is out of range: must be at most 9223372036854775`},
		{"a pod's port", pod(`spec: {containers: [{livenessProbe: {httpGet: {port: [1]}}}]}`), d1 +
			`spec.groups[0].pods[0].spec.containers[0].livenessProbe.httpGet.port: Invalid value: must be an integer or a string, not a list`},
		{"a pod's 32 bits", pod(`spec: {priority: 2147483648}`), d1 +
			`spec.groups[0].pods[0].spec.priority: Invalid value: 2147483648: must be at most 2147483647`},
		{"a ratio", "apiVersion: evenkeel.dev/v1alpha1\nkind: NodeGroupSimilarity\nspec: {options: {memoryDifferenceRatio: \"0.1\"}}", d1 +
			`spec.options.memoryDifferenceRatio: Invalid value: "0.1": must be a number`},

		{"no kind", "apiVersion: evenkeel.dev/v1alpha1\nspec: {}", d1 +
			`kind: Required value: must be one of NodeGroupSimilarity, NodeGroupSplit, ReplicaDistribution, SpreadSplit, TopologySpread`},
		{"no version", "kind: NodeGroupSplit", d1 + `apiVersion: Required value: must be evenkeel.dev/v1alpha1`},
		{"another version", "apiVersion: evenkeel.dev/v1\nkind: NodeGroupSplit", d1 +
			`apiVersion: Unsupported value: "evenkeel.dev/v1": supported values: "evenkeel.dev/v1alpha1"`},
		{"another kind", "apiVersion: evenkeel.dev/v1alpha1\nkind: Scenario", d1 +
			`kind: Unsupported value: "Scenario": supported values: "NodeGroupSimilarity", "NodeGroupSplit", "ReplicaDistribution", "SpreadSplit", "TopologySpread"`},
		{"kind of another type", "apiVersion: evenkeel.dev/v1alpha1\nkind: [a]", d1 + `kind: Invalid value: must be a string, not a list`},
		{"a list", "[1, 2]", d1 + `must be an object with apiVersion, kind and spec`},
		{"a scalar", "hello", d1 + `must be an object with apiVersion, kind and spec`},

		{"empty", "", "f.yaml: holds no document"},
		{"comments only", "# nothing\n---\n# here\n", "f.yaml: holds no document"},
		{"a misspelled field of a List", `{"apiVersion": "v1", "kind": "List", "itmes": []}`, "f.yaml: document 1: items: Required value: a List has items\n" +
			`f.yaml: document 1: itmes: unknown field (did you mean "items"?)`},
		{"a field beside the items of a List, in JSON", `{"apiVersion": "v1", "kind": "List", "items": [], "foo": 1}`,
			"f.yaml: document 1: foo: unknown field"},
		{"a field of a List whose name is no text", `{"apiVersion": "v1", "kind": "List", "items": [], "\u0001\u007f": 1}`,
			"f.yaml: document 1: \x01\x7f: unknown field"},
		{"a field beside the items of a List, in YAML", "apiVersion: v1\nkind: List\nitems:\n- 5\nmetadata: {foo: 1}\n",
			d1 + "items[0]: must be an object with apiVersion, kind and spec\n" + d1 + "metadata.foo: unknown field"},
		{"a List of no list", `{"apiVersion": "v1", "kind": "List", "items": {"a": 1}}`,
			"f.yaml: document 1: items: Invalid value: must be a list"},
		{"not text", "a: \xff\xfe", "f.yaml: is not UTF-8 text"},
		{"not YAML", "a: [1", "f.yaml: document 1: line 1: not valid YAML: did not find expected ',' or ']'"},
		{"not JSON", "{\"apiVersion\": \"v1\",\n \"kind\": \"x\" \"y\"}",
			"f.yaml: document 1: line 2: not valid JSON: invalid character '\"' after object key:value pair"},
		{"half a JSON", "{\"a\": [1,\n", "f.yaml: document 1: line 1: the JSON ends too early"},
		{"a tag", "a: !secret x", "f.yaml: document 1: line 1: tag !secret is not supported"},
		{"a key that is a list", "? [a]\n: b", "f.yaml: document 1: line 1: the name of a field must be a string"},
		{"an anchor in itself", "a: &x [*x]", `f.yaml: document 1: line 1: anchor "x" contains itself`},
		{"deep YAML", strings.Repeat("[", 20_000) + "a" + strings.Repeat("]", 20_000),
			"f.yaml: document 1: not valid YAML: exceeded max depth of 10000"},
		{"deep JSON", strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
			"f.yaml: document 1: line 1: not valid JSON: invalid character '{' exceeded max depth"},

		{"a unit that Kubernetes does not have", node(`status: {capacity: {memory: 64Gb}}`), d1 +
			`spec.groups[0].template.status.capacity[memory]: Invalid value: "64Gb": must be a quantity such as 500m, 2 or 4Gi (did you mean "64Gi" or "64G"?)`},
		{"a unit after a blank", node(`status: {capacity: {memory: 8 gib}}`), d1 +
			`spec.groups[0].template.status.capacity[memory]: Invalid value: "8 gib": must be a quantity such as 500m, 2 or 4Gi (did you mean "8Gi"?)`},
		{"JSON and text", `{"apiVersion": "evenkeel.dev/v1alpha1", "kind": "NodeGroupSplit", "spec": {"nodes": 1}}` + "\nthat is all",
			"f.yaml: document 1: line 2: text follows the JSON: put --- between documents"},
		{"a leading zero", splitHead + "spec: {nodes: 010}", d1 +
			`spec.nodes: Invalid value: "010": is 8 to some parsers and 10 to others: write it without leading zeros`},
		{"a leading zero and no octal", splitHead + "spec: {nodes: 09}", d1 +
			`spec.nodes: Invalid value: "09": is octal to some parsers and decimal to others: write it without leading zeros`},
		{"leading zeros of a negative number", splitHead + "spec: {nodes: -0_07}", d1 +
			`spec.nodes: Invalid value: "-0_07": is octal to some parsers and decimal to others: write it without leading zeros`},

		{"an item of a List",
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: evenkeel.dev/v1alpha1, kind: NodeGroupSplit}\n- {apiVersion: " +
				"evenkeel.dev/v1alpha1, kind: NodeGroupSplit, spec: {nodes: x}}",
			d1 + `items[1].spec.nodes: Invalid value: "x": must be an integer`},
		{"several documents", "# none\n---\n" + splitHead + "---\n" + splitHead + "spec: {nodes: x, chosn: a}\n---\na: [",
			"f.yaml: document 2: spec.nodes: Invalid value: \"x\": must be an integer\n" +
				"f.yaml: document 2: spec.chosn: unknown field (did you mean \"chosen\"?)\n" +
				"f.yaml: document 3: line 10: not valid YAML: did not find expected node content"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := read(tc.in)
			var invalid *document.Invalid
			if !errors.As(err, &invalid) {
				t.Fatalf("got %d documents and error %v, want an Invalid", len(docs), err)
			}
			if err.Error() != tc.want {
				t.Errorf("got\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

func TestReadAccepts(t *testing.T) {
	for _, tc := range []struct{ name, in, spec string }{
		{"YAML", splitHead + "spec: {nodes: 1}", `{"nodes":1}`},
		{"JSON", `{"apiVersion": "evenkeel.dev/v1alpha1", "kind": "NodeGroupSplit", "spec": {"nodes": 1, "chosen": "\ud83d\ude00"}}`,
			`{"nodes":1,"chosen":"😀"}`},
		{"flow style that is no JSON", `{apiVersion: evenkeel.dev/v1alpha1, kind: NodeGroupSplit, spec: {nodes: 1,}}`, `{"nodes":1}`},
		{"byte order mark", "\xef\xbb\xbf" + splitHead + "spec: {nodes: 1}", `{"nodes":1}`},
		{"windows lines", strings.ReplaceAll("---\n"+splitHead+"spec:\n  nodes: 1\n", "\n", "\r\n"), `{"nodes":1}`},
		{"directive and end", "%YAML 1.2\n---\n" + splitHead + "spec: {nodes: 1}\n...\n", `{"nodes":1}`},
		{"octal that nobody takes for decimal", splitHead + "spec: {nodes: 0o10}", `{"nodes":8}`},
		{"underscores and plus", splitHead + "spec: {nodes: +1_000}", `{"nodes":1000}`},
		{"quotes in place", splitHead + "spec: {chosen: '1'}", `{"chosen":"1"}`},
		{"words of YAML 1.1 are strings", splitHead + "spec: {chosen: on}", `{"chosen":"on"}`},
		{"null is not given", splitHead + "spec: {nodes: null, chosen: ~, groups: }", `{"nodes":null,"chosen":null,"groups":null}`},
		{"aliases and merges", splitHead + "spec: {groups: [&a {name: a, size: 1}, {<<: *a, name: b}]}",
			`{"groups":[{"name":"a","size":1},{"name":"b","size":1}]}`},
		{"dashes inside text", splitHead + "spec:\n  chosen: |\n    a\n    ---\n    b\n", `{"chosen":"a\n---\nb\n"}`},
		{"status from before", splitHead + "spec: {nodes: 1}\nstatus: {groups: [{name: a, size: 1, newSize: 2}], unplaced: 3}", `{"nodes":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := read(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			out, err := docs[0].WithStatus(struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			want := `{"apiVersion":"evenkeel.dev/v1alpha1","kind":"NodeGroupSplit","spec":` + tc.spec + `,"status":{}}`
			if string(out) != want {
				t.Errorf("got  %s\nwant %s", out, want)
			}
		})
	}
}

func TestReadBooleansOfYAML11(t *testing.T) {
	for word, want := range map[string]bool{"yes": true, "No": false, "on": true, "OFF": false, "true": true, "y": true} {
		docs, err := read("apiVersion: evenkeel.dev/v1alpha1\nkind: ReplicaDistribution\nspec: {rebalance: " + word + "}")
		if err != nil {
			t.Fatal(err)
		}
		if got := docs[0].Object.(*v1alpha1.ReplicaDistribution).Spec.Rebalance; got == nil || *got != want {
			t.Errorf("%s: got %v, want %v", word, got, want)
		}
	}
}

func TestReadCapsProblems(t *testing.T) {
	in := splitHead + "spec: {groups: [" + strings.Repeat("{size: x}, ", 50) + "]}"
	_, err := read(in)
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || lines[20] != "f.yaml: document 1: and 30 more problems" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestReadRefusesBombs(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	merges := "b0: &b0 {k: v}\n"
	for i := range 60 {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
		merges += fmt.Sprintf("b%d: &b%d {x: *b%d, y: *b%d}\n", i+1, i+1, i, i)
	}
	wide := "m: &m {"
	for i := range 2000 {
		wide += fmt.Sprintf("k%d: 1, ", i)
	}
	wide += "}\nl:\n" + strings.Repeat("- {<<: *m}\n", 2000)
	for name, bomb := range map[string]string{"laughs": laughs, "doubling": merges, "merges": wide} {
		_, err := read(splitHead + bomb)
		if err == nil || !strings.Contains(err.Error(), "anchors and aliases grow to more than 100000 values") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestReadLimitsSize(t *testing.T) {
	in := splitHead + "spec: {nodes: 1}\n"
	for limit, want := range map[int64]string{
		int64(len(in)):     "",
		int64(len(in)) - 1: fmt.Sprintf("f: larger than the limit of %d bytes", len(in)-1),
		32:                 "f: larger than the limit of 32 bytes",
	} {
		_, err := document.Read("f", strings.NewReader(in), document.Options{MaxSize: limit})
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("limit %d: got %q, want %q", limit, got, want)
		}
	}
	large := &document.TooLarge{Limit: 512 << 20}
	if got := large.Error(); got != "larger than the limit of 512Mi" {
		t.Errorf("got %q", got)
	}
}

func TestReadFilesKeepsTheOrder(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.json")
	write(t, one, splitHead+"metadata: {name: a}\n---\n"+splitHead+"metadata: {name: b}\n")
	write(t, two, `{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "evenkeel.dev/v1alpha1", "kind": "NodeGroupSplit", "metadata": {"name": "c"}},
		{"apiVersion": "evenkeel.dev/v1alpha1", "kind": "ReplicaDistribution", "metadata": {"name": "d"}}]}
		{"apiVersion": "evenkeel.dev/v1alpha1", "kind": "NodeGroupSplit", "metadata": {"name": "e"}}`)
	stdin := strings.NewReader(splitHead + "metadata: {name: in}\n")
	docs, err := document.ReadFiles([]string{two, "-", one}, document.Stdin(stdin), document.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range docs {
		got = append(got, fmt.Sprintf("%s %d %s", filepath.Base(d.File), d.Number, d.Name))
	}
	want := []string{"two.json 1 c", "two.json 1 d", "two.json 2 e", "stdin 1 in", "one.yaml 1 a", "one.yaml 2 b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestReadFilesFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := document.ReadFiles([]string{missing}, document.Stdin(nil), document.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	_, err := document.ReadFiles([]string{"-", "-"}, document.Stdin(strings.NewReader(splitHead)), document.Options{})
	if err == nil || err.Error() != "stdin: named twice, but can be read only once" {
		t.Errorf("stdin twice: got %v", err)
	}
}

func TestWithStatusKeepsWhatWasWritten(t *testing.T) {
	docs, err := read(`{"kind": "NodeGroupSimilarity", "status": {"sets": []}, "spec": {"options": {"memoryDifferenceRatio": 0.0150},
		"groups": [{"template": {"status": {"capacity": {"memory": "4096Mi", "cpu": 2}}}, "name": "a<b"}]}, "apiVersion": "evenkeel.dev/v1alpha1"}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := docs[0].WithStatus(map[string]int{"sets": 1})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"NodeGroupSimilarity","spec":{"options":{"memoryDifferenceRatio":0.0150},` +
		`"groups":[{"template":{"status":{"capacity":{"memory":"4096Mi","cpu":2}}},"name":"a<b"}]},"apiVersion":"evenkeel.dev/v1alpha1","status":{"sets":1}}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !json.Valid(got) {
		t.Error("not JSON")
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
