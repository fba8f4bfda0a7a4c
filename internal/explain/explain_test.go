package explain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// realCluster opens the dumps of a real cluster.
func realCluster(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join("..", "..", "configs", "scenarios", "data", name))
}

// texts makes files of texts.
func texts(files map[string]string) Files {
	return Files{Open: func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

func explained(t *testing.T, f *Fleet, o nodegroupset.Options, names ...string) *Explanation {
	t.Helper()
	index, err := nodegroupset.NewIndex(o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Explain(index, names...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustRead(t *testing.T, s Sources, f Files) *Fleet {
	t.Helper()
	fleet, err := Read(s, f)
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

func TestAnswersOfARealFleet(t *testing.T) {
	fleet := mustRead(t, Sources{Snapshot: "snapshotz.json"}, Files{Open: realCluster})
	aws := nodegroupset.Options{DisabledPacks: []string{"aws"}}
	for _, tc := range []struct {
		names   string
		options nodegroupset.Options
		want    string
	}{
		{"", nodegroupset.Options{}, "12 groups form 5 sets; m5-large-a stands apart from m5-large-b, m5-large-c by free.cpu " +
			"(1780m against 1880m, 5.32 %: ratio 0.0532, limit 0.05); --max-free-difference-ratio=0.0532 would join them"},
		{"", aws, "12 groups form 12 sets; every two sets differ in more than three fields; " +
			"ignoring 5 labels that may mean nothing would leave 5 sets"},
		{"m5-large-a", nodegroupset.Options{}, "m5-large-a is similar to no other group; the nearest, m5-large-b, differs by free.cpu " +
			"(1780m against 1880m, 5.32 %: ratio 0.0532, limit 0.05); --max-free-difference-ratio=0.0532 would make them similar"},
		{"m5-large-c", nodegroupset.Options{}, "m5-large-c is similar to m5-large-b; the nearest other group, m5-large-a, differs by free.cpu " +
			"(1880m against 1780m, 5.32 %: ratio 0.0532, limit 0.05); --max-free-difference-ratio=0.0532 would make them similar"},
		{"m5-large-b m5-large-c", nodegroupset.Options{}, "m5-large-b and m5-large-c are similar"},
		{"m5-large-b r5-large-a", nodegroupset.Options{}, "m5-large-b and r5-large-a are not similar, they differ by " +
			"capacity.memory, allocatable.memory, free.cpu and 4 more; no flag would make them similar"},
	} {
		got := explained(t, fleet, tc.options, strings.Fields(tc.names)...)
		if diff := cmp.Diff(tc.want, got.Status.Answer); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.names, diff)
		}
		tainted := strings.Contains(tc.names, "r5")
		if (len(got.Status.Notes) == 1) != tainted {
			t.Errorf("%q: notes %q", tc.names, got.Status.Notes)
		}
	}
}

func TestOneGroupListsAllOthersNearestFirst(t *testing.T) {
	fleet := mustRead(t, Sources{Snapshot: "snapshotz.json"}, Files{Open: realCluster})
	g := explained(t, fleet, nodegroupset.Options{}, "m5-large-a").Status.Group
	if len(g.Others) != 11 || g.Others[0].Group != "m5-large-b" || len(g.Similar) != 0 || len(g.Set) != 1 {
		t.Fatalf("%+v", g)
	}
	for i, o := range g.Others {
		if i > 0 && len(o.Differences) < len(g.Others[i-1].Differences) {
			t.Errorf("%s is nearer than %s", o.Group, g.Others[i-1].Group)
		}
		if (o.Remedy != nil) != (i < mostRemedies) || (o.Stock != nil) != (i < mostRemedies) {
			t.Errorf("%s: remedies %v and %v", o.Group, o.Remedy, o.Stock)
		}
	}
}

// node is the YAML of one node of a group.
func node(name, group, ready, cpu string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {pool: %s, kubernetes.io/hostname: %[1]s}}
status: {capacity: {cpu: %[4]s, memory: 8Gi}, allocatable: {cpu: %[4]s, memory: 7Gi}, conditions: [{type: Ready, status: "%[3]s"}]}
`, name, group, ready, cpu)
}

// pod is the YAML of a pod on a node.
func pod(name, on, owner, phase string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: x, uid: u, controller: true}]}
spec: {nodeName: %s, containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
status: {phase: %s}
`, name, owner, on, phase)
}

func TestNodesStandForTheirGroups(t *testing.T) {
	both := node("a3", "a", "True", "4") + node("a1", "a", "False", "8") + node("a2", "a", "True", "2") +
		node("b1", "b", "Unknown", "2") + node("stray", `""`, "True", "1") +
		pod("agent", "a2", "DaemonSet", "Running") + pod("web", "a2", "ReplicaSet", "Running") +
		pod("done", "a2", "DaemonSet", "Succeeded") + pod("elsewhere", "a3", "DaemonSet", "Running")
	files := texts(map[string]string{"all": both})
	fleet := mustRead(t, Sources{Nodes: "all", Pods: "all", GroupLabel: "pool"}, files)
	if diff := cmp.Diff([]string{"a", "b"}, fleet.Names()); diff != "" {
		t.Fatalf("groups (-want +got):\n%s", diff)
	}
	a := fleet.Groups["a"]
	if a.Node.Status.Capacity.Cpu().String() != "2" || len(a.Pods) != 1 || a.Pods[0].Name != "agent" {
		t.Errorf("the template of a is %v with %v", a.Node, a.Pods)
	}
	want := []string{
		"left out, as pool names no group of theirs: 1 node: stray",
		"no node is ready, schedulable and staying, so another one stands for the group: b",
	}
	if diff := cmp.Diff(want, fleet.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	without := mustRead(t, Sources{Nodes: "all", GroupLabel: "pool"}, files)
	if len(without.Notes) != 3 || len(without.Groups["a"].Pods) != 0 {
		t.Errorf("without pods: %q", without.Notes)
	}
}

// TestANodeThatLeavesDoesNotStandForItsGroup: Cluster Autoscaler has marked it, or it is deleted,
// as the balancer sees it.
func TestANodeThatLeavesDoesNotStandForItsGroup(t *testing.T) {
	marked := strings.Replace(node("a1", "a", "True", "8"), "status:",
		"spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}\nstatus:", 1)
	deleted := strings.Replace(node("a2", "a", "True", "16"), "labels:", `deletionTimestamp: "2026-01-01T00:00:00Z", labels:`, 1)
	read := func(nodes string) *Fleet {
		return mustRead(t, Sources{Nodes: "all", GroupLabel: "pool"}, texts(map[string]string{"all": nodes}))
	}
	fleet := read(marked + deleted + node("a3", "a", "True", "2"))
	if cpu := fleet.Groups["a"].Node.Status.Capacity.Cpu().String(); cpu != "2" {
		t.Errorf("a node of %s cores stands for the group", cpu)
	}
	fleet = read(marked + deleted)
	if cpu := fleet.Groups["a"].Node.Status.Capacity.Cpu().String(); cpu != "8" ||
		!slices.Contains(fleet.Notes, "no node is ready, schedulable and staying, so another one stands for the group: a") {
		t.Errorf("with no other node, one of %s cores stands for the group; notes %q", cpu, fleet.Notes)
	}
}

func TestTemplatesAreNamedByAnnotationLabelOrName(t *testing.T) {
	const list = `{"kind":"NodeList","apiVersion":"v1","items":[
		{"metadata":{"name":"t","annotations":{"cluster-autoscaler.kwok.nodegroup/name":"a"},"labels":{"pool":"x"}}},
		{"metadata":{"name":"t","labels":{"pool":"b"}}},{"metadata":{"name":"c"}}]}`
	fleet := mustRead(t, Sources{Templates: "-", GroupLabel: "pool"}, texts(map[string]string{"-": list}))
	if diff := cmp.Diff([]string{"a", "b", "c"}, fleet.Names()); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestBadInput(t *testing.T) {
	good := node("a", "a", "True", "2")
	for _, tc := range []struct {
		name    string
		sources Sources
		text    string
		want    string // part of the problem
	}{
		{"empty snapshot", Sources{Snapshot: "-"}, "", "stdin: the JSON ends too early"},
		{"no snapshot", Sources{Snapshot: "x"}, "[]", "x: is not a debugging snapshot"},
		{"snapshot without groups", Sources{Snapshot: "x"}, `{"NodeList":[],"TemplateNodes":{}}`, "TemplateNodes is empty"},
		{"failed snapshot", Sources{Snapshot: "x"}, `{"NodeList":[],"Error":"too slow"}`, `Cluster Autoscaler said "too slow"`},
		{"snapshot without a capacity", Sources{Snapshot: "x"}, `{"TemplateNodes":{"a":{"Node":{}}}}`, `x: node group "a": node.status.capacity`},
		{"empty nodes", Sources{Nodes: "x", GroupLabel: "pool"}, "", "x: holds no object"},
		{"empty list of nodes", Sources{Nodes: "x", GroupLabel: "pool"}, `{"kind":"List","apiVersion":"v1","items":[]}`,
			"x: holds no Node"},
		{"no pods", Sources{Nodes: "x", Pods: "x", GroupLabel: "pool"}, good, "x: holds no Pod"},
		{"another label", Sources{Nodes: "x", GroupLabel: "team"}, good,
			"no node has the label team; what may name their groups: --group-label=pool (a)"},
		{"malformed nodes", Sources{Nodes: "x", GroupLabel: "pool"}, strings.Replace(good, "8Gi", "8Go", 1), "status.capacity[memory]"},
		{"negative amounts", Sources{Templates: "x"}, strings.Replace(good, "8Gi", "-8Gi", 1), `status.capacity[memory]: Invalid value: "-8Gi"`},
		{"two templates", Sources{Templates: "x"}, good + good, `two templates for the node group "a"`},
		{"a template without a name", Sources{Templates: "x"}, `{"kind":"Node","apiVersion":"v1"}`, "metadata.name: Required value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := tc.sources.Snapshot + tc.sources.Templates + tc.sources.Nodes
			fleet, err := Read(tc.sources, texts(map[string]string{name: tc.text}))
			if err == nil {
				index, indexErr := nodegroupset.NewIndex(nodegroupset.Options{})
				if indexErr != nil {
					t.Fatal(indexErr)
				}
				_, err = fleet.Explain(index)
			}
			var invalid *document.Invalid
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an invalid document: %s", err, tc.want)
			}
		})
	}
	if _, err := Read(Sources{Snapshot: "x"}, texts(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Read(Sources{Nodes: "x"}, texts(nil)); err == nil {
		t.Error("took nodes without the label of their group")
	}
	limited := texts(map[string]string{"x": good})
	limited.MaxSize = 10
	var large *document.TooLarge
	if _, err := Read(Sources{Templates: "x"}, limited); !errors.As(err, &large) {
		t.Errorf("a large file: %v", err)
	}
}

func TestUnknownGroupsNameTheNearest(t *testing.T) {
	fleet := mustRead(t, Sources{Snapshot: "snapshotz.json"}, Files{Open: realCluster})
	index, err := nodegroupset.NewIndex(nodegroupset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for written, want := range map[string]string{
		"m5-large-d":     `no node group "m5-large-d" among 12, did you mean m5-large-a or m5-large-b or m5-large-c?`,
		"C5-2xlarg-b":    `no node group "C5-2xlarg-b" among 12, did you mean c5-2xlarge-b?`,
		"something else": `no node group "something else" among 12`,
	} {
		_, err := fleet.Explain(index, written)
		var unknown *document.UnknownName
		if !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for _, names := range [][]string{{"m5-large-a", "m5-large-a"}, {"m5-large-a", "m5-large-b", "m5-large-c"}} {
		if _, err := fleet.Explain(index, names...); err == nil {
			t.Errorf("took %v", names)
		}
	}
}

func TestPercent(t *testing.T) {
	for ratio, want := range map[string]string{"0.0532": "5.32 %", "0.05": "5 %", "1.0000": "100 %", "0.05000001": "5.000001 %", "": ""} {
		if got := percent(ratio); got != want {
			t.Errorf("percent(%q) = %q, want %q", ratio, got, want)
		}
	}
}

// The cloud of a group shows on any of its nodes, and that of the fleet on any group.
func TestACloudIsFoundOutFromAllNodes(t *testing.T) {
	node := func(name, pool, id string) string {
		return strings.Replace(node(name, pool, "True", "2"), "status:", `spec: {providerID: "`+id+`"}`+"\nstatus:", 1)
	}
	for name, text := range map[string]string{
		"the first node is silent": node("a1", "a", "") + node("a2", "a", "azure:///a2") + node("b1", "b", "azure:///b1"),
		"the first is of no cloud": node("a1", "a", "kwok://a1") + node("a2", "a", "azure:///a2") + node("b1", "b", "azure:///b1"),
		"one group is silent":      node("a1", "a", "") + node("b1", "b", "azure:///b1"),
		"one group is of no cloud": node("a1", "a", "azure:///a1") + node("b1", "b", "openstack:///b1"),
		"all say so":               node("a1", "a", "azure:///a1") + node("b1", "b", "azure:///b1"),
		"by the label of one cloud": strings.ReplaceAll(node("a1", "a", "kwok://a1")+node("b1", "b", ""), "labels: {",
			"labels: {kubernetes.azure.com/role: agent, "),
	} {
		text = strings.ReplaceAll(text, "pool:", "agentpool:")
		for _, s := range []Sources{{Nodes: "x", GroupLabel: "agentpool"}, {Templates: "x"}} {
			if s.Templates != "" && strings.Contains(text, "a2") {
				continue // one node for each group
			}
			// another general word shows that not only the group's label is ignored
			text := strings.NewReplacer("agentpool: a,", "agentpool: a, poolName: a,", "agentpool: b,", "agentpool: b, poolName: b,").Replace(text)
			fleet := mustRead(t, s, texts(map[string]string{"x": text}))
			if sets := explained(t, fleet, nodegroupset.Options{}).Status.Sets; len(sets) != 1 {
				t.Errorf("%s: %d sets from %+v", name, len(sets), s)
			}
		}
	}
}

// A node pool of GKE has a group in every zone; of other labels that is only suspected, unless the
// zone is named as well.
func TestGroupsOverZones(t *testing.T) {
	zoned := func(name, label, zone string) string {
		return strings.Replace(node(name, "p", "True", "2"), "{pool: p,", "{"+label+": p, topology.kubernetes.io/zone: "+zone+",", 1)
	}
	for name, c := range map[string]struct {
		label, by string
		groups    []string
		note      string
	}{
		"GKE": {"cloud.google.com/gke-nodepool", "cloud.google.com/gke-nodepool", []string{"p.a", "p.b"},
			"has a group of its own in every zone: p"},
		"another": {"pool", "pool", []string{"p"},
			"nodes of p lie in several zones (a, b) and count as one group; if each zone has a group of its own, name the zone " +
				"too: --group-label pool,topology.kubernetes.io/zone"},
		"with zone": {"pool", "pool,topology.kubernetes.io/zone", []string{"p.a", "p.b"}, ""},
		"GKE and zone": {"cloud.google.com/gke-nodepool", "cloud.google.com/gke-nodepool,topology.kubernetes.io/zone",
			[]string{"p.a", "p.b"}, ""},
	} {
		files := texts(map[string]string{"x": zoned("n1", c.label, "a") + zoned("n2", c.label, "b") + zoned("n3", c.label, "b")})
		fleet := mustRead(t, Sources{Nodes: "x", GroupLabel: c.by}, files)
		if diff := cmp.Diff(c.groups, fleet.Names()); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", name, diff)
		}
		notes := strings.Join(fleet.Notes, "\n")
		if !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "zone") {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
	twice := texts(map[string]string{"x": zoned("n1", "pool", "a") + zoned("n2", "pool", "b")})
	if _, err := Read(Sources{Templates: "x", GroupLabel: "pool"}, twice); err == nil {
		t.Error("took two templates for one group")
	}
	gke := texts(map[string]string{"x": zoned("n1", "cloud.google.com/gke-nodepool", "a") + zoned("n2", "cloud.google.com/gke-nodepool", "b")})
	if fleet := mustRead(t, Sources{Templates: "x", GroupLabel: "cloud.google.com/gke-nodepool"}, gke); len(fleet.Groups) != 2 {
		t.Errorf("templates of one pool in two zones are %v", fleet.Names())
	}
}

// A daemon set that runs on one template only makes it another one; what ran on the node of a
// template counts there, once.
func TestPodsCountOnTemplates(t *testing.T) {
	const nodes = `
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {pool: a}}, status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {pool: b}}, status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: c, labels: {pool: c}}, status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}}
`
	const pod = `{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: %s, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: %s, uid: u, controller: true}]},
  spec: {nodeName: %s, nodeSelector: {%s}, containers: [{name: c, resources: {requests: {cpu: 800m}}}]}}
---
`
	const set = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: default, name: logs}, spec: {template: {spec: {nodeSelector: {pool: a}, containers: [{name: c, resources: {requests: {cpu: 800m}}}]}}}}
---
`
	for name, tc := range map[string]struct {
		pods string
		want map[string]int
		note string
	}{
		"a DaemonSet": {set, map[string]int{"a": 1, "b": 0, "c": 0}, ""},
		"its pod on a template": {fmt.Sprintf(pod, "logs-1", "logs", "a", "pool: a"), map[string]int{"a": 1, "b": 0, "c": 0},
			"pods has no DaemonSet default/logs: taken from its pods"},
		"its pod elsewhere": {fmt.Sprintf(pod, "logs-1", "logs", "a-17", "pool: a"), map[string]int{"a": 1, "b": 0, "c": 0},
			"pods has no DaemonSet default/logs"},
		"both":          {set + fmt.Sprintf(pod, "logs-1", "logs", "a", "pool: a"), map[string]int{"a": 1, "b": 0, "c": 0}, ""},
		"on every node": {fmt.Sprintf(pod, "logs-1", "logs", "a-17", ""), map[string]int{"a": 1, "b": 1, "c": 1}, ""},
		"pods that are of no daemon set": {"{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: x}, spec: " +
			"{nodeName: a, containers: [{name: c}]}}", map[string]int{"a": 0, "b": 0, "c": 0}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := mustRead(t, Sources{Templates: "nodes", Pods: "pods", GroupLabel: "pool"},
				texts(map[string]string{"nodes": nodes, "pods": tc.pods}))
			got := map[string]int{}
			for group, template := range fleet.Groups {
				got[group] = len(template.Pods)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pods on templates (-want +got):\n%s", diff)
			}
			if notes := strings.Join(fleet.Notes, "\n"); !strings.Contains(notes, tc.note) || strings.Contains(notes, "come without pods") {
				t.Errorf("notes %q, want %q", notes, tc.note)
			}
		})
	}
	_, err := Read(Sources{Templates: "nodes", Pods: "nodes"}, texts(map[string]string{"nodes": nodes}))
	if err == nil || err.Error() != "nodes: holds no Pod or DaemonSet" {
		t.Errorf("got %v", err)
	}
}
