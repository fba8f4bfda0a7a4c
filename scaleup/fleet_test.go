package scaleup_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is a cloud in memory, its clock, and a scaler on it.
type fleet struct {
	t      testing.TB
	clock  *clocktesting.FakeClock
	cloud  *fake.Cloud
	scaler *scaleup.Scaler
}

func newChecker(t testing.TB) *predicates.Checker {
	t.Helper()
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

func newFleet(t testing.TB, checker *predicates.Checker, config fake.Config, opts scaleup.Options) *fleet {
	t.Helper()
	clock := clocktesting.NewFakeClock(start)
	cloud, err := fake.New(config, clock)
	if err != nil {
		t.Fatal(err)
	}
	opts.NodeNames = cloud.NodeNames
	scaler, err := scaleup.New(cloud, checker, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t: t, clock: clock, cloud: cloud, scaler: scaler}
}

// round plays one round with these pending pods on the nodes registered now.
func (f *fleet) round(pods ...*v1.Pod) scaleup.Round {
	f.t.Helper()
	var nodes []predicates.Node
	for _, n := range f.cloud.RegisteredNodes() {
		nodes = append(nodes, predicates.Node{Node: n})
	}
	return f.roundOn(nodes, pods...)
}

// roundOn plays one round with given nodes.
func (f *fleet) roundOn(nodes []predicates.Node, pods ...*v1.Pod) scaleup.Round {
	f.t.Helper()
	r, err := f.scaler.Round(context.Background(), f.clock.Now(), scaleup.Cluster{Nodes: nodes, Pending: pods})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// sizes reads the target sizes from the cloud.
func (f *fleet) sizes() map[string]int {
	f.t.Helper()
	groups, err := f.cloud.NodeGroups(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, g := range groups {
		if sizes[g.ID], err = f.cloud.TargetSize(context.Background(), g.ID); err != nil {
			f.t.Fatal(err)
		}
	}
	return sizes
}

// zonal is a group of one-core nodes in the zone of its name.
func zonal(name string, size, maxSize int) fake.Group {
	return fake.Group{ID: name, Size: size, MaxSize: maxSize, Template: machine(name, "1", "4Gi")}
}

func machine(zone, cpu, memory string) cloudprovider.Template {
	resources := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory), v1.ResourcePods: resource.MustParse("110"),
	}
	return cloudprovider.Template{Node: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template", Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status:     v1.NodeStatus{Capacity: resources, Allocatable: resources},
	}}
}

// onePerNode makes pods that fill a one-core node each.
func onePerNode(name string, n int, change ...func(*v1.Pod)) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"app": name}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("800m")},
			}}}},
		}
		for _, c := range change {
			c(pods[i])
		}
	}
	return pods
}

// inZone pins a pod.
func inZone(zone string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone} }
}

func groupOutcome(t *testing.T, r scaleup.Round, name string) scaleup.GroupOutcome {
	t.Helper()
	for _, o := range r.Decision.Groups {
		if o.Group == name {
			return o
		}
	}
	t.Fatalf("nothing is said of group %s", name)
	return scaleup.GroupOutcome{}
}
