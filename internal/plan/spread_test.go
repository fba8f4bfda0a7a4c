package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/plan"
)

const web = "{metadata: {labels: {app: web}}, spec: {nodeName: %s}}"

// spreadDocument is a TopologySpread with the fields of a pod's spec, and nodes and pods as lists.
func spreadDocument(podSpec, nodes, pods string) string {
	return head + "TopologySpread\nspec:\n  pod: {metadata: {labels: {app: web}}, spec: {" + podSpec + "}}\n  nodes: [" + nodes +
		"]\n  pods: [" + pods + "]\n"
}

// constraint is a spread constraint over a key, with more fields.
func constraint(key, more string) string {
	return "topologySpreadConstraints: [{maxSkew: 1, topologyKey: " + key + ", labelSelector: {matchLabels: {app: web}}, " + more + "}]"
}

func TestTopologySpreadNamesEveryFilterThatRejects(t *testing.T) {
	const zoneHard = "whenUnsatisfiable: DoNotSchedule"
	node := func(name, labels, more string) string {
		return "{metadata: {name: " + name + ", labels: {" + labels + "}}, " + more + "}"
	}
	for _, tc := range []struct{ name, in, want string }{
		{"no constraint", spreadDocument("", node("a", "", ""), ""), `{"nodes":[{"name":"a","fits":true,"reasons":[]}]}`},
		{"no node", spreadDocument("", "", ""), `{"nodes":[]}`},
		{"cordon", spreadDocument("", node("a", "", "spec: {unschedulable: true}"), ""),
			`{"nodes":[{"name":"a","fits":false,"reasons":["NodeUnschedulable: node(s) were unschedulable"]}]}`},
		{"cordon that is tolerated", spreadDocument("tolerations: [{operator: Exists}]", node("a", "", "spec: {unschedulable: true}"), ""),
			`{"nodes":[{"name":"a","fits":true,"reasons":[]}]}`},
		{"another node's name", spreadDocument("nodeName: b", node("a", "", "")+", "+node("b", "", ""), ""),
			`{"nodes":[{"name":"a","fits":false,"reasons":["NodeName: node(s) didn't match the requested node name"]},{"name":"b","fits":true,"reasons":[]}]}`},
		{"node selector", spreadDocument("nodeSelector: {disk: ssd}", node("a", "disk: hdd", ""), ""),
			`{"nodes":[{"name":"a","fits":false,"reasons":["NodeAffinity: node(s) didn't match Pod's node affinity/selector"]}]}`},
		{"taints, of which PreferNoSchedule is none",
			spreadDocument("",
				node("a", "", "spec: {taints: [{key: soft, effect: PreferNoSchedule}, {key: gpu, value: big, effect: NoSchedule}]}")+", "+
					node("b", "", "spec: {taints: [{key: soft, effect: PreferNoSchedule}]}"), ""),
			`{"nodes":[{"name":"a","fits":false,"reasons":["TaintToleration: node(s) had untolerated taint(s) gpu=big:NoSchedule"]},{"name":"b","fits":true,"reasons":[]}]}`},
		{"requests, and the number of pods", spreadDocument("containers: [{name: x, resources: {requests: {cpu: 2, memory: 1Gi}}}]",
			node("a", "", "status: {allocatable: {cpu: 3, memory: 512Mi, pods: 1}}"),
			"{spec: {nodeName: a, containers: [{name: y, resources: {requests: {cpu: 1500m}}}]}}"),
			`{"nodes":[{"name":"a","fits":false,"reasons":["NodeResourcesFit: Insufficient cpu (wants 2, free 1500m of 3 allocatable)",` +
				`"NodeResourcesFit: Insufficient memory (wants 1Gi, free 512Mi of 512Mi allocatable)","NodeResourcesFit: Too many pods (node takes 1)"]}]}`},
		{"a pod that has finished takes nothing", spreadDocument("", node("a", "", "status: {allocatable: {pods: 1}}"),
			"{spec: {nodeName: a}, status: {phase: Succeeded}}, {status: {phase: Failed}}"), `{"nodes":[{"name":"a","fits":true,"reasons":[]}]}`},
		{"capacity where nothing is said to be allocatable", spreadDocument("containers: [{name: x, resources: {requests: {cpu: 2}}}]",
			node("a", "", "status: {capacity: {cpu: 1}}"), ""),
			`{"nodes":[{"name":"a","fits":false,"reasons":["NodeResourcesFit: Insufficient cpu (wants 2, free 1 of 1 allocatable)"]}]}`},
		{"a node that says nothing of resources", spreadDocument("containers: [{name: x, resources: {requests: {cpu: 2, nvidia.com/gpu: 8}}}]",
			node("a", "", ""), ""), `{"nodes":[{"name":"a","fits":true,"reasons":[]}]}`},
		{"a hard constraint", spreadDocument(constraint("zone", zoneHard), node("a", "zone: z1", "")+", "+node("b", "zone: z2", "")+", "+
			node("c", "", ""), fmt.Sprintf(web, "a")),
			`{"nodes":[{"name":"a","fits":false,"reasons":["PodTopologySpread: topologySpreadConstraints[0]: zone=z1 has 1 matching pod, the least of 2 domains has 0: the skew would be 2, maxSkew is 1"]},` +
				`{"name":"b","fits":true,"reasons":[]},{"name":"c","fits":false,"reasons":["PodTopologySpread: topologySpreadConstraints[0]: the node has no label zone"]}]}`},
		{"minDomains", spreadDocument(constraint("zone", zoneHard+", minDomains: 3"), node("a", "zone: z1", "")+", "+node("b", "zone: z2", ""),
			fmt.Sprintf(web+", "+web, "a", "b")),
			`{"nodes":[{"name":"a","fits":false,"reasons":["PodTopologySpread: topologySpreadConstraints[0]: zone=z1 has 1 matching pod, 2 domains, fewer than minDomains 3, so the least count is 0: the skew would be 2, maxSkew is 1"]},` +
				`{"name":"b","fits":false,"reasons":["PodTopologySpread: topologySpreadConstraints[0]: zone=z2 has 1 matching pod, 2 domains, fewer than minDomains 3, so the least count is 0: the skew would be 2, maxSkew is 1"]}]}`},
		{"the namespace default by default", spreadDocument(constraint("zone", zoneHard), node("a", "zone: z1", "")+", "+
			node("b", "zone: z2", ""), "{metadata: {namespace: default, labels: {app: web}}, spec: {nodeName: a}}"),
			`{"nodes":[{"name":"a","fits":false,"reasons":["PodTopologySpread: topologySpreadConstraints[0]: zone=z1 has 1 matching pod, the least of 2 domains has 0: the skew would be 2, maxSkew is 1"]},{"name":"b","fits":true,"reasons":[]}]}`},
		{"scores of the nodes that fit only", spreadDocument(constraint("zone", "whenUnsatisfiable: ScheduleAnyway"),
			node("a", "zone: z1", "")+", "+node("b", "zone: z2", "")+", "+node("c", "zone: z3", "spec: {unschedulable: true}")+", "+
				node("d", "", ""), fmt.Sprintf(web+", "+web+", "+web, "a", "a", "b")),
			`{"nodes":[{"name":"a","fits":true,"score":33,"reasons":[]},{"name":"b","fits":true,"score":100,"reasons":[]},` +
				`{"name":"c","fits":false,"reasons":["NodeUnschedulable: node(s) were unschedulable"]},{"name":"d","fits":true,"score":0,"reasons":[]}]}`},
		{"a node selector that contradicts itself",
			spreadDocument("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: ["+
				"{key: metadata.name, operator: In, values: [a]}, {key: metadata.name, operator: In, values: [b]}]}]}}}",
				node("a", "", "spec: {unschedulable: true}"), ""),
			`{"nodes":[{"name":"a","fits":false,"reasons":["NodeUnschedulable: node(s) were unschedulable","NodeAffinity: pod affinity terms conflict"]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := answer(t, tc.in); got != tc.want {
				t.Errorf("\ngot  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTopologySpreadRefusesWhatNoSchedulerCanRead(t *testing.T) {
	const at = "spec.pod.spec.topologySpreadConstraints[0]"
	one := func(fields string) string { return "topologySpreadConstraints: [{" + fields + "}]" }
	const nodes = "{metadata: {name: a}}"
	for _, tc := range []struct{ name, in, want string }{
		{"no pod", head + "TopologySpread\nspec: {nodes: []}", "spec.pod: Required value"},
		{"no nodes", head + "TopologySpread\nspec: {pod: {}}", "spec.nodes: Required value"},
		{"maxSkew 0", spreadDocument(one("maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule"), nodes, ""), at +
			".maxSkew: Invalid value: 0: must be at least 1"},
		{"no maxSkew", spreadDocument(one("topologyKey: zone, whenUnsatisfiable: DoNotSchedule"), nodes, ""), at + ".maxSkew: Invalid value: 0"},
		{"no topologyKey", spreadDocument(one("maxSkew: 1, whenUnsatisfiable: DoNotSchedule"), nodes, ""), at + ".topologyKey: Required value"},
		{"a topologyKey that is none", spreadDocument(one("maxSkew: 1, topologyKey: a b, whenUnsatisfiable: DoNotSchedule"), nodes, ""), at +
			".topologyKey: Invalid value"},
		{"no whenUnsatisfiable", spreadDocument(one("maxSkew: 1, topologyKey: zone"), nodes, ""), at + ".whenUnsatisfiable: Required value"},
		{"another whenUnsatisfiable", spreadDocument(one("maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never"), nodes, ""), at +
			`.whenUnsatisfiable: Unsupported value: "Never"`},
		{"minDomains 0", spreadDocument(constraint("zone", "whenUnsatisfiable: DoNotSchedule, minDomains: 0"), nodes, ""), at +
			".minDomains: Invalid value: 0"},
		{"minDomains of a soft constraint", spreadDocument(constraint("zone", "whenUnsatisfiable: ScheduleAnyway, minDomains: 2"), nodes, ""),
			at + ".minDomains: Invalid value: 2"},
		{"another policy", spreadDocument(constraint("zone", "whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Maybe"), nodes, ""), at +
			`.nodeTaintsPolicy: Unsupported value: "Maybe"`},
		{"another policy of affinity", spreadDocument(constraint("zone", "whenUnsatisfiable: DoNotSchedule, nodeAffinityPolicy: ''"), nodes, ""),
			at + ".nodeAffinityPolicy: Required value"},
		{"a selector without values",
			spreadDocument(one("maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: "+
				"{matchExpressions: [{key: app, operator: In}]}"), nodes, ""),
			at + ".labelSelector.matchExpressions[0].values: Required value"},
		{"a label key that is none", spreadDocument(constraint("zone", "whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [rev, a b]"), nodes,
			""), at + ".matchLabelKeys[1]: Invalid value"},
		{"a constraint twice",
			spreadDocument("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, "+
				"{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]", nodes, ""),
			`spec.pod.spec.topologySpreadConstraints[1]: Duplicate value: "{zone, DoNotSchedule}": has the topologyKey and whenUnsatisfiable of spec.pod.spec.topologySpreadConstraints[0]`},
		{"a node affinity without terms",
			spreadDocument("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}", nodes, ""),
			"spec.pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value"},
		{"a field that no node is picked by",
			spreadDocument("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
				"[{matchFields: [{key: name, operator: In, values: [a]}]}]}}}", nodes, ""),
			`spec.pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Unsupported value: "name"`},
		{"two names of nodes in one field",
			spreadDocument("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
				"[{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}]}}}", nodes, ""),
			"spec.pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values: Required value"},
		{"a node without a name", spreadDocument("", "{}", ""), "spec.nodes[0].metadata.name: Required value"},
		{"a node twice", spreadDocument("", nodes+", "+nodes, ""), `spec.nodes[1].metadata.name: Duplicate value: "a"`},
		{"a negative amount", spreadDocument("", "{metadata: {name: a}, status: {allocatable: {cpu: -1}}}", ""),
			"spec.nodes[0].status.allocatable[cpu]: Invalid value"},
		{"a pod on no node", spreadDocument("", nodes, "{}"), "spec.pods[0].spec.nodeName: Required value"},
		{"a pod on a node that is not there", spreadDocument("", nodes, "{spec: {nodeName: b}}"),
			`spec.pods[0].spec.nodeName: Invalid value: "b"`},
		{"another kind of object", spreadDocument("", "{kind: Pod, metadata: {name: a}}", ""), `spec.nodes[0].kind: Unsupported value: "Pod"`},
		{"a toleration without an operator that goes with it", spreadDocument("tolerations: [{value: x}]", nodes, ""),
			"spec.pod.spec.tolerations[0].key: Required value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs := plan.Validate(read(t, tc.in).Object)
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want) {
				t.Errorf("got %q, want %q alone", errs, tc.want)
			}
		})
	}
	_, err := document.Read("test", strings.NewReader(spreadDocument(one("maxSkew: one, topologyKey: zone"), nodes, "")), document.Options{})
	if err == nil || !strings.Contains(err.Error(), at+`.maxSkew: Invalid value: "one": must be an integer`) {
		t.Errorf("a wrong type: %v", err)
	}
}

// asScheduled answers a document by the scheduler's own framework: the filters of the document as
// the scheduler runs them, and the score of topology spread.
type asScheduled struct {
	framework.Framework
	ctx  context.Context
	seen *shown
}

type shown struct{ fwk.SharedLister }

func newAsScheduled(tb testing.TB) *asScheduled {
	tb.Helper()
	metrics.InitMetrics()
	configuration, err := latest.Default()
	if err != nil {
		tb.Fatal(err)
	}
	profile := &configuration.Profiles[0]
	enabled := func(plugins ...string) (set config.PluginSet) {
		for _, name := range plugins {
			set.Enabled = append(set.Enabled, config.Plugin{Name: name, Weight: 1})
		}
		return set
	}
	all := enabled(names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodeResourcesFit,
		names.PodTopologySpread)
	profile.Plugins = &config.Plugins{
		QueueSort: enabled(names.PrioritySort), Bind: enabled(names.DefaultBinder), PreFilter: enabled(names.NodeAffinity, names.NodeResourcesFit,
			names.PodTopologySpread),
		Filter: all, PreScore: enabled(names.PodTopologySpread), Score: enabled(names.PodTopologySpread),
	}
	s := &asScheduled{ctx: klog.NewContext(context.Background(), logr.Discard()), seen: &shown{}}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	s.Framework, err = frameworkruntime.NewFramework(ended, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithSnapshotSharedLister(s.seen),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(nil, 0)), frameworkruntime.WithLogger(logr.Discard()))
	if err != nil {
		tb.Fatal(err)
	}
	frameworkruntime.WaitForShutdown(s.Framework)
	return s
}

func (s *asScheduled) answer(d *v1alpha1.TopologySpread) (fits map[string]bool, scores map[string]int64, err error) {
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range d.Spec.Nodes {
		nodes = append(nodes, &d.Spec.Nodes[i])
	}
	for i := range d.Spec.Pods {
		if p := &d.Spec.Pods[i]; p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			pods = append(pods, p)
		}
	}
	s.seen.SharedLister = cache.NewSnapshot(pods, nodes)
	infos, err := s.seen.NodeInfos().List()
	if err != nil {
		return nil, nil, err
	}
	fits, scores = map[string]bool{}, map[string]int64{}
	state := framework.NewCycleState()
	result, status, _ := s.RunPreFilterPlugins(s.ctx, state, d.Spec.Pod)
	var passed []fwk.NodeInfo
	for _, n := range infos {
		name := n.Node().Name
		fits[name] = status.IsSuccess() && (result.AllNodes() || result.NodeNames.Has(name)) &&
			s.RunFilterPlugins(s.ctx, state, d.Spec.Pod, n).IsSuccess()
		if fits[name] {
			passed = append(passed, n)
		}
	}
	if !slices.ContainsFunc(d.Spec.Pod.Spec.TopologySpreadConstraints,
		func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.ScheduleAnyway }) {
		return fits, scores, nil
	}
	if status := s.RunPreScorePlugins(s.ctx, state, d.Spec.Pod, passed); !status.IsSuccess() {
		return nil, nil, status.AsError()
	}
	list, status := s.RunScorePlugins(s.ctx, state, d.Spec.Pod, passed)
	if !status.IsSuccess() {
		return nil, nil, status.AsError()
	}
	for _, n := range list {
		scores[n.Name] = n.TotalScore
	}
	return fits, scores, nil
}

func TestTopologySpreadAnswersAsTheSchedulerDecides(t *testing.T) {
	s := newAsScheduled(t)
	fitting, scored := 0, 0
	for seed := range uint64(2_000) {
		d := aSpread(rand.New(rand.NewPCG(seed, 3)))
		encoded, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		text, err := document.ToYAML(encoded)
		if err != nil {
			t.Fatal(err)
		}
		asked := read(t, string(text)).Object
		status, err := plan.Answer(asked)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		fits, scores, err := s.answer(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range status.(*v1alpha1.TopologySpreadStatus).Nodes {
			score, hasScore := scores[n.Name]
			if n.Fits != fits[n.Name] || n.Fits != (len(n.Reasons) == 0) || hasScore != (n.Score != nil) || hasScore && *n.Score != score {
				t.Fatalf("seed %d: %+v, want %t %d\n%s", seed, n, fits[n.Name], score, text)
			}
			if n.Fits {
				fitting++
			}
			if hasScore && 0 < score && score < 100 {
				scored++
			}
		}
	}
	if fitting < 500 || scored < 200 {
		t.Errorf("%d nodes fit and %d have a score between the ends: they say little", fitting, scored)
	}
}

// aSpread is a random question, of which most nodes fail few filters.
func aSpread(r *rand.Rand) *v1alpha1.TopologySpread {
	of := func(values ...string) string { return values[r.IntN(len(values))] }
	one := func(in int) bool { return r.IntN(in) == 0 }
	pod := func() v1.Pod {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: of("default", "default", "other"),
			Labels: map[string]string{"app": of("web", "web", "db"), "rev": of("1", "2")}}}
		p.Spec.Containers = []v1.Container{{Name: "main"}}
		if one(2) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(of("100m", "1", "2")),
				v1.ResourceMemory: resource.MustParse(of("1Gi", "100M"))}
		}
		if one(6) {
			p.Spec.InitContainers = []v1.Container{{Name: "init",
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(of("1", "3"))}}}}
			if one(2) {
				p.Spec.InitContainers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			}
		}
		if one(6) {
			p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("200m")}
		}
		if one(8) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}
		return p
	}
	d := &v1alpha1.TopologySpread{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindTopologySpread},
		Spec: v1alpha1.TopologySpreadSpec{Nodes: []v1.Node{}}}
	p := pod()
	for _, key := range []string{"zone", "rack"} {
		for _, action := range []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway} {
			if one(2) {
				continue
			}
			c := v1.TopologySpreadConstraint{MaxSkew: int32(1 + r.IntN(3)), TopologyKey: key, WhenUnsatisfiable: action,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
			if one(3) {
				c.NodeTaintsPolicy = ptr.To(v1.NodeInclusionPolicyHonor)
			}
			if one(3) {
				c.NodeAffinityPolicy = ptr.To(v1.NodeInclusionPolicyIgnore)
			}
			if one(3) {
				c.MatchLabelKeys = []string{"rev"}
			}
			if action == v1.DoNotSchedule && one(4) {
				c.MinDomains = ptr.To(int32(1 + r.IntN(4)))
			}
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		}
	}
	if one(4) {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	if one(3) {
		p.Spec.Tolerations = []v1.Toleration{{Key: of("dedicated", "", v1.TaintNodeUnschedulable), Operator: v1.TolerationOpExists}}
	}
	if one(15) {
		p.Spec.NodeName = "n1"
	}
	switch r.IntN(10) {
	case 0:
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a", "b"}}}}}}}}
	case 1:
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{of("n0", "n2")}}}}}}}}
	}
	d.Spec.Pod = &p
	for i := range 1 + r.IntN(6) {
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"disk": of("ssd", "ssd", "hdd")}}}
		if !one(10) {
			n.Labels["zone"] = of("a", "b", "c")
		}
		if !one(10) {
			n.Labels["rack"] = of("1", "2", "3", "4")
		}
		if one(6) {
			n.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "x", Effect: v1.TaintEffect(of("NoSchedule", "NoExecute", "PreferNoSchedule"))}}
		}
		n.Spec.Unschedulable = one(8)
		n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(of("2", "4", "8")),
			v1.ResourceMemory: resource.MustParse(of("2Gi", "8Gi")), v1.ResourcePods: resource.MustParse(of("3", "110"))}
		if one(3) {
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
		}
		for range r.IntN(4) {
			other := pod()
			other.Spec.NodeName = n.Name
			if one(8) {
				other.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
			}
			if one(8) {
				other.Status.Phase = v1.PodPhase(of(string(v1.PodSucceeded), string(v1.PodFailed), string(v1.PodRunning)))
			}
			d.Spec.Pods = append(d.Spec.Pods, other)
		}
		d.Spec.Nodes = append(d.Spec.Nodes, n)
	}
	return d
}

// Whatever the document, it is refused or answered: every node once, in order, with a reason where
// the pod does not fit, and a score of 0 to 100 at most where it does.
func FuzzTopologySpread(f *testing.F) {
	for seed := range uint64(20) {
		encoded, err := json.Marshal(aSpread(rand.New(rand.NewPCG(seed, 3))))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add([]byte(spreadDocument(constraint("zone", "whenUnsatisfiable: DoNotSchedule, minDomains: 3"),
		"{metadata: {name: a, labels: {zone: ''}}}", fmt.Sprintf(web, "a"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := document.Read("f", bytes.NewReader(data), document.Options{MaxSize: 1 << 16})
		if err != nil {
			return
		}
		for _, d := range docs {
			asked, ok := d.Object.(*v1alpha1.TopologySpread)
			if !ok || len(plan.Validate(asked)) > 0 {
				continue
			}
			status, err := plan.Answer(asked)
			if err != nil {
				t.Fatalf("valid, yet %v", err)
			}
			nodes := status.(*v1alpha1.TopologySpreadStatus).Nodes
			if len(nodes) != len(asked.Spec.Nodes) {
				t.Fatalf("%d nodes of %d", len(nodes), len(asked.Spec.Nodes))
			}
			for i, n := range nodes {
				if n.Name != asked.Spec.Nodes[i].Name || n.Fits != (len(n.Reasons) == 0) || n.Score != nil &&
					(!n.Fits || *n.Score < 0 || *n.Score > 100) {
					t.Fatalf("node %d: %+v", i, n)
				}
			}
		}
	})
}
