package fakecloud_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance/conformancetest"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/fakecloud"
)

// group is one of machines with 2 cores, one for each zone.
func group(zone string) fake.Group {
	return fake.Group{
		ID: zone, MaxSize: 10,
		Template: cloudprovider.Template{Node: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
			Status: v1.NodeStatus{Capacity: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("29"),
			}},
		}},
	}
}

// A watched cloud keeps the contract of cloud providers.
func TestWatchedCloudConforms(t *testing.T) {
	conformancetest.Run(t, func(t *testing.T) conformance.Harness {
		a, b := group("a"), group("b")
		a.Size, b.Size = 2, 3
		cloud, err := fake.New(fake.Config{Groups: []fake.Group{a, b}}, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		fakecloud.Watch(cloud, nil, klog.Logger{})
		return conformance.Harness{
			Provider:        cloud,
			RegisteredNodes: func(context.Context) ([]*v1.Node, error) { return cloud.RegisteredNodes(), nil },
		}
	})
}

// Calls that may change something are reported, others are not, and no log of calls grows.
func TestChangesAreTold(t *testing.T) {
	a := group("a")
	a.Size = 1
	cloud, err := fake.New(fake.Config{
		Groups: []fake.Group{a},
		Calls:  []v1alpha1.CallFault{{Methods: []string{fake.MethodIncreaseSize}, Error: "lost", AfterEffect: true, First: 1}},
	}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan struct{}, 10)
	fakecloud.Watch(cloud, func() { changes <- struct{}{} }, klog.Logger{})
	watched, ctx := cloud, t.Context()
	for _, call := range []struct {
		name string
		do   func() error
		told int
	}{
		{"refresh", func() error { return watched.Refresh(ctx) }, 0},
		{"groups", func() error { _, err := watched.NodeGroups(ctx); return err }, 0},
		{"an increase that takes effect although it fails", func() error {
			if watched.IncreaseSize(ctx, "a", 1) == nil {
				return fmt.Errorf("no error")
			}
			return nil
		}, 1},
		{"an increase", func() error { return watched.IncreaseSize(ctx, "a", 1) }, 1},
		{"a deletion", func() error { return watched.DeleteNodes(ctx, "a", cloud.RegisteredNodes()[:1]) }, 1},
		{"a size", func() error { _, err := watched.TargetSize(ctx, "a"); return err }, 0},
		{"a node", func() error { _, _, err := watched.NodeGroupForNode(ctx, cloud.RegisteredNodes()[0]); return err }, 0},
		{"instances", func() error { _, err := watched.Nodes(ctx, "a"); return err }, 0},
		{"a template", func() error { _, err := watched.Template(ctx, "a"); return err }, 0},
		{"options", func() error { return absent(watched.Options(ctx, "a", cloudprovider.GroupOptions{})) }, 0},
		{"a node's price", func() error {
			return absent(watched.NodePrice(ctx, cloud.RegisteredNodes()[0], time.Now(), time.Now()))
		}, 0},
		{"a pod's price", func() error { return absent(watched.PodPrice(ctx, &v1.Pod{}, time.Now(), time.Now())) }, 0},
		{"a decrease that is refused", func() error {
			if err := watched.DecreaseTargetSize(ctx, "a", -1); !errors.Is(err, cloudprovider.ErrInvalidDelta) {
				return fmt.Errorf("not refused: %w", err)
			}
			return nil
		}, 1},
		{"the end", func() error { return watched.Cleanup(ctx) }, 0},
	} {
		if err := call.do(); err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
		if got := len(changes); got != call.told {
			t.Errorf("%s: %d changes were told, want %d", call.name, got, call.told)
		}
		for len(changes) > 0 {
			<-changes
		}
		if calls := cloud.Calls(); len(calls) > 0 {
			t.Errorf("%s: the cloud still logs %v", call.name, calls)
		}
	}
}

// A change is logged as one, and a call that changes nothing is not.
func TestOnlyChangesAreLoggedAsChanges(t *testing.T) {
	a := group("a")
	a.Size = 1
	cloud, err := fake.New(fake.Config{
		Groups: []fake.Group{a},
		Calls:  []v1alpha1.CallFault{{Methods: []string{fake.MethodIncreaseSize}, Error: "lost", AfterEffect: true, First: 1}},
	}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	fakecloud.Watch(cloud, nil, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	watched, ctx := cloud, t.Context()
	for _, call := range []struct {
		do   func() error
		want string
	}{
		{func() error { return watched.IncreaseSize(ctx, "a", 1) },
			`"msg"="The size of a node group was changed" "group"="a" "delta"=1 "from"=1 "to"=2 "error"="fake cloud: IncreaseSize: cloud unavailable: lost"`},
		{func() error { return watched.IncreaseSize(ctx, "a", 8) },
			`"msg"="The size of a node group was changed" "group"="a" "delta"=8 "from"=2 "to"=10 "error"=""`},
		{func() error { return watched.IncreaseSize(ctx, "a", 1) },
			`"msg"="A call did not change the size of a node group" "group"="a" "delta"=1 "size"=10`},
		{func() error { return watched.DecreaseTargetSize(ctx, "a", -9) },
			`"msg"="A call did not change the size of a node group" "group"="a" "delta"=-9 "size"=10`},
		{func() error { return watched.DeleteNodes(ctx, "a", nil) }, ""},
	} {
		lines = nil
		err := call.do()
		if got := strings.Join(lines, "\n"); !strings.Contains(got, call.want) || call.want == "" && got != "" {
			t.Errorf("logged %q (%v), want %q", got, err, call.want)
		}
	}
}

// absent checks the answer of a cloud that does not offer what it was asked for.
func absent[T any](_ T, err error) error {
	if err == cloudprovider.ErrNotImplemented {
		return nil
	}
	return fmt.Errorf("not absent: %w", err)
}

func ExampleWatch() {
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{group("zone-a"), group("zone-b")}}, clock.RealClock{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fakecloud.Watch(cloud, func() { fmt.Println("changed") }, klog.Logger{})
	if err := cloud.IncreaseSize(context.Background(), "zone-b", 3); err != nil {
		fmt.Println(err)
	}
	size, err := cloud.TargetSize(context.Background(), "zone-b")
	fmt.Println(size, err)
	// Output:
	// changed
	// 3 <nil>
}
