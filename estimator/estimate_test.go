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

func TestEstimate(t *testing.T) {
	checker := newChecker(t)
	a := inZone("a")
	daemon := podOf("daemon", 1000, gib)
	daemon.Spec.NodeName = "template-a"
	one := func(template predicates.Node, demands ...Demand) Request {
		return Request{Template: template, Demands: demands}
	}

	for _, test := range []struct {
		name    string
		cluster []predicates.Node
		request Request
		limit   int
		want    Estimation
	}{
		{
			name:    "no pods need no nodes",
			request: one(a), limit: 10,
			want: Estimation{0, []int{}},
		}, {
			name:    "four to a node",
			request: one(a, demand(podOf("p", 1000, gib), 10)), limit: NoLimit,
			want: Estimation{3, []int{10}},
		}, {
			name:    "the daemon set takes its share",
			request: one(inZone("a", daemon), demand(podOf("p", 1000, gib), 10)), limit: NoLimit,
			want: Estimation{4, []int{10}},
		}, {
			name:    "large ones first, small ones fill up",
			request: one(a, demand(podOf("small", 500, gib), 6), demand(podOf("large", 2500, gib), 2)), limit: NoLimit,
			want: Estimation{2, []int{6, 2}},
		}, {
			name:    "the limit",
			request: one(a, demand(podOf("p", 1000, gib), 10), demand(podOf("q", 100, gib), 9)), limit: 2,
			want: Estimation{2, []int{8, 0}},
		}, {
			name:    "no node may be opened",
			request: one(a, demand(podOf("p", 1000, gib), 10), demand(podOf("huge", 9000, gib), 1)), limit: 0,
			want: Estimation{0, []int{0, 0}},
		}, {
			name:    "a negative limit is none",
			request: one(a, demand(podOf("p", 1000, gib), 10)), limit: -3,
			want: Estimation{0, []int{0}},
		}, {
			name:    "too large for any node",
			request: one(a, demand(podOf("huge", 9000, gib), 3), demand(podOf("p", 1000, gib), 1)), limit: NoLimit,
			want: Estimation{1, []int{0, 1}},
		}, {
			name:    "one per host",
			request: one(a, demand(antiAffine(podOf("p", 100, gib), v1.LabelHostname), 5)), limit: NoLimit,
			want: Estimation{5, []int{5}},
		}, {
			name:    "one host port per host",
			request: one(a, demand(hostPort(podOf("p", 100, gib), 80), 3)), limit: NoLimit,
			want: Estimation{3, []int{3}},
		}, {
			name:    "one per zone",
			request: one(a, demand(antiAffine(podOf("p", 100, gib), v1.LabelTopologyZone), 5)), limit: NoLimit,
			want: Estimation{1, []int{1}},
		}, {
			name:    "spread over zones against a real node",
			cluster: []predicates.Node{{Node: realNode("real", "b")}},
			request: one(a, demand(spread(podOf("p", 1000, gib), v1.LabelTopologyZone, 2), 5)), limit: NoLimit,
			want: Estimation{1, []int{2}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := New(checker.Cluster(test.cluster)).Estimate(test.request, test.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, e); diff != "" {
				t.Error(diff)
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
	for name, request := range map[string]Request{
		"no node":        {},
		"no pod":         {Template: inZone("a"), Demands: []Demand{{Count: 1}}},
		"negative count": {Template: inZone("a"), Demands: []Demand{demand(pod, -1)}},
	} {
		if _, err := New(cluster).Estimate(request, 1); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEstimatorSharesWhatIsEqual(t *testing.T) {
	e := New(newChecker(t).Cluster(nil))
	p, q, hosts := podOf("p", 1000, gib), podOf("q", 3000, gib), spread(podOf("h", 1000, gib), v1.LabelHostname, 1)
	of := func(class string, pods ...*v1.Pod) Request {
		request := Request{Template: inZone("a"), Class: class}
		for _, pod := range pods {
			request.Demands = append(request.Demands, demand(pod, 10))
		}
		return request
	}
	for i, step := range []struct {
		request       Request
		limit         int
		nodes, packed int
	}{
		{of("s", p), 5, 3, 1},
		{of("s", p), 900, 3, 1}, // no bound shaped the answer
		{of("s", p), 3, 3, 1},
		{of("s", p), 2, 2, 1}, // cut to the bound
		{of("s", q, p), 2, 2, 2},
		{of("s", q, p), 1, 1, 2},
		{of("s", q, p), 3, 3, 3}, // more nodes than were tried: up to four now
		{of("s", q, p), 4, 4, 3},
		{of("s", q, p), 900, 10, 4},
		{of("s", p, q), 900, 10, 5}, // the order of equally large ones decides
		{of("t", p), 900, 3, 6},
		{of("", p), 900, 3, 7}, // nothing shared without a class
		{of("", p), 900, 3, 8},
		{of("s", hosts), 2, 2, 9},
		{of("s", hosts), 1, 1, 10}, // every host is a domain: nothing to cut
		{of("s", hosts), 1, 1, 10},
		{of("s", hosts), 900, 3, 11},
		{of("s", hosts), 3, 3, 11}, // no bound shaped the answer
	} {
		got, err := e.Estimate(step.request, step.limit)
		if err != nil {
			t.Fatal(err)
		}
		if got.NodeCount != step.nodes || e.packed != step.packed {
			t.Errorf("step %d: %d nodes, %d packed; want %d, %d", i, got.NodeCount, e.packed, step.nodes, step.packed)
		}
	}
}

// Estimate is an estimate without memory, which those of an Estimator must equal.
func Estimate(cluster *predicates.Cluster, r Request, limit int) (Estimation, error) {
	l, err := pack(cluster, r, max(limit, 0))
	return l.Estimation, err
}
