package fake_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// A group in a zone that is out of machines for the first minute: orders are
// taken, and fulfilled when machines are back.
func Example() {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: "zone-a"}},
		Status: v1.NodeStatus{Capacity: v1.ResourceList{
			v1.ResourceCPU:    resource.MustParse("4"),
			v1.ResourceMemory: resource.MustParse("16Gi"),
			v1.ResourcePods:   resource.MustParse("110"),
		}},
	}
	clock := clocktesting.NewFakeClock(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
	cloud, err := fake.New(fake.Config{
		Groups: []fake.Group{{
			ID: "pool", MaxSize: 5, Size: 1, BootTime: 30 * time.Second,
			Template: cloudprovider.Template{Node: node},
		}},
		StockOuts: []v1alpha1.StockOut{{
			Zones: []string{"zone-a"}, FaultWindow: during(0, time.Minute), Mode: v1alpha1.StockOutSilent,
		}},
	}, clock)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println("order 1:", cloud.IncreaseSize(ctx, "pool", 1))
	fmt.Println("order 9:", cloud.IncreaseSize(ctx, "pool", 9))
	for at, ok := clock.Now(), true; ok; at, ok = cloud.NextEvent() {
		clock.SetTime(at)
		target, _ := cloud.TargetSize(ctx, "pool")
		instances, _ := cloud.Nodes(ctx, "pool")
		fmt.Printf("%s target %d, %d instances, %d nodes\n", at.Format(time.TimeOnly), target, len(instances), len(cloud.RegisteredNodes()))
	}
	// Output:
	// order 1: <nil>
	// order 9: node group "pool": above the maximum size: 9 more than 2, maximum 5
	// 12:00:00 target 2, 1 instances, 1 nodes
	// 12:01:00 target 2, 2 instances, 1 nodes
	// 12:01:30 target 2, 2 instances, 2 nodes
}
