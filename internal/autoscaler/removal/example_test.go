package removal_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/predicates"
)

// Two empty nodes have not been needed for ten minutes, and one of their group must stay.
func ExampleMemory_Plan() {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	var options removal.Options
	w := &removal.World{Now: now, Groups: []removal.Group{{ID: "web", Min: 1, Target: 2, Settings: options.Settings()}}}
	for _, name := range []string{"web-1", "web-2"} {
		resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi")}
		w.Nodes = append(w.Nodes, removal.Node{Group: "web", UnneededSince: now.Add(-removal.DefaultUnneededTime),
			Node: predicates.Node{Node: &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Status:     v1.NodeStatus{Allocatable: resources, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
			}}})
	}
	decision, err := removal.Memory{}.Plan(w, checker, options)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(decision.Go), "goes")
	for _, node := range decision.Nodes {
		if node.Outcome != removal.NodeGoes {
			fmt.Println("the other stays:", node.Reason)
		}
	}
	// Output:
	// 1 goes
	// the other stays: its group goes to its minimum without it
}
