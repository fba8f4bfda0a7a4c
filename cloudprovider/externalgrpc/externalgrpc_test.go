package externalgrpc_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a provider on loopback until the test ends.
func serve(t testing.TB, provider cloudprovider.Provider) *grpc.ClientConn {
	t.Helper()
	return loopback.Serve(t, externalgrpc.NewServer(provider).Register)
}

// fleet has what the rules of conformance ask for.
func fleet() fake.Config {
	template := func(zone string) cloudprovider.Template {
		return cloudprovider.Template{Node: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
			Status: v1.NodeStatus{Capacity: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110"),
			}},
		}}
	}
	return fake.Config{
		Groups: []fake.Group{
			{ID: "a", MaxSize: 10, Size: 1, Template: template("a"), BootTime: 40 * time.Second, TerminationTime: 10 * time.Second,
				PricePerHour: 2 * cloudprovider.PriceUnit},
			{ID: "b", MaxSize: 10, Size: 2, Template: template("b"), ReadyDelay: 20 * time.Second,
				Options: &cloudprovider.GroupOptions{MaxNodeProvisionTime: time.Hour}},
			{ID: "over-full", MaxSize: 1, Size: 3, Template: template("b")},
			{ID: "starved", MaxSize: 5, Template: template("c")},
		},
		StockOuts: []v1alpha1.StockOut{{Groups: []string{"starved"}, Mode: v1alpha1.StockOutSilent}},
		PodPrices: fake.PodPrices{Core: cloudprovider.PriceUnit},
	}
}

func newCloud(t testing.TB) (*fake.Cloud, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
	cloud, err := fake.New(fleet(), clock)
	if err != nil {
		t.Fatal(err)
	}
	return cloud, clock
}

// TestServedFakeConforms: a provider loses none of its qualities on the wire.
func TestServedFakeConforms(t *testing.T) {
	for _, rule := range conformance.Rules() {
		cloud, clock := newCloud(t)
		result := rule.Check(t.Context(), conformance.Harness{
			Provider:        externalgrpc.NewClient(serve(t, cloud)),
			RegisteredNodes: func(context.Context) ([]*v1.Node, error) { return cloud.RegisteredNodes(), nil },
			WaitForNodes: func(context.Context) error {
				for at, ok := cloud.NextEvent(); ok; at, ok = cloud.NextEvent() {
					clock.SetTime(at)
				}
				return nil
			},
		})
		if result.Outcome != conformance.Passed {
			t.Errorf("%s: %s: %s", result.Rule, result.Outcome, result.Reason)
		}
	}
}

// TestServedTwice: a client can be served again, as a proxy does.
func TestServedTwice(t *testing.T) {
	cloud, _ := newCloud(t)
	client := externalgrpc.NewClient(serve(t, externalgrpc.NewClient(serve(t, cloud))))
	if err := client.IncreaseSize(t.Context(), "a", 3); err != nil {
		t.Fatal(err)
	}
	if size, err := client.TargetSize(t.Context(), "a"); err != nil || size != 4 {
		t.Errorf("target size %d, error %v", size, err)
	}
}

func ExampleClient() {
	ctx := context.Background()
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{fleet().Groups[0]}}, clocktesting.NewFakeClock(time.Unix(0, 0)))
	if err != nil {
		panic(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(externalgrpc.MaxMessage))
	externalgrpc.NewServer(cloud).Register(server)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	client := externalgrpc.NewClient(conn)
	err = client.IncreaseSize(ctx, "a", 100)
	fmt.Println(err, cloudprovider.Refused(err))
	// Output: external cloud provider: IncreaseSize: OutOfRange: node group "a": above the maximum size: 100 more than 1, maximum 10 true
}
