package predicates_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

func node(name, cpu string) predicates.Node {
	return predicates.Node{Node: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourcePods: resource.MustParse("110"),
		}},
	}}
}

func pod(name, cpu string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
	}
}

func ExampleChecker_Fits() {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	templates := []predicates.Node{node("small", "2"), node("large", "16")}
	pods := []*v1.Pod{pod("web-0", "1"), pod("web-1", "1"), pod("batch", "8")}
	fit, err := checker.Fits(nil, templates, pods)
	if err != nil {
		fmt.Println(err)
		return
	}
	for k, kind := range fit.Kinds() {
		for t, template := range templates {
			fmt.Println(kind.Pod.Name, kind.Pods, template.Node.Name, fit.Passes(t, k), fit.Reasons(t, k))
		}
	}
	// Output:
	// web-0 [0 1] small true []
	// web-0 [0 1] large true []
	// batch [2] small false [NodeResourcesFit: Insufficient cpu (wants 8, free 2 of 2 allocatable)]
	// batch [2] large true []
}

func ExampleCluster_PlaceOnNew() {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster := checker.Cluster([]predicates.Node{node("a", "4"), node("b", "4")})
	whatIf := cluster.Fork()
	onOld, err := whatIf.Place(pod("web", "1"), 1_000, 0, whatIf.Len())
	if err != nil {
		fmt.Println(err)
		return
	}
	onNew, err := whatIf.PlaceOnNew(node("template", "4"), pod("web", "1"), 990, 1_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n%+v\n%d nodes, %d before\n", onOld, onNew, whatIf.Len(), cluster.Len())
	// Output:
	// [{First:0 Nodes:2 PerNode:4}]
	// [{First:2 Nodes:247 PerNode:4} {First:249 Nodes:1 PerNode:2}]
	// 250 nodes, 2 before
}
