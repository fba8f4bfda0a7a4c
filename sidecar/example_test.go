package sidecar_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/sidecar"
)

// Nine nodes are needed and Cluster Autoscaler asks for all of them in one group. It is granted
// three, comes back for six, and then for three.
func Example() {
	ctx, clock := context.Background(), clocktesting.NewFakeClock(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC))
	cloud, err := fake.New(fake.Config{Groups: zones(0, 0, 0)}, clock)
	if err != nil {
		fmt.Println(err)
		return
	}
	front, err := sidecar.New(cloud, sidecar.Options{Journal: &memoryJournal{}, Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	for pods := podsOf("web", 9, 1); len(pods) > 0; {
		if err := front.Refresh(ctx); err != nil {
			fmt.Println(err)
			return
		}
		best, err := front.BestOptions(ctx, threeOptions(pods))
		if err != nil || len(best) == 0 {
			fmt.Println(best, err)
			return
		}
		before, _ := front.TargetSize(ctx, best[0])
		err = front.IncreaseSize(ctx, best[0], len(pods))
		now, _ := front.TargetSize(ctx, best[0])
		fmt.Printf("%s: %d of %d, error %v\n", best[0], now-before, len(pods), err)
		pods = pods[now-before:] // the others are on nodes to come
	}
	for _, id := range []string{"a", "b", "c"} {
		size, _ := cloud.TargetSize(ctx, id)
		fmt.Println(id, size)
	}
	// Output:
	// a: 3 of 9, error <nil>
	// b: 3 of 6, error <nil>
	// c: 3 of 3, error <nil>
	// a 3
	// b 3
	// c 3
}

// threeOptions are what Cluster Autoscaler asks the expander with: each of three groups could take
// the pods, one per node.
func threeOptions(pods []*v1.Pod) expander.Question {
	r := expander.Question{Pods: pods, Nodes: map[string]*v1.Node{}}
	var all []int
	for i := range pods {
		all = append(all, i)
	}
	for _, zone := range []string{"a", "b", "c"} {
		r.Nodes[zone] = machine(zone)
		r.Options = append(r.Options, expander.Offer{Group: zone, NodeCount: len(pods), Pods: all})
	}
	return r
}
