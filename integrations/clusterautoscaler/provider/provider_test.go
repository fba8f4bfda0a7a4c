package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler/provider"
)

var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// fleet is a cloud with two groups: a boots for a minute, b has options of its own and runs out of
// machines after the order.
func fleet(t *testing.T) (*fake.Cloud, *clocktesting.FakeClock) {
	t.Helper()
	group := func(id string, size int) fake.Group {
		return fake.Group{
			ID: id, MinSize: 1, MaxSize: 5, Size: size, PricePerHour: cloudprovider.PriceUnit / 2, BootTime: time.Minute,
			Template: cloudprovider.Template{
				Node: &v1.Node{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: id}},
					Status: v1.NodeStatus{Capacity: v1.ResourceList{
						v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("29"),
					}},
				},
				Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}},
			},
		}
	}
	b := group("b", 1)
	b.Options = &cloudprovider.GroupOptions{ScaleDownUnneededTime: 3 * time.Minute, ZeroOrMaxNodeScaling: true}
	now := clocktesting.NewFakeClock(start)
	cloud, err := fake.New(fake.Config{
		Groups:    []fake.Group{group("a", 2), b},
		StockOuts: []v1alpha1.StockOut{{Groups: []string{"b"}, Mode: v1alpha1.StockOutFail, FailAfter: &metav1.Duration{Duration: time.Second}}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return cloud, now
}

func shown(t *testing.T, cloud cloudprovider.Provider, o provider.Options) (*provider.Provider, map[string]ca.NodeGroup) {
	t.Helper()
	p, err := provider.New(cloud, o)
	if err != nil {
		t.Fatal(err)
	}
	return p, ca.NodeGroupListToMapById(p.NodeGroups())
}

func TestGroupsAreShown(t *testing.T) {
	cloud, _ := fleet(t)
	p, groups := shown(t, cloud, provider.Options{})
	var ids []string
	for _, g := range p.NodeGroups() {
		ids = append(ids, fmt.Sprintf("%s %d..%d exist %t autoprovisioned %t", g.Id(), g.MinSize(), g.MaxSize(), g.Exist(), g.Autoprovisioned()))
	}
	if diff := cmp.Diff([]string{"a 1..5 exist true autoprovisioned false", "b 1..5 exist true autoprovisioned false"}, ids); diff != "" {
		t.Error(diff)
	}
	if got := groups["a"].Debug(); !strings.HasPrefix(got, "a (1..5)") {
		t.Errorf("debug line %q", got)
	}
	if p.Name() != "evenkeel" {
		t.Errorf("name %q", p.Name())
	}
	list := p.NodeGroups()
	list[0] = nil
	if p.NodeGroups()[0] == nil {
		t.Error("the list is the provider's own")
	}
}

// A change of size shows at once, and what the contract refuses is refused.
func TestSizesChange(t *testing.T) {
	cloud, _ := fleet(t)
	_, groups := shown(t, cloud, provider.Options{})
	a := groups["a"]
	for _, step := range []struct {
		name string
		do   func() error
		size int
		err  error
	}{
		{"increase", func() error { return a.IncreaseSize(2) }, 4, nil},
		{"increase beyond the maximum", func() error { return a.IncreaseSize(2) }, 4, cloudprovider.ErrAboveMax},
		{"increase by nothing", func() error { return a.IncreaseSize(0) }, 4, cloudprovider.ErrInvalidDelta},
		{"decrease with the wrong sign", func() error { return a.DecreaseTargetSize(1) }, 4, cloudprovider.ErrInvalidDelta},
		{"decrease below the instances", func() error { return a.DecreaseTargetSize(-1) }, 4, cloudprovider.ErrInvalidDelta},
		{"atomic increase", func() error { return a.AtomicIncreaseSize(1) }, 4, ca.ErrNotImplemented},
		{"deletion by force", func() error { return a.ForceDeleteNodes(nil) }, 4, ca.ErrNotImplemented},
		{"deletion of another's node", func() error { return a.DeleteNodes(nodesOf(cloud, "b")) }, 4, cloudprovider.ErrNotInGroup},
		{"deletion", func() error { return a.DeleteNodes(nodesOf(cloud, "a")[:1]) }, 3, nil},
		{"deletion of a group", a.Delete, 3, ca.ErrNotImplemented},
		{"creation of a group", func() error { _, err := a.Create(); return err }, 3, ca.ErrNotImplemented},
	} {
		err := step.do()
		if !errors.Is(err, step.err) {
			t.Errorf("%s: error %v, want %v", step.name, err, step.err)
		}
		if size, err := a.TargetSize(); err != nil || size != step.size {
			t.Errorf("%s: size %d, %v; want %d", step.name, size, err, step.size)
		}
	}
}

func nodesOf(cloud *fake.Cloud, id string) []*v1.Node {
	return slices.DeleteFunc(cloud.RegisteredNodes(), func(n *v1.Node) bool { return n.Annotations[fake.GroupAnnotation] != id })
}

// Instances tell where they are in their life, and why they could not be created.
func TestInstancesAreShown(t *testing.T) {
	cloud, now := fleet(t)
	_, groups := shown(t, cloud, provider.Options{})
	if err := errors.Join(groups["a"].IncreaseSize(1), groups["b"].IncreaseSize(1)); err != nil {
		t.Fatal(err)
	}
	now.Step(2 * time.Second)
	var got []string
	for _, id := range []string{"a", "b"} {
		instances, err := groups[id].Nodes()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range instances {
			line := fmt.Sprintf("%s %d", i.Id, i.Status.State)
			if e := i.Status.ErrorInfo; e != nil {
				line += fmt.Sprintf(" %v %v", e.ErrorClass, e.ErrorCode != "" && e.ErrorMessage != "")
			}
			got = append(got, line)
		}
	}
	want := []string{"fake://a/a-0001 1", "fake://a/a-0002 1", "fake://a/a-0003 2", "fake://b/b-0001 1", "fake://b/b-0002 2 OutOfResource true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Nodes find their group, those too by which CA stands for an instance that has none.
func TestNodesFindTheirGroup(t *testing.T) {
	cloud, _ := fleet(t)
	p, groups := shown(t, cloud, provider.Options{})
	instances, err := groups["b"].Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		node *v1.Node
		want ca.NodeGroup
	}{
		"a node":              {nodesOf(cloud, "a")[0], groups["a"]},
		"a placeholder":       {cloudprovider.FakeNode(instances[0].Id, ca.FakeNodeUnregistered), groups["b"]},
		"somebody else's own": {&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1.NodeSpec{ProviderID: "other://x"}}, nil},
	} {
		got, err := p.NodeGroupForNode(test.node)
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
		if _, err := p.HasInstance(test.node); err != error(ca.ErrNotImplemented) {
			t.Errorf("%s: HasInstance answers %v", name, err)
		}
	}
	if err := groups["b"].DeleteNodes([]*v1.Node{cloudprovider.FakeNode(instances[0].Id, ca.FakeNodeUnregistered)}); !errors.Is(err, cloudprovider.ErrBelowMin) {
		t.Errorf("deletion of a placeholder at the minimum: %v", err)
	}
}

func TestTemplatesAreShown(t *testing.T) {
	cloud, _ := fleet(t)
	_, groups := shown(t, cloud, provider.Options{})
	info, err := groups["b"].TemplateNodeInfo()
	if err != nil {
		t.Fatal(err)
	}
	if zone := info.Node().Labels[v1.LabelTopologyZone]; zone != "b" || len(info.Pods()) != 1 || info.Pods()[0].Name != "agent" {
		t.Errorf("zone %q, pods %v", zone, info.Pods())
	}
	if cpu := info.Node().Status.Allocatable[v1.ResourceCPU]; cpu.String() != "2" {
		t.Errorf("allocatable cpu %s", cpu.String())
	}
}

func TestOptionsAreShown(t *testing.T) {
	cloud, _ := fleet(t)
	_, groups := shown(t, cloud, provider.Options{})
	defaults := config.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold: 0.5, ScaleDownGpuUtilizationThreshold: 0.6, ScaleDownUnneededTime: time.Minute, ScaleDownUnreadyTime: 2 * time.Minute,
		MaxNodeProvisionTime: 4 * time.Minute, MaxNodeStartupTime: 5 * time.Minute,
	}
	if got, err := groups["a"].GetOptions(defaults); got != nil || err != error(ca.ErrNotImplemented) {
		t.Errorf("no options are shown as %v, %v", got, err)
	}
	want := defaults
	want.ScaleDownUnneededTime, want.ZeroOrMaxNodeScaling = 3*time.Minute, true
	got, err := groups["b"].GetOptions(defaults)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
}

func TestPricesAreShown(t *testing.T) {
	cloud, _ := fleet(t)
	p, _ := shown(t, cloud, provider.Options{})
	prices, err := p.Pricing()
	if err != nil {
		t.Fatal(err)
	}
	if price, err := prices.NodePrice(nodesOf(cloud, "a")[0], start, start.Add(3*time.Hour)); err != nil || price != 1.5 {
		t.Errorf("three hours at a half cost %v, %v", price, err)
	}
	if _, err := prices.PodPrice(&v1.Pod{}, start, start.Add(time.Hour)); err != error(ca.ErrNotImplemented) {
		t.Errorf("pods have a price: %v", err)
	}
	p, _ = shown(t, unpriced{cloud}, provider.Options{})
	if prices, err := p.Pricing(); prices != nil || err != ca.ErrNotImplemented {
		t.Errorf("a cloud without prices has %v, %v", prices, err)
	}
}

// unpriced hides what a cloud can besides the contract.
type unpriced struct{ cloudprovider.Provider }

func TestWhatTheContractLacks(t *testing.T) {
	cloud, _ := fleet(t)
	limits := ca.NewResourceLimiter(nil, map[string]int64{"cpu": 8})
	p, _ := shown(t, cloud, provider.Options{Name: "x", Limits: limits, GPULabel: "gpu"})
	if got, err := p.GetResourceLimiter(); got != limits || err != nil || p.Name() != "x" {
		t.Errorf("limits %v, %v of %q", got, err, p.Name())
	}
	if _, err := p.GetAvailableMachineTypes(); err != error(ca.ErrNotImplemented) {
		t.Errorf("machine types: %v", err)
	}
	if _, err := p.NewNodeGroup("m", nil, nil, nil, nil); err != error(ca.ErrNotImplemented) {
		t.Errorf("new node group: %v", err)
	}
	labelled := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"gpu": "t4"}}}
	if got := p.GetNodeGpuConfig(labelled); got == nil || got.Type != "t4" || p.GPULabel() != "gpu" || p.GetAvailableGPUTypes() != nil {
		t.Errorf("gpu %v", got)
	}
	if got := p.GetNodeGpuConfig(&v1.Node{}); got != nil {
		t.Errorf("gpu %v of a node without", got)
	}
	p, _ = shown(t, cloud, provider.Options{})
	if limits, err := p.GetResourceLimiter(); limits == nil || err != nil {
		t.Errorf("limits %v, %v", limits, err)
	}
	if err := p.Cleanup(); err != nil {
		t.Error(err)
	}
}

// After a refresh that failed, the groups are those of the one before.
func TestGroupsOutliveAFailedRefresh(t *testing.T) {
	now := clocktesting.NewFakeClock(start)
	cloud, err := fake.New(fake.Config{
		Groups: []fake.Group{{ID: "a", MaxSize: 3, Template: cloudprovider.Template{Node: &v1.Node{Status: v1.NodeStatus{Capacity: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("29"),
		}}}}}},
		Calls: []v1alpha1.CallFault{{Methods: []string{fake.MethodNodeGroups, fake.MethodTemplate}, FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: time.Hour}}, Error: "away"}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	p, groups := shown(t, cloud, provider.Options{})
	now.Step(time.Hour)
	if err := p.Refresh(); !errors.Is(err, cloudprovider.ErrUnavailable) {
		t.Errorf("refresh: %v", err)
	}
	if got := p.NodeGroups(); len(got) != 1 || got[0] != groups["a"] {
		t.Errorf("groups %v", got)
	}
	if _, err := groups["a"].TemplateNodeInfo(); !errors.Is(err, cloudprovider.ErrUnavailable) {
		t.Errorf("template: %v", err)
	}
	if _, err := provider.New(cloud, provider.Options{}); err == nil {
		t.Error("a cloud that cannot be read is shown")
	}
}

func ExampleNew() {
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{{ID: "zone-a", MaxSize: 3, Template: cloudprovider.Template{Node: &v1.Node{
		Status: v1.NodeStatus{Capacity: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("29"),
		}},
	}}}}}, clock.RealClock{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := provider.New(cloud, provider.Options{Name: "in-memory"})
	if err != nil {
		fmt.Println(err)
		return
	}
	group := p.NodeGroups()[0]
	if err := group.IncreaseSize(2); err != nil {
		fmt.Println(err)
	}
	size, err := cloud.TargetSize(context.Background(), group.Id())
	fmt.Println(group.Id(), size, err)
	// Output: zone-a 2 <nil>
}
