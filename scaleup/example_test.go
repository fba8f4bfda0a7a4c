package scaleup_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// The example of the proposal: groups of 1, 3 and 6 nodes, and pods for four
// more.
func Example() {
	ctx := context.Background()
	cloud, err := fake.New(fake.Config{
		Groups: []fake.Group{zonal("a", 1, 10), zonal("b", 3, 10), zonal("c", 6, 10)},
	}, clocktesting.NewFakeClock(start))
	if err != nil {
		panic(err)
	}
	checker, err := predicates.New(ctx, predicates.Options{})
	if err != nil {
		panic(err)
	}
	scaler, err := scaleup.New(cloud, checker, scaleup.Options{})
	if err != nil {
		panic(err)
	}

	cluster := scaleup.Cluster{Pending: onePerNode("web", 4)}
	running := onePerNode("running", 10)
	for i, node := range cloud.RegisteredNodes() {
		cluster.Nodes = append(cluster.Nodes, predicates.Node{Node: node, Pods: []*v1.Pod{running[i]}})
	}
	round, err := scaler.Round(ctx, start, cluster)
	if err != nil {
		panic(err)
	}
	for _, increase := range round.Decision.Increases {
		fmt.Printf("%s %d -> %d\n", increase.Group, increase.From, increase.To)
	}
	for _, group := range round.Decision.Groups {
		fmt.Printf("%s: %s, %s\n", group.Group, group.Outcome, group.Reason)
	}
	// Output:
	// a 1 -> 4
	// b 3 -> 4
	// a: Grows, chosen, levelled with b, c
	// b: Grows, similar to a, levelled with it
	// c: Partner, large enough beside a, b
}
