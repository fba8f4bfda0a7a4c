package topologyspread_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// Three zones with 1, 1 and 0 matching pods: the next pod goes to the third, and then to any.
func ExampleTable() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	var nodes []topologyspread.Node
	for _, zone := range []string{"a", "b", "c"} {
		nodes = append(nodes, topologyspread.Node{Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "node-" + zone, Labels: map[string]string{v1.LabelTopologyZone: zone},
		}}})
	}
	nodes[0].Pods, nodes[1].Pods = []*v1.Pod{pod}, []*v1.Pod{pod}
	table, err := topologyspread.NewTable(pod, nodes)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Fits(0), table.Fits(1), table.Fits(2))
	fmt.Println(table.Refusals(0)[0])
	table.Place(2)
	fmt.Println(table.Fits(0), table.Fits(1), table.Fits(2))
	// Output:
	// false false true
	// topologySpreadConstraints[0]: topology.kubernetes.io/zone=a has 1 matching pod, the least of 3 domains has 0: the skew would be 2, maxSkew is 1
	// true true true
}

// Thirty pods with maxSkew 1 in three zones with a node each: one plan instead of a node at a time.
func ExampleSplit() {
	zone := func(name string) topologyspread.SplitDomain {
		return topologyspread.SplitDomain{Name: name, MatchingPods: 2, Active: true}
	}
	plan, err := topologyspread.Split(topologyspread.SplitRequest{
		Pods: 30, MaxSkew: 1, PodsPerNode: 2,
		Domains: []topologyspread.SplitDomain{zone("a"), zone("b"), zone("c")},
		Groups: []topologyspread.SplitGroup{
			{Name: "ng-a", Domain: "a", Size: 1, Max: 20},
			{Name: "ng-b", Domain: "b", Size: 1, Max: 20},
			{Name: "ng-c", Domain: "c", Size: 1, Max: 4},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range plan.Groups {
		fmt.Printf("%s: %d nodes\n", g.Name, g.NewSize)
	}
	fmt.Println(plan.Unplaced, "pods unplaced; binding:", plan.Binding)
	// Output:
	// ng-a: 5 nodes
	// ng-b: 5 nodes
	// ng-c: 4 nodes
	// 10 pods unplaced; binding: [c]
}
