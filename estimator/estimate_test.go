package estimator

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

const gib = 1 << 30

// nodeOf is a template node with the same capacity and allocatable.
func nodeOf(milliCPU, memory int64) *v1.Node {
	resources := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template", Labels: map[string]string{v1.LabelHostname: "template"}},
		Status:     v1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}

func newChecker(t testing.TB) *predicates.Checker {
	t.Helper()
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

// podOf requests so much; its labels are its name, for selectors to find it.
func podOf(name string, milliCPU, memory int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name}},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
				v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
			}},
		}}},
	}
}

func selfSelector(pod *v1.Pod) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: pod.Labels}
}

func antiAffine(pod *v1.Pod, key string) *v1.Pod {
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selfSelector(pod)}},
	}}
	return pod
}

func affine(pod *v1.Pod, key string) *v1.Pod {
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selfSelector(pod)}},
	}}
	return pod
}

func spread(pod *v1.Pod, key string, skew int32) *v1.Pod {
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selfSelector(pod),
	}}
	return pod
}

func pinned(pod *v1.Pod, zone string) *v1.Pod {
	pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone}
	return pod
}

func hostPort(pod *v1.Pod, port int32) *v1.Pod {
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: port, ContainerPort: port, Protocol: v1.ProtocolTCP}}
	return pod
}

// inZone is a template of 4 cores and 16 GiB with the given pods on each node.
func inZone(zone string, daemons ...*v1.Pod) predicates.Node {
	node := nodeOf(4000, 16*gib)
	node.Name = "template-" + zone
	node.Labels = map[string]string{v1.LabelHostname: node.Name, v1.LabelTopologyZone: zone}
	return predicates.Node{Node: node, Pods: daemons}
}

func demand(pod *v1.Pod, n int) Demand { return Demand{Pod: pod, Count: n} }

// wanted is what an estimate came to: nodes per phase, and placed/reason per demand.
type wanted struct {
	nodes  []int
	placed [][]Placed
}

func outcome(e Estimation) wanted {
	var w wanted
	for _, phase := range e.Phases {
		w.nodes = append(w.nodes, phase.NodeCount)
		w.placed = append(w.placed, phase.Placed)
	}
	return w
}

func TestEstimate(t *testing.T) {
	checker := newChecker(t)
	a, b := inZone("a"), inZone("b")
	daemon := podOf("daemon", 1000, gib)
	daemon.Spec.NodeName = "template-a"
	one := func(template predicates.Node, demands ...Demand) []Phase {
		return []Phase{{Template: template, Demands: demands, MaxNodes: NoLimit}}
	}
	full := func(n int) Placed { return Placed{Count: n} }

	for _, test := range []struct {
		name    string
		cluster []predicates.Node
		phases  []Phase
		limit   int
		want    wanted
	}{
		{
			name:   "no pods need no nodes",
			phases: one(a), limit: 10,
			want: wanted{[]int{0}, [][]Placed{{}}},
		}, {
			name:   "four to a node",
			phases: one(a, demand(podOf("p", 1000, gib), 10)), limit: NoLimit,
			want: wanted{[]int{3}, [][]Placed{{full(10)}}},
		}, {
			name:   "the daemon set takes its share",
			phases: one(inZone("a", daemon), demand(podOf("p", 1000, gib), 10)), limit: NoLimit,
			want: wanted{[]int{4}, [][]Placed{{full(10)}}},
		}, {
			name:   "large ones first, small ones fill up",
			phases: one(a, demand(podOf("small", 500, gib), 6), demand(podOf("large", 2500, gib), 2)), limit: NoLimit,
			want: wanted{[]int{2}, [][]Placed{{full(6), full(2)}}},
		}, {
			name:   "the limit",
			phases: one(a, demand(podOf("p", 1000, gib), 10), demand(podOf("q", 100, gib), 9)), limit: 2,
			want: wanted{[]int{2}, [][]Placed{{{8, ReasonNodeLimit}, {0, ReasonNodeLimit}}}},
		}, {
			name:   "no node may be opened",
			phases: one(a, demand(podOf("p", 1000, gib), 10), demand(podOf("huge", 9000, gib), 1)), limit: 0,
			want: wanted{[]int{0}, [][]Placed{{{0, ReasonNodeLimit}, {0, ReasonDoesNotFit}}}},
		}, {
			name:   "a negative limit is none",
			phases: one(a, demand(podOf("p", 1000, gib), 10)), limit: -3,
			want: wanted{[]int{0}, [][]Placed{{{0, ReasonNodeLimit}}}},
		}, {
			name:   "too large for any node",
			phases: one(a, demand(podOf("huge", 9000, gib), 3), demand(podOf("p", 1000, gib), 1)), limit: NoLimit,
			want: wanted{[]int{1}, [][]Placed{{{0, ReasonDoesNotFit}, full(1)}}},
		}, {
			name:   "one per host",
			phases: one(a, demand(antiAffine(podOf("p", 100, gib), v1.LabelHostname), 5)), limit: NoLimit,
			want: wanted{[]int{5}, [][]Placed{{full(5)}}},
		}, {
			name:   "one host port per host",
			phases: one(a, demand(hostPort(podOf("p", 100, gib), 80), 3)), limit: NoLimit,
			want: wanted{[]int{3}, [][]Placed{{full(3)}}},
		}, {
			name:   "one per zone",
			phases: one(a, demand(antiAffine(podOf("p", 100, gib), v1.LabelTopologyZone), 5)), limit: NoLimit,
			want: wanted{[]int{1}, [][]Placed{{{1, ReasonHeldBack}}}},
		}, {
			name:    "spread over zones against a real node",
			cluster: []predicates.Node{{Node: realNode("real", "b")}},
			phases:  one(a, demand(spread(podOf("p", 1000, gib), v1.LabelTopologyZone, 2), 5)), limit: NoLimit,
			want: wanted{[]int{1}, [][]Placed{{{2, ReasonHeldBack}}}},
		}, {
			name: "free pods fill the nodes of pinned ones",
			phases: []Phase{
				{Template: a, Demands: []Demand{demand(pinned(podOf("bound", 2500, gib), "a"), 2)}, MaxNodes: NoLimit},
				{Template: b, Demands: []Demand{demand(podOf("free", 1000, gib), 6)}, Reuse: []int{0}, MaxNodes: NoLimit},
			}, limit: NoLimit,
			want: wanted{[]int{2, 1}, [][]Placed{{full(2)}, {full(6)}}},
		}, {
			name: "without reuse they do not",
			phases: []Phase{
				{Template: a, Demands: []Demand{demand(pinned(podOf("bound", 2500, gib), "a"), 2)}, MaxNodes: NoLimit},
				{Template: b, Demands: []Demand{demand(podOf("free", 1000, gib), 6)}, MaxNodes: NoLimit},
			}, limit: NoLimit,
			want: wanted{[]int{2, 2}, [][]Placed{{full(2)}, {full(6)}}},
		}, {
			name: "a spread goes back and forth between the zones",
			phases: []Phase{
				{Template: a, Demands: []Demand{demand(pinned(podOf("bound", 100, gib), "a"), 1)}, MaxNodes: NoLimit},
				{Template: b, Demands: []Demand{demand(spread(podOf("p", 1000, gib), v1.LabelTopologyZone, 1), 6)}, Reuse: []int{0}, MaxNodes: NoLimit},
			}, limit: NoLimit,
			want: wanted{[]int{1, 1}, [][]Placed{{full(1)}, {full(6)}}},
		}, {
			name: "bounds of the phases and of the whole",
			phases: []Phase{
				{Template: a, Demands: []Demand{demand(podOf("p", 4000, gib), 5)}, MaxNodes: 2},
				{Template: b, Demands: []Demand{demand(podOf("q", 4000, gib), 5)}, MaxNodes: NoLimit},
				{Template: a, Demands: []Demand{demand(podOf("r", 4000, gib), 1)}, MaxNodes: 0},
			}, limit: 6,
			want: wanted{[]int{2, 4, 0}, [][]Placed{{{2, ReasonNodeLimit}}, {{4, ReasonNodeLimit}}, {{0, ReasonNodeLimit}}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := Estimate(checker.Cluster(test.cluster), test.phases, test.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, outcome(e), cmp.AllowUnexported(wanted{})); diff != "" {
				t.Error(diff)
			}
			sum := 0
			for _, n := range test.want.nodes {
				sum += n
			}
			if e.NodeCount != sum {
				t.Errorf("NodeCount %d, want %d", e.NodeCount, sum)
			}
		})
	}
}

func realNode(name, zone string) *v1.Node {
	node := nodeOf(4000, 16*gib)
	node.Name = name
	node.Labels = map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: zone}
	return node
}

func TestEstimateRefuses(t *testing.T) {
	cluster := newChecker(t).Cluster(nil)
	pod := podOf("p", 1, 1)
	for name, phase := range map[string]Phase{
		"no node":         {},
		"no pod":          {Template: inZone("a"), Demands: []Demand{{Count: 1}}},
		"negative count":  {Template: inZone("a"), Demands: []Demand{demand(pod, -1)}},
		"itself":          {Template: inZone("a"), Reuse: []int{0}},
		"below the first": {Template: inZone("a"), Reuse: []int{-1}},
	} {
		if _, err := Estimate(cluster, []Phase{phase}, 1); !errors.Is(err, ErrInvalidPhase) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEstimatorSharesWhatIsEqual(t *testing.T) {
	e := New(newChecker(t).Cluster(nil))
	p, q, hosts := podOf("p", 1000, gib), podOf("q", 3000, gib), spread(podOf("h", 1000, gib), v1.LabelHostname, 1)
	phases := func(shape string, pods ...*v1.Pod) []Phase {
		phase := Phase{Template: inZone("a"), Shape: shape, MaxNodes: NoLimit}
		for _, pod := range pods {
			phase.Demands = append(phase.Demands, demand(pod, 10))
		}
		return []Phase{phase}
	}
	for i, step := range []struct {
		phases        []Phase
		limit         int
		nodes, packed int
	}{
		{phases("s", p), 5, 3, 1},
		{phases("s", p), 900, 3, 1}, // no bound shaped the answer
		{phases("s", p), 3, 3, 1},
		{phases("s", p), 2, 2, 1}, // cut to the bound
		{phases("s", q, p), 2, 2, 2},
		{phases("s", q, p), 1, 1, 2},
		{phases("s", q, p), 3, 3, 3}, // more nodes than were tried: up to four now
		{phases("s", q, p), 4, 4, 3},
		{phases("s", q, p), 900, 10, 4},
		{phases("s", p, q), 900, 10, 5}, // the order of equally large ones decides
		{phases("t", p), 900, 3, 6},
		{phases("", p), 900, 3, 7}, // nothing shared without a shape
		{phases("", p), 900, 3, 8},
		{phases("s", hosts), 2, 2, 9},
		{phases("s", hosts), 1, 1, 10}, // every host is a domain: nothing to cut
		{phases("s", hosts), 1, 1, 10},
		{phases("s", hosts), 900, 3, 11},
		{phases("s", hosts), 3, 3, 11}, // no bound shaped the answer
	} {
		got, err := e.Estimate(step.phases, step.limit)
		if err != nil {
			t.Fatal(err)
		}
		if got.NodeCount != step.nodes || e.packed != step.packed {
			t.Errorf("step %d: %d nodes, %d packed; want %d, %d", i, got.NodeCount, e.packed, step.nodes, step.packed)
		}
	}
}

// Estimate is an estimate without memory, which those of an Estimator must equal.
func Estimate(cluster *predicates.Cluster, phases []Phase, limit int) (Estimation, error) {
	if err := validate(phases); err != nil {
		return Estimation{}, err
	}
	l, err := pack(cluster, phases, limit)
	return l.Estimation, err
}
