package fakecloud_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/fakecloud"
	"github.com/evenkeel/evenkeel/serving"
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

// serve runs a server for the cloud and returns a client of it.
func serve(t *testing.T, cloud *fake.Cloud, changed func()) cloudprovider.Provider {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	server, err := fakecloud.Listen(ctx, "127.0.0.1:0", cloud, changed, serving.Options{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Run(ctx) }()
	conn, err := serving.Dial(server.Address(), serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return externalgrpc.NewClient(conn)
}

// What is served keeps the contract of cloud providers.
func TestServedCloudConforms(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		a, b := group("a"), group("b")
		a.Size, b.Size = 2, 3
		cloud, err := fake.New(fake.Config{Groups: []fake.Group{a, b}}, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		return conformance.Harness{
			Provider:        serve(t, cloud, nil),
			RegisteredNodes: func(context.Context) ([]*v1.Node, error) { return cloud.RegisteredNodes(), nil },
		}
	})
}

// Calls that may change something are told, others are not, and no log of calls
// grows.
func TestChangesAreTold(t *testing.T) {
	a := group("a")
	a.Size = 1
	cloud, err := fake.New(fake.Config{
		Groups: []fake.Group{a},
		Calls:  []fake.CallFault{{Methods: []fake.Method{fake.MethodIncreaseSize}, Error: "lost", AfterEffect: true, First: 1}},
	}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan struct{}, 10)
	client, ctx := serve(t, cloud, func() { changes <- struct{}{} }), t.Context()
	for _, call := range []struct {
		name string
		do   func() error
		told int
	}{
		{"refresh", func() error { return client.Refresh(ctx) }, 0},
		{"groups", func() error { _, err := client.NodeGroups(ctx); return err }, 0},
		{"an increase that takes effect although it fails", func() error {
			if client.IncreaseSize(ctx, "a", 1) == nil {
				return fmt.Errorf("no error")
			}
			return nil
		}, 1},
		{"an increase", func() error { return client.IncreaseSize(ctx, "a", 1) }, 1},
		{"a deletion", func() error { return client.DeleteNodes(ctx, "a", cloud.RegisteredNodes()[:1]) }, 1},
		{"a size", func() error { _, err := client.TargetSize(ctx, "a"); return err }, 0},
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

func TestListenRefuses(t *testing.T) {
	cloud, err := fake.New(fake.Config{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fakecloud.Listen(t.Context(), "0.0.0.0:0", cloud, nil, serving.Options{}); err == nil {
		t.Error("it listens without TLS for everybody")
	}
}

func ExampleListen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{group("zone-a"), group("zone-b")}}, clock.RealClock{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := fakecloud.Listen(klog.NewContext(ctx, klog.Logger{}), "127.0.0.1:0", cloud, nil, serving.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	go func() { _ = server.Run(ctx) }()

	conn, err := serving.Dial(server.Address(), serving.Files{}, clock.RealClock{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	client := externalgrpc.NewClient(conn)
	if err := client.IncreaseSize(ctx, "zone-b", 3); err != nil {
		fmt.Println(err)
	}
	size, err := client.TargetSize(ctx, "zone-b")
	fmt.Println(size, err)
	// Output: 3 <nil>
}
