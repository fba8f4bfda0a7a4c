package pending_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/internal/pending"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/zonalshift"
)

func nodeIn(name, zone, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {group: ng-%s, zone: %s, "+
		"kubernetes.io/hostname: %s}}\n%sstatus: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}, capacity: {cpu: 4, memory: "+
		"8Gi, pods: 110}}\n---\n", name, zone, zone, name, more)
}

// webPod asks for three of a node's four cores; it is pending without a node.
func webPod(name, node, more string) string {
	if node != "" {
		more += ", nodeName: " + node
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: %s, labels: {app: web}}\nspec: "+
		"{containers: [{name: c, resources: {requests: {cpu: 3}}}]%s}\n---\n", name, more)
}

func dbPod(name, node string) string {
	return strings.Replace(webPod(name, node, ""), "app: web", "app: db", 1)
}

// over is a constraint with one matching pod more than the least.
func over(key, more string) string {
	return fmt.Sprintf("{maxSkew: 1, topologyKey: %s, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}%s}", key,
		more)
}

func spread(constraints ...string) string {
	return ", topologySpreadConstraints: [" + strings.Join(constraints, ", ") + "]"
}

func soft(constraint string) string {
	return strings.Replace(constraint, "DoNotSchedule", "ScheduleAnyway", 1)
}

const antiAffinity = ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " +
	"kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}"

const service = "apiVersion: v1\nkind: Service\nmetadata: {namespace: default, name: web}\nspec: {selector: {app: web}}\n---\n"

const byDefault = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}]}]
`

// read reads nodes and pods, and explains the pods.
func read(t *testing.T, sources explain.Sources, files map[string]string, configuration string,
	marks ...zonalshift.Mark) ([]explain.PendingSpread, []string) {
	t.Helper()
	open := func(name string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(files[name])), nil }
	fleet, err := explain.Read(sources, explain.Files{Open: open})
	if err != nil {
		t.Fatal(err)
	}
	index, err := nodegroupset.NewIndex(nodegroupset.ParseGroupLabel(sources.GroupLabel).Ignoring(nodegroupset.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := fleet.Explain(index)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := pending.OfFleet(fleet, answer.Status.Sets, marks, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	checker, err := predicates.New(t.Context(), predicates.Options{Configuration: []byte(configuration), Objects: fleet.Cluster.Objects})
	if err != nil {
		t.Fatal(err)
	}
	all, err := pending.Spreads(checker, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return all, cluster.Notes
}

func answersOf(all []explain.PendingSpread) string {
	var answers []string
	for i := range all {
		answers = append(answers, all[i].Answer)
	}
	return strings.Join(answers, "\n")
}

func TestPendingSpreadPodsNameTheZoneThatBinds(t *testing.T) {
	zoned := spread(over("zone", ""))
	a1, a2, b1, b2, c1 := nodeIn("a1", "a", ""), nodeIn("a2", "a", ""), nodeIn("b1", "b", ""), nodeIn("b2", "b", ""), nodeIn("c1", "c", "")
	cordoned := nodeIn("c1", "c", "spec: {unschedulable: true}\n")
	running := webPod("web-1", "a1", "") + webPod("web-2", "b1", "")
	const waits = "default/web-3 waits for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods " +
		"and no node for one more "
	const takes = "; a new node of ng-c would take it"
	for _, tc := range []struct{ name, nodes, pods, config, want string }{
		{"a zone whose node is full", a1 + a2 + b1 + c1, running + dbPod("db-1", "c1") + webPod("web-3", "", zoned) + webPod("web-4", "",
			zoned), "",
			"default/web-3 and 1 more wait for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods " +
				"and no node for one more (1 node: insufficient cpu)" + takes},
		{"all nodes are full, so that new ones are held", a1 + b1 + c1, running + dbPod("db-1", "c1") + webPod("web-3", "", zoned), "", waits +
			"(1 node: insufficient cpu)" + takes},
		{"a zone that is cordoned", a1 + a2 + b1 + cordoned, running + webPod("web-3", "", zoned), "", waits + "(1 node: cordoned)" + takes},
		{"a zone that is tainted", a1 + a2 + b1 + nodeIn("c1", "c", "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n"),
			running + webPod("web-3", "", zoned), "",
			waits + "(1 node: it does not tolerate the taint gpu:NoSchedule); a new node of ng-c would not: it does not tolerate " +
				"the taint gpu:NoSchedule"},
		{"a zone whose node is kept by anti-affinity", a1 + a2 + b1 + c1, running + strings.Replace(dbPod("db-1", "c1"), "cpu: 3", "cpu: 100m",
			1) + webPod("web-3", "", zoned+antiAffinity), "",
			waits + "(1 node: didn't match pod anti-affinity rules)" + takes},
		{"a zone where the pod's volume is not", a1 + a2 + b1 + c1,
			running + webPod("web-3", "", zoned+", volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]") + volumeIn("a"), "",
			waits + "(1 node: didn't match PersistentVolume's node affinity); a new node of ng-c would not: didn't match " +
				"PersistentVolume's node affinity"},
		{"too few zones", a1 + a2 + b1 + b2, running + webPod("web-3", "", spread(over("zone", ", minDomains: 3"))), "",
			"default/web-3 waits for another domain: zone has 2 domains, and minDomains is 3; no node group is in another domain"},
		{"a key that no node has", a1 + b1, webPod("web-3", "", spread(over("zone", ""), over("example.com/rack", ""))), "",
			"default/web-3 waits for a node with the label example.com/rack: no node that would take it has it, nor would a new one"},
		{"two zones bind", a1 + a2 + cordoned + strings.NewReplacer("c1", "d1", "ng-c", "ng-d", "zone: c", "zone: d").Replace(cordoned),
			webPod("web-1", "a1", "") + webPod("web-3", "", zoned), "",
			"default/web-3 waits for c, d: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no " +
				"node for one more (1 node: cordoned); a new node of ng-c would take it; " +
				"d has 0 matching pods and no node for one more (1 node: cordoned); a new node of ng-d would take it"},
		{"hostnames", a1 + b1 + cordoned, running + strings.ReplaceAll(webPod("web-3", "", spread(over("kubernetes.io/hostname", ""))), "cpu: 3",
			"cpu: 1"), "",
			"default/web-3 waits for c1: with maxSkew 1 of kubernetes.io/hostname no other domain may take more: c1 has 0 " +
				"matching pods and no node for one more (1 node: cordoned)" +
				"; a new node of ng-a, ng-b, ng-c would be a domain of its own"},
		{"zones and hostnames", a1 + a2 + b1 + cordoned,
			running + webPod("web-3", "", spread(over("zone", ""), over("kubernetes.io/hostname", ""))), "", waits + "(1 node: cordoned)" + takes},
		{"a default constraint", a1 + a2 + b1 + cordoned, service + running + webPod("web-3", "", ""), byDefault,
			strings.Replace(waits, "of zone", "of zone, a default constraint,", 1) + "(1 node: cordoned)" + takes},
		{"no service selects the pod, so no default constraint", a1 + a2 + b1 + cordoned, running + webPod("web-3", "", ""), byDefault, ""},
		{"a node takes it", a1 + b1 + c1, running + webPod("web-3", "", zoned), "", ""},
		{"no node has room, so no constraint holds it", a1 + b1, running + webPod("web-3", "", zoned), "", ""},
		{"a pod that waits for a gate", a1 + a2 + b1 + cordoned, running + webPod("web-3", "", zoned+", schedulingGates: [{name: x}]"), "", ""},
		{"a soft constraint prefers a zone", a1 + a2 + b1 + b2 + c1, running + webPod("web-3", "", spread(soft(over("zone", "")))), "",
			"default/web-3 prefers c by ScheduleAnyway of zone: scores a 0, b 0, c 100 of nodes that take it"},
		{"a soft constraint holds nothing", a1 + b1 + c1, running + webPod("web-8", "c1", "") + webPod("web-3", "",
			spread(soft(over("zone", "")))), "",
			"default/web-3 prefers no domain by ScheduleAnyway of zone: scores a 100, b 100, c 100 of new nodes, since no node " +
				"takes it, which is not due to this constraint"},
		{"a soft constraint over hostnames", a1 + b1, running + webPod("web-3", "", spread(soft(over("kubernetes.io/hostname", "")))), "",
			"default/web-3 is not held by ScheduleAnyway of kubernetes.io/hostname: no node takes it, and a new node is a domain of its own"},
		{"a soft constraint beside a hard one that holds", a1 + a2 + b1 + cordoned,
			running + webPod("web-3", "", spread(over("zone", ""), soft(over("kubernetes.io/hostname", "")))), "", waits + "(1 node: cordoned)" +
				takes},
		{"too large for any node", a1 + b1, strings.Replace(webPod("web-3", "", spread(soft(over("zone", "")))), "cpu: 3", "cpu: 30", 1), "",
			"default/web-3 is not held by ScheduleAnyway of zone: no node takes it, nor would a new one in any domain of it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{"nodes.yaml": tc.nodes, "pods.yaml": tc.pods}
			all, _ := read(t, explain.Sources{Nodes: "nodes.yaml", Pods: "pods.yaml", GroupLabel: "group"}, files, tc.config)
			if got := answersOf(all); got != tc.want {
				t.Errorf("\ngot  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// volumeIn is a claim with a volume that nodes of one zone reach.
func volumeIn(zone string) string {
	return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {namespace: default, name: data, annotations: " +
		"{pv.kubernetes.io/bind-completed: \"yes\"}}\nspec: {volumeName: disk, accessModes: [ReadWriteOnce], resources: " +
		"{requests: {storage: 1Gi}}}\nstatus: {phase: Bound}\n---\n" +
		"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: disk}\nspec: {capacity: {storage: 1Gi}, accessModes: " +
		"[ReadWriteOnce], claimRef: {namespace: default, name: data}, " +
		"nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [" + zone + "]}]}]}}}\n---\n"
}

func TestPodsAreHeldByAZoneThatIsShiftedAway(t *testing.T) {
	nodes := nodeIn("a1", "a", "") + nodeIn("b1", "b", "") + nodeIn("c1", "c", "")
	pods := webPod("web-1", "a1", "") + webPod("web-2", "b1", "") + dbPod("db-1", "c1") + webPod("web-3", "", spread(over("zone", "")))
	files := map[string]string{"nodes.yaml": nodes, "pods.yaml": pods}
	shift := zonalshift.Mark{Domain: zonalshift.DomainOf("zone", "c"), Reason: "power failure"}
	all, _ := read(t, explain.Sources{Nodes: "nodes.yaml", Pods: "pods.yaml", GroupLabel: "group"}, files, "", shift)
	want := "default/web-3 waits for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no " +
		"node for one more (1 node: insufficient cpu); " +
		"ng-c gets no node: zone c is shifted away: power failure"
	if got := answersOf(all); got != want {
		t.Errorf("\ngot  %s\nwant %s", got, want)
	}
	if g := all[0].Domains[2].Groups[0]; !g.Blocked || g.Group != "ng-c" {
		t.Errorf("%+v", g)
	}
}

func TestClaimsThatAreNotListedAreLeftOut(t *testing.T) {
	nodes := nodeIn("a1", "a", "") + nodeIn("a2", "a", "") + nodeIn("b1", "b", "") + nodeIn("c1", "c", "spec: {unschedulable: true}\n")
	pods := webPod("web-1", "a1", "") + webPod("web-2", "b1", "") + webPod("web-3", "", spread(over("zone", ""))+
		", volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]")
	all, notes := read(t, explain.Sources{Nodes: "nodes.yaml", Pods: "pods.yaml", GroupLabel: "group"},
		map[string]string{"nodes.yaml": nodes, "pods.yaml": pods}, "")
	if len(all) != 1 || all[0].Binding[0] != "c" || !strings.HasSuffix(all[0].Answer, "(1 node: cordoned); a new node of ng-c would take it") {
		t.Errorf("got %+v", all)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "persistentvolumeclaims") {
		t.Errorf("notes %q", notes)
	}
}

// inJSON turns the objects of a list into items of a debugging snapshot.
func inJSON(t *testing.T, list string) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	for one := range strings.SplitSeq(strings.TrimSuffix(list, "---\n"), "---\n") {
		text, err := yaml.YAMLToJSON([]byte(one))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// snapshotOf is a debugging snapshot of a cluster whose zone c is cordoned, with groups in these zones.
func snapshotOf(t *testing.T, pending string, zones ...string) string {
	t.Helper()
	node := func(list, pods string) map[string]any {
		out := map[string]any{"Node": inJSON(t, list)[0]}
		if pods != "" {
			out["Pods"] = inJSON(t, pods)
		}
		return out
	}
	nodes := []any{
		node(nodeIn("a1", "a", ""), webPod("web-1", "a1", "")), node(nodeIn("a2", "a", ""), ""),
		node(nodeIn("b1", "b", ""), webPod("web-2", "b1", "")), node(nodeIn("c1", "c", "spec: {unschedulable: true}\n"), ""),
	}
	templates := map[string]any{}
	for _, zone := range zones {
		templates["ng-"+zone] = node(nodeIn("template", zone, ""), "")
	}
	text, err := json.Marshal(map[string]any{"NodeList": nodes, "TemplateNodes": templates,
		"UnscheduledPodsCanBeScheduled": inJSON(t, pending)})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A debugging snapshot has the pods that fit somewhere; a list adds the others.
func TestPendingPodsOfASnapshot(t *testing.T) {
	zoned := spread(over("zone", ""))
	text := snapshotOf(t, webPod("web-3", "", zoned), "a", "b", "c")
	// web-1 is on a node and web-3 in the snapshot already.
	pods := webPod("web-1", "", zoned) + webPod("web-3", "", zoned) + webPod("web-4", "", zoned)
	const want = " c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no node for one more " +
		"(1 node: cordoned); a new node of ng-c would take it"
	for _, tc := range []struct{ pods, want string }{{"", "default/web-3 waits for" + want},
		{"pods.yaml", "default/web-3 and 1 more wait for" + want}} {
		all, _ := read(t, explain.Sources{Snapshot: "snapshot.json", Pods: tc.pods},
			map[string]string{"snapshot.json": text, "pods.yaml": pods}, "")
		if got := answersOf(all); got != tc.want {
			t.Errorf("pods %q\ngot  %s\nwant %s", tc.pods, got, tc.want)
		}
	}
}

// A zone without a node is known from the template of its group.
func TestZonesThatCouldBeOpenedAreNamed(t *testing.T) {
	for _, tc := range []struct{ constraint, want string }{
		{over("zone", ""),
			"default/web-3 waits for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no node " +
				"for one more (1 node: cordoned); " +
				"a new node of ng-c would take it; d has no node; a new node of ng-d would take it"},
		{over("zone", ", minDomains: 4"),
			"default/web-3 waits for c: with maxSkew 1 of zone no other domain may take more: c has 0 matching pods and no node " +
				"for one more (1 node: cordoned); " +
				"a new node of ng-c would take it; d has no node; a new node of ng-d would take it"},
		{strings.Replace(over("zone", ", minDomains: 4"), "app: web", "app: none", 1), ""},
	} {
		text := snapshotOf(t, webPod("web-3", "", spread(tc.constraint)), "a", "b", "c", "d")
		all, _ := read(t, explain.Sources{Snapshot: "s"}, map[string]string{"s": text}, "")
		if got := answersOf(all); got != tc.want {
			t.Errorf("%s\ngot  %s\nwant %s", tc.constraint, got, tc.want)
		}
	}
}
