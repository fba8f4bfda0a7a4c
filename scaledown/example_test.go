package scaledown_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaledown"
	"github.com/evenkeel/evenkeel/scaleup"
)

// Groups of 4, 3 and 2 empty nodes, of which three may leave at one time: the
// larger groups come down to the smallest first.
func Example() {
	ctx := context.Background()
	clock := clocktesting.NewFakeClock(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC))
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{zonal("a", 4), zonal("b", 3), zonal("c", 2)}}, clock)
	if err != nil {
		panic(err)
	}
	checker, err := predicates.New(ctx, predicates.Options{})
	if err != nil {
		panic(err)
	}
	up, err := scaleup.New(cloud, checker, scaleup.Options{})
	if err != nil {
		panic(err)
	}
	down, err := scaledown.New(cloud, checker, scaledown.Options{MaxParallelism: 3})
	if err != nil {
		panic(err)
	}
	for range 2 {
		var cluster scaleup.Cluster
		for _, node := range cloud.RegisteredNodes() {
			cluster.Nodes = append(cluster.Nodes, predicates.Node{Node: node})
		}
		looked, err := up.Round(ctx, clock.Now(), cluster)
		if err != nil {
			panic(err)
		}
		round, err := down.Round(ctx, &looked)
		if err != nil {
			panic(err)
		}
		fmt.Println("at", clock.Now().Format(time.TimeOnly))
		for _, attempt := range round.Attempts {
			fmt.Println(attempt.Group, "loses", attempt.Shrank)
		}
		clock.Step(scaledown.DefaultUnneededTime)
	}
	// Output:
	// at 00:00:00
	// at 00:10:00
	// a loses 2
	// b loses 1
}

func zonal(id string, size int) fake.Group {
	capacity := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110")}
	return fake.Group{ID: id, MaxSize: 10, Size: size, Template: cloudprovider.Template{Node: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: "zone-" + id}},
		Status:     v1.NodeStatus{Capacity: capacity},
	}}}
}
