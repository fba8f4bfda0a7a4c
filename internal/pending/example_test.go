package pending_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/pending"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// Zone b has no pod of the workload yet, and its node is cordoned.
func Example() {
	node := func(name, zone string, cordoned bool) *v1.Node {
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}, Spec: v1.NodeSpec{Unschedulable: cordoned},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}},
		}
	}
	web := metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{"app": "web"}}
	waiting := &v1.Pod{ObjectMeta: web, Spec: v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: web.Labels},
	}}}}
	running := &v1.Pod{ObjectMeta: web}
	cluster := &pending.Cluster{
		Nodes:   []topologyspread.Node{{Node: node("a1", "a", false), Pods: []*v1.Pod{running}}, {Node: node("b1", "b", true)}},
		Pending: []*v1.Pod{waiting},
	}
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	answers, err := pending.Spreads(checker, cluster)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answers[0].Answer)
	// Output:
	// default/web-1 waits for b: with maxSkew 1 of zone no other domain may take more: b has 0 matching pods and no node for one more (1 node: cordoned); no node group is there
}
