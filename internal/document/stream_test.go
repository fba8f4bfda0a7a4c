package document_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	goyaml "go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/internal/document"
)

// collect gives the items of a stream, "kind namespace/name" each, and its error.
func collect(seq iter.Seq2[document.Item, error]) (items []document.Item, names []string, err error) {
	for item, err := range seq {
		if err != nil {
			return items, names, err
		}
		items = append(items, item)
		names = append(names, fmt.Sprintf("%s %s/%s", item.Kind, item.Namespace, item.Name))
	}
	return items, names, nil
}

func objects(text string) iter.Seq2[document.Item, error] {
	return document.Objects("in", strings.NewReader(text), document.StreamOptions{})
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func asYAML(t *testing.T, text string) string {
	t.Helper()
	out, err := yaml.JSONToYAML([]byte(text)) // as kubectl does
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// asFlow writes YAML on as few lines as it can.
func asFlow(t *testing.T, text string) string {
	t.Helper()
	var document goyaml.Node
	if err := goyaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	document.Content[0].Style = goyaml.FlowStyle
	var plain func(*goyaml.Node)
	plain = func(n *goyaml.Node) {
		n.Style &^= goyaml.DoubleQuotedStyle // names, and what needs no quotes
		for _, inner := range n.Content {
			plain(inner)
		}
	}
	plain(&document)
	out, err := goyaml.Marshal(&document)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestObjectsReadsWhatKubectlPrints(t *testing.T) {
	pods, nodes, sets := testdata(t, "pods.json"), testdata(t, "nodes.json"), testdata(t, "daemonsets.json")
	for name, in := range map[string]string{
		"flow":  asFlow(t, pods) + "---\n" + asFlow(t, nodes) + "---\n" + sets,
		"JSON":  pods + nodes + sets,
		"YAML":  asYAML(t, pods) + "---\n" + asYAML(t, nodes) + "---\n" + asYAML(t, sets),
		"mixed": asYAML(t, pods) + "---\n" + nodes + "--- # the last\n" + asYAML(t, sets),
	} {
		items, names, err := collect(objects(in))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []string{
			"Pod default/api-7cc46d6d5b-27rsj", "Pod default/api-7cc46d6d5b-2blx9", "Pod default/api-7cc46d6d5b-6f85l",
			"Node /c5-2xlarge-a-2dhqw", "Node /c5-2xlarge-a-2f29n", "DaemonSet kube-system/agent",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Fatalf("%s: items (-want +got):\n%s", name, diff)
		}
		pod, node, set := items[0].Object.(*v1.Pod), items[3].Object.(*v1.Node), items[5].Object.(*appsv1.DaemonSet)
		if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "750m" {
			t.Errorf("%s: the pod requests %s", name, got)
		}
		if got := node.Status.Allocatable.Cpu().String(); got != "7910m" {
			t.Errorf("%s: the node has %s", name, got)
		}
		if got := set.Spec.Template.Spec.Tolerations; len(got) != 1 {
			t.Errorf("%s: tolerations %v", name, got)
		}
	}
}

func TestObjectsReadsEveryShape(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"one object, JSON", `{"kind": "Namespace", "metadata": {"name": "a", "namespace": "x"}, "apiVersion": "v1"}`, []string{"Namespace x/a"}},
		{"one object, YAML", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", []string{"Namespace /a"}},
		{"typed list, JSON", `{"kind": "NamespaceList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}`, []string{"Namespace /a"}},
		{"typed list, YAML", "kind: NamespaceList\napiVersion: v1\nitems:\n- metadata:\n    name: a\n- metadata:\n    name: b\n",
			[]string{"Namespace /a", "Namespace /b"}},
		{"indented items",
			"kind: List\nitems:\n  # first\n  - kind: Namespace\n    apiVersion: v1\n    metadata: {name: a}\n\n  - kind: " +
				"Namespace\n    apiVersion: v1\n    metadata: {name: b}\nmetadata: {}\n", []string{"Namespace /a", "Namespace /b"}},
		{"items on one line", "kind: List\nitems: [{kind: Namespace, apiVersion: v1, metadata: {name: a}}]\n", []string{"Namespace /a"}},
		{"flow style", "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: a}}, " +
			"{apiVersion: v1, kind: Namespace, metadata: {name: b}}]}", []string{"Namespace /a", "Namespace /b"}},
		{"flow style, several",
			"# a\n{\n  apiVersion: v1, kind: Namespace, # why\n  metadata: {name: a}\n}\n---\n{apiVersion: v1, kind: Namespace, " +
				"metadata: {name: b}}\n", []string{"Namespace /a", "Namespace /b"}},
		{"flow style behind a marker",
			"--- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n...\n---\n{\"apiVersion\": \"v1\", \"kind\": " +
				"\"Namespace\", \"metadata\": {\"name\": \"b\"}}\n...\n", []string{"Namespace /a", "Namespace /b"}},
		{"flow style with items on a line of their own", "{\nkind: List,\nitems:\n[{apiVersion: v1, kind: Namespace, metadata: {name: a}}]}",
			[]string{"Namespace /a"}},
		{"flow style with names in quotes",
			`{"apiVersion": v1, "kind": List, "items": [{"apiVersion": v1, "kind": Namespace, "metadata": {"name": a}}]}`, []string{"Namespace /a"}},
		{"flow style that begins like JSON",
			"{\"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": " +
				"\"a\"}},\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"b\"}},]}\n---\nkind: " +
				"Namespace\napiVersion: v1\nmetadata: {name: c}\n",
			[]string{"Namespace /a", "Namespace /b", "Namespace /c"}},
		{"byte order mark", "\xef\xbb\xbf" + `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}}`, []string{"Namespace /a"}},
		{"JSON among other documents",
			"kind: Namespace\napiVersion: v1\nmetadata: {name: a}\n---\n{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": " +
				"[{\"kind\": \"Namespace\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"b\"}}]}\n---\nkind: " +
				"Namespace\napiVersion: v1\nmetadata: {name: c}\n",
			[]string{"Namespace /a", "Namespace /b", "Namespace /c"}},
		{"text that looks like items",
			"apiVersion: v1\nitems:\n- kind: ConfigMap\n  apiVersion: v1\n  metadata: {name: a}\n  data:\n    x: |\n      - " +
				"kind: Namespace\n      items:\n- kind: Namespace\n  apiVersion: v1\n  metadata: {name: b}\nkind: List\n",
			[]string{"ConfigMap /a", "Namespace /b"}},
		{"a kind that is not read", `{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": {"x": []}}`,
			[]string{"Service /s"}},
		{"no items, JSON", `{"kind": "List", "items": []}`, nil},
		{"null items, JSON", `{"kind": "List", "items": null}`, nil},
		{"no items, YAML", "kind: List\nitems: []\n", nil},
		{"null items, YAML", "items:\nkind: List\n", nil},
		{"kinds in turn", `{"kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}},
			{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}, {"apiVersion": "v2", "kind": "Node", "metadata": {"name": "d"}}, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "e"}}]}`,
			[]string{"Namespace /a", "Node /b", "Node /c", "Node /d", "Namespace /e"}},
		{"buffers in turn",
			`{"kind": "List", "items": [{"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "a"}}, {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "b"}}]}`,
			[]string{"CapacityBuffer /a", "CapacityBuffer /b"}},
		{"octal number", "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec: {containers: [{name: c}], volumes: [{name: v, " +
			"configMap: {name: x, defaultMode: 0644}}]}\n", []string{"Pod /a"}},
		{"items twice", "items:\nitems:\n- {kind: Namespace, apiVersion: v1, metadata: {name: a}}\nkind: List\n", []string{"Namespace /a"}},
		{"comments after JSON", `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}}` + "\n# end\n", []string{"Namespace /a"}},
		{"unknown fields", `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"soon": {}}}`,
			[]string{"Namespace /a"}},
		{"comments around", "# a\n---\nkind: Namespace\napiVersion: v1\nmetadata: {name: a}\n---\n# end\n", []string{"Namespace /a"}},
		{"windows lines", "kind: List\r\nitems:\r\n- kind: Namespace\r\n  apiVersion: v1\r\n  metadata:\r\n    name: a\r\n- " +
			"kind: Namespace\r\n  apiVersion: v1\r\n  metadata:\r\n    name: b\r\n", []string{"Namespace /a", "Namespace /b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, names, err := collect(objects(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObjectsRefuses(t *testing.T) {
	bad := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-3","namespace":"default"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1x"}}}]}}`
	good := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1"},"spec":{"containers":[{"name":"c"}]}}`
	const problem = `items[1] (Pod default/web-3): spec.containers[0].resources.requests[cpu]: Invalid value: "1x": must be a quantity such as 500m, 2 or 4Gi`
	list := `{"items":[` + good + "," + bad + `],"kind":"List"}`
	for _, tc := range []struct{ name, in, want string }{
		{"JSON", list, "in: document 1: " + problem},
		{"YAML", asYAML(t, list), "in: document 1: " + problem},
		{"second document", good + list, "in: document 2: " + problem},
		{"an object on its own", bad,
			`in: document 1: Pod default/web-3: spec.containers[0].resources.requests[cpu]: Invalid value: "1x": must be a quantity such as 500m, 2 or 4Gi`},
		{"quantity that never ends", strings.ReplaceAll(bad, "1x", "1e1000000000"),
			`in: document 1: Pod default/web-3: spec.containers[0].resources.requests[cpu]: Invalid value: "1e1000000000": must be a quantity such as 500m, 2 or 4Gi`},
		{"an item without a kind", `{"kind":"List","items":[{"metadata":{"name":"a"}}]}`,
			`in: document 1: items[0] (a): kind: Required value: must be the kind of a Kubernetes object`},
		{"an item that is no object", `{"kind":"List","items":[3]}`, `in: document 1: items[0]: must be an object`},
		{"items that are no list", `{"kind":"List","items":{}}`, `in: document 1: items: Invalid value: must be a list`},
		{"not an object", `[1]`, `in: document 1: line 1: must be a Kubernetes object or list, as kubectl get -o json or -o yaml prints it`},
		{"a snapshot", `{"NodeList":[],"TemplateNodes":{}}`,
			`in: document 1: is a debugging snapshot of Cluster Autoscaler, not Kubernetes objects`},
		{"UTF-16", "\xff\xfe{\x00", `in: is UTF-16 text, as some shells of Windows write: save it as UTF-8`},
		{"text", `hello`, `in: document 1: line 1: must be a Kubernetes object or list, as kubectl get -o json or -o yaml prints it`},
		{"nothing", "\n", `in: holds no object`},
		{"half a list", `{"kind":"List","items":[` + good + `,`, `in: document 1: the JSON ends too early`},
		{"half a list of YAML", "apiVersion: v1\nitems:\n- {kind: Service, apiVersion: v1, metadata: {name: s}}\n",
			`in: document 1: kind: Required value: must end with List: kubectl prints it behind the items, so the file may be cut off`},
		{"half a kind of a list of YAML", "items:\n- {kind: Service, apiVersion: v1, metadata: {name: s}}\nkind: Li",
			`in: document 1: kind: Invalid value: "Li": must end with List: kubectl prints it behind the items, so the file may be cut off`},
		{"an answer of the server", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes is forbidden","code":403}`,
			`in: document 1: Status: is no object but what an API server said: nodes is forbidden`},
		{"half an item", `{"kind":"List","items":[{"a`, `in: document 1: the JSON ends too early`},
		{"bad YAML in an item", "kind: List\nitems:\n- {kind: Service, apiVersion: v1}\n- kind: [\n",
			`in: document 1: items[1]: line 4: not valid YAML: did not find expected node content`},
		{"bad JSON", `{"kind" 3}`, `in: document 1: line 1: not valid JSON: invalid character '3' after object key`},
		{"no version", `{"kind":"Pod","metadata":{"name":"a"}}`,
			`in: document 1: Pod a: apiVersion: Required value: must be the version of a Kubernetes object, such as v1`},
		{"a pod without a name", strings.Replace(good, `"name":"web-1"`, "", 1),
			`in: document 1: Pod: metadata.name: Required value: an object of a cluster has a name`},
		{"a pod without a specification", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`,
			`in: document 1: Pod a: spec.containers: Required value: a pod has at least one container`},
		{"a negative request", strings.ReplaceAll(bad, `"1x"`, `"-1"`),
			`in: document 1: Pod default/web-3: spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must not be negative`},
		{"a misspelt resource", strings.ReplaceAll(list, `"cpu":"1x"`, `"cpus":"1"`),
			`in: document 1: items[1] (Pod default/web-3): spec.containers[0].resources.requests: Invalid value: "cpus": is not a resource of Kubernetes (did you mean "cpu"?)`},
		{"an unknown operator", strings.ReplaceAll(good, `"spec":{`, `"spec":{"tolerations":[{"key":"a","operator":"Equals"}],`),
			`in: document 1: Pod web-1: spec.tolerations[0].operator: Unsupported value: "Equals": supported values: "Equal", "Exists"`},
		{"JSON and text", good + "\nthat is all", `in: document 2: text follows the JSON: put --- between documents`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := collect(objects(tc.in))
			var invalid *document.Invalid
			if !errors.As(err, &invalid) || err.Error() != tc.want {
				t.Errorf("got\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

// TestAmountsOutOfRange wants the fast way through a list to refuse what the slow one does, and to
// take what just fits.
func TestAmountsOutOfRange(t *testing.T) {
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"containers":[{"resources":{"requests":{"cpu":AMOUNT}}}]}}`
	first := strings.ReplaceAll(pod, "AMOUNT", "1")
	for amount, want := range map[string]string{
		`9223372036854775`:           "",
		`"9223372036854775"`:         "",
		`"8Pi"`:                      "",
		`"0000000000000000000001"`:   "",
		`"9223372036854774.5"`:       "",
		`9223372036854776`:           "at most",
		`"9223372036854775807"`:      "at most",
		`"9223372036854775.5"`:       "at most",
		`1e16`:                       "at most",
		`1E+16`:                      "at most",
		`"1e30"`:                     "at most",
		`"1\u0065\u0033\u0030"`:      "at most",
		`"9999999999999999999Ki"`:    "at most",
		`"9Pi"`:                      "at most",
		`"10P"`:                      "at most",
		`"1E"`:                       "at most",
		`"9007199254740992M"`:        "at most",
		`"-1e16"`:                    "at least -",
		`"-9223372036854775808000m"`: "at least -",
	} {
		text := `{"kind":"List","items":[` + first + "," + strings.ReplaceAll(pod, "AMOUNT", amount) + `]}`
		_, _, err := collect(objects(text))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", amount, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "items[1] (Pod a): spec.containers[0].resources.requests[cpu]") ||
			!strings.Contains(err.Error(), "is out of range: must be "+want)):
			t.Errorf("%s: got %v", amount, err)
		}
	}
}

func TestObjectsTellsFailureToReadApart(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, begin := range []string{"", `{"items": [`, "items:\n- a: 1\n"} {
		_, _, err := collect(document.Objects("in", io.MultiReader(strings.NewReader(begin), failing{broken}), document.StreamOptions{}))
		var invalid *document.Invalid
		if !errors.Is(err, broken) || errors.As(err, &invalid) {
			t.Errorf("%q: got %v", begin, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestStreamsLimitSize(t *testing.T) {
	for _, in := range []string{testdata(t, "pods.json"), asYAML(t, testdata(t, "pods.json"))} {
		size := int64(len(in))
		if _, _, err := collect(document.Objects("in", strings.NewReader(in), document.StreamOptions{MaxSize: size})); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		_, _, err := collect(document.Objects("in", strings.NewReader(in), document.StreamOptions{MaxSize: size - 1}))
		var large *document.TooLarge
		var invalid *document.Invalid
		if !errors.As(err, &large) || !errors.As(err, &invalid) {
			t.Errorf("beyond the limit: got %v", err)
		}
	}
	in := testdata(t, "snapshotz.json")
	_, err := document.ReadSnapshot("in", strings.NewReader(in), document.StreamOptions{MaxSize: 1 << 10})
	if err == nil || err.Error() != "in: larger than the limit of 1Ki" {
		t.Errorf("snapshot: got %v", err)
	}
}

func TestObjectsStopsWhenAsked(t *testing.T) {
	for _, in := range []string{testdata(t, "pods.json"), asYAML(t, testdata(t, "pods.json"))} {
		for _, err := range objects(in) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
}

func TestReadSnapshot(t *testing.T) {
	s, err := document.ReadSnapshot("snapshotz.json", strings.NewReader(testdata(t, "snapshotz.json")), document.StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes) != 2 || len(s.Nodes[0].Pods) != 2 || s.Nodes[0].Node.Name != "c5-2xlarge-a-sn69k" {
		t.Errorf("got nodes %v", s.Nodes)
	}
	template, ok := s.Templates["m5-large-a"]
	if !ok || len(s.Templates) != 3 || template.Node.Status.Capacity.Cpu().String() != "2" || len(template.Pods) != 2 {
		t.Errorf("got templates %v", s.Templates)
	}
}

func TestReadSnapshotRefuses(t *testing.T) {
	const none = "in: is not a debugging snapshot of Cluster Autoscaler: a JSON object with NodeList and TemplateNodes"
	for in, want := range map[string]string{
		`{"kind": "List", "items": []}`: none,
		"NodeList: []":                  none,
		`[]`:                            none,
		``:                              "in: the JSON ends too early",
		`{"NodeList": [{"Node": {"a`:    "in: the JSON ends too early",
		`{"NodeList": {}}`:              "in: NodeList: Invalid value: must be a list",
		`{"TemplateNodes": []}`:         "in: TemplateNodes: Invalid value: must be an object",
		`{"NodeList": [{"Pods": []}]}`:  "in: NodeList[0].Node: Required value: must be a node",
		`{"NodeList": [{"Node": {}, "Pods": [null]}]}`: "in: NodeList[0].Pods[0]: Required value: must be a pod",
		`{"NodeList": [{"Node": 1}]}`: "in: NodeList[0].Node: Invalid value: " +
			"1: must be an object",
		`{"TemplateNodes": {"a": {"Node": {"status": {"capacity": {"cpu": "1x"}}}}}}`: `in: TemplateNodes[a].Node.status.capacity[cpu]: Invalid value: "1x": must be a quantity such as 500m, 2 or 4Gi`,
	} {
		_, err := document.ReadSnapshot("in", strings.NewReader(in), document.StreamOptions{})
		var invalid *document.Invalid
		if !errors.As(err, &invalid) || err.Error() != want {
			t.Errorf("%s: got\n%v\nwant\n%s", in, err, want)
		}
	}
}

// aList is a list of so many copies of an item, made while it is read.
func aList(item string, n int, format string) io.Reader {
	begin, between, end := `{"apiVersion":"v1","kind":"List","items":[`, ",", "]}"
	if format == "yaml" {
		begin, between, end = "apiVersion: v1\nitems:\n", "", "kind: List\n"
	}
	parts := make([]io.Reader, 0, 2*n+1)
	parts = append(parts, strings.NewReader(begin))
	for i := range n {
		if i > 0 {
			parts = append(parts, strings.NewReader(between))
		}
		parts = append(parts, strings.NewReader(item))
	}
	return io.MultiReader(append(parts, strings.NewReader(end))...)
}

// aPod is a pod of about 5 KB, as an item of a list.
func aPod(tb testing.TB, format string) string {
	tb.Helper()
	data, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		tb.Fatal(err)
	}
	if format == "json" {
		return string(data)
	}
	out, err := yaml.JSONToYAML(data)
	if err != nil {
		tb.Fatal(err)
	}
	return "- " + strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "\n  ") + "\n"
}

func TestObjectsKeepsOneItemInMemory(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		in := aList(aPod(t, format), 2000, format) // 8 MB
		var most, before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		n := 0
		for _, err := range document.Objects("in", in, document.StreamOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%500 == 0 {
				runtime.GC()
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				most.HeapAlloc = max(most.HeapAlloc, now.HeapAlloc)
			}
		}
		if n != 2000 {
			t.Errorf("%s: got %d items", format, n)
		}
		if grown := int64(most.HeapAlloc) - int64(before.HeapAlloc); grown > 2<<20 {
			t.Errorf("%s: %d bytes alive while reading", format, grown)
		}
	}
}

func BenchmarkObjects(b *testing.B) {
	for _, format := range []string{"json", "yaml"} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", format, n), func(b *testing.B) {
				pod := aPod(b, format)
				b.SetBytes(int64(n * len(pod)))
				b.ReportAllocs()
				for b.Loop() {
					for _, err := range document.Objects("in", aList(pod, n, format), document.StreamOptions{}) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
