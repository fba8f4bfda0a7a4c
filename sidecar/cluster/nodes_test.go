package cluster

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/steering"
)

func TestReadinessIsThatOfClusterAutoscaler(t *testing.T) {
	r := newReadiness(&Options{
		StartupTaints: []string{"example.com/booting"}, StartupTaintPrefixes: []string{"wait.example.com/"}, GPULabel: "gpu",
	})
	tests := map[string]struct {
		node  *v1.Node
		ready bool
	}{
		"ready":                        {ready(), true},
		"tells nothing":                {&v1.Node{}, false},
		"not ready":                    {with(&v1.Node{}, condition(v1.NodeReady, v1.ConditionFalse)), false},
		"unknown":                      {with(&v1.Node{}, condition(v1.NodeReady, v1.ConditionUnknown)), false},
		"disk pressure":                {with(ready(), condition(v1.NodeDiskPressure, v1.ConditionTrue)), false},
		"no disk pressure":             {with(ready(), condition(v1.NodeDiskPressure, v1.ConditionFalse)), true},
		"no network":                   {with(ready(), condition(v1.NodeNetworkUnavailable, v1.ConditionTrue)), false},
		"memory pressure":              {with(ready(), condition(v1.NodeMemoryPressure, v1.ConditionTrue)), true},
		"suspended":                    {with(ready(), condition("Suspended", v1.ConditionTrue)), false},
		"taint not ready":              {with(ready(), taint(v1.TaintNodeNotReady)), false},
		"taint disk pressure":          {with(ready(), taint(v1.TaintNodeDiskPressure)), false},
		"taint no network":             {with(ready(), taint(v1.TaintNodeNetworkUnavailable)), false},
		"taint unreachable":            {with(ready(), taint(v1.TaintNodeUnreachable)), true},
		"taint uninitialized":          {with(ready(), taint("node.cloudprovider.kubernetes.io/uninitialized")), true},
		"taint of a deletion":          {with(ready(), taint("ToBeDeletedByClusterAutoscaler")), true},
		"cordoned":                     {with(ready(), cordoned), true},
		"startup taint":                {with(ready(), taint("startup-taint.cluster-autoscaler.kubernetes.io/x")), false},
		"ignore taint":                 {with(ready(), taint("ignore-taint.cluster-autoscaler.kubernetes.io/x")), false},
		"status taint":                 {with(ready(), taint("status-taint.cluster-autoscaler.kubernetes.io/x")), true},
		"own startup taint":            {with(ready(), taint("example.com/booting")), false},
		"own prefix":                   {with(ready(), taint("wait.example.com/disk")), false},
		"cordoned with startup taint":  {with(ready(), cordoned, taint("example.com/booting")), true},
		"GPU label without a GPU":      {with(ready(), label("gpu"), allocatable("cpu", "1"), allocatable("nvidia.com/gpu", "0")), false},
		"GPU label with a GPU":         {with(ready(), label("gpu"), allocatable("amd.com/gpu", "1")), true},
		"another label, without a GPU": {with(ready(), label("cpu")), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := r.state(test.node).Ready; got != test.ready {
				t.Errorf("ready: %v, want %v", got, test.ready)
			}
			if got := r.state(test.node).Lost; got != (name == "unknown") {
				t.Errorf("lost: %v", got)
			}
		})
	}
}

func TestNodesAreKnownWhileTheWatchWorks(t *testing.T) {
	clock := clocktesting.NewFakeClock(began)
	o := Options{Clock: clock}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	n := newNodes(fake.NewClientset(), &o)
	listed := false
	n.listed = func() bool { return listed }
	keep := func(change func(any) error, node *v1.Node) {
		t.Helper()
		object, err := n.kept(node)
		if err := errors.Join(err, change(object)); err != nil {
			t.Fatal(err)
		}
	}
	known := func(want ...string) {
		t.Helper()
		nodes, ok := n.List()
		var got []string
		for _, node := range nodes {
			got = append(got, node.Name)
		}
		slices.Sort(got)
		if !ok || !slices.Equal(got, want) {
			t.Errorf("known: %v %v, want %v", ok, got, want)
		}
	}
	unknown := func(why string) {
		t.Helper()
		if nodes, ok := n.List(); ok || nodes != nil {
			t.Errorf("known: %v", nodes)
		}
		if err := n.Problem(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v\nwant %s", err, why)
		}
	}
	unknown("have not been listed yet")
	n.asked("list", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no role")))
	unknown("nodes are not known: no right to list nodes: apply configs/sidecar/rbac or grant it")
	n.asked("list", nil)
	unknown("have not been listed yet")
	listed = true
	keep(n.store.Add, named("b"))
	keep(n.store.Add, named("a"))
	known("a", "b")
	keep(n.store.Add, named("aa"))
	keep(n.store.Delete, named("b"))
	keep(n.store.Update, named("a"))
	known("a", "aa")

	n.asked("watch", errLostLine)
	clock.Step(patience - time.Second)
	n.asked("watch", errLostLine)
	known("a", "aa")
	clock.Step(time.Second)
	unknown("nodes are not known: cannot watch nodes: the line went dead")
	n.asked("watch", nil)
	known("a", "aa")
	if err := n.store.Replace(nil, "2"); err != nil {
		t.Fatal(err)
	}
	known()
}

// What List returns is the caller's.
func TestNodesAreNotShared(t *testing.T) {
	o := Options{}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	n := newNodes(fake.NewClientset(), &o)
	n.listed = func() bool { return true }
	kept, err := n.kept(named("a"))
	if err := errors.Join(err, n.store.Add(kept)); err != nil {
		t.Fatal(err)
	}
	first, _ := n.List()
	first[0].Name = "changed"
	second, _ := n.List()
	want := []steering.NodeState{{Name: "a", ProviderID: "fake://a", Created: began, Ready: true}}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkNodes reports what 15,000 nodes of usual size cost: to keep, to list, and per heartbeat.
func BenchmarkNodes(b *testing.B) {
	const count = 15000
	o := Options{}
	if err := o.setDefaults(); err != nil {
		b.Fatal(err)
	}
	n := newNodes(fake.NewClientset(), &o)
	n.listed = func() bool { return true }
	keep := func(node *v1.Node) {
		kept, err := n.kept(node)
		if err := errors.Join(err, n.store.Update(kept)); err != nil {
			b.Fatal(err)
		}
	}
	before := heap()
	for i := range count {
		keep(usual(i))
	}
	n.List()
	kept := heap() - before
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n.List()
		}
		b.ReportMetric(float64(kept)/count, "B/node-kept")
	})
	beat := usual(7)
	b.Run("heartbeat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			keep(beat)
		}
	})
	runtime.KeepAlive(n)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// usual is a node with what a real one tells: labels, images, conditions.
func usual(i int) *v1.Node {
	n := named(fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256))
	for k := range 30 {
		label(fmt.Sprintf("example.com/label-%d", k))(n)
	}
	for k := range 50 {
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/image-%d@sha256:%064d", k,
			i)}})
	}
	return n
}

func ready() *v1.Node {
	n := &v1.Node{}
	condition(v1.NodeReady, v1.ConditionTrue)(n)
	return n
}

func named(name string) *v1.Node {
	n := ready()
	n.Name = name
	n.CreationTimestamp = metav1.NewTime(began)
	n.Spec.ProviderID = "fake://" + name
	return n
}

func with(n *v1.Node, changes ...func(*v1.Node)) *v1.Node {
	for _, change := range changes {
		change(n)
	}
	return n
}

func condition(kind v1.NodeConditionType, status v1.ConditionStatus) func(*v1.Node) {
	return func(n *v1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: kind, Status: status})
	}
}

func taint(key string) func(*v1.Node) {
	return func(n *v1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
	}
}

func label(key string) func(*v1.Node) {
	return func(n *v1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, "true") }
}

func allocatable(name v1.ResourceName, amount string) func(*v1.Node) {
	return func(n *v1.Node) {
		if n.Status.Allocatable == nil {
			n.Status.Allocatable = v1.ResourceList{}
		}
		n.Status.Allocatable[name] = resource.MustParse(amount)
	}
}

func cordoned(n *v1.Node) { n.Spec.Unschedulable = true }
