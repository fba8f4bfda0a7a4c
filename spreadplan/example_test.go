package spreadplan_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// Twelve pods with maxSkew 1, two of which fit on a node, and three empty zones.
func ExampleNew() {
	web := map[string]string{"app": "web"}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: web}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}}}},
		TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: web}}},
	}}
	kind, why := spreadplan.ReadKind(spreadplan.KeyOf(pod), pod)
	if why != "" {
		fmt.Println(why)
		return
	}
	kind.Count = 12
	request := &spreadplan.Request{Kinds: []*spreadplan.Kind{kind}}
	for _, zone := range []string{"a", "b", "c"} {
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"),
				v1.ResourcePods: resource.MustParse("110")}},
		}
		request.Members = append(request.Members, spreadplan.Member{
			Group: nodegroupset.Group{Name: "ng-" + zone, Max: 20},
			New: func() *spreadplan.Machine {
				return &spreadplan.Machine{Node: node, Free: podfit.Allocatable(node), Usable: true, Fresh: true}
			},
		})
	}
	plan, why := spreadplan.New(request)
	if why != "" {
		fmt.Println(why)
		return
	}
	fmt.Println(plan.Sizes, plan.Left)
	// Output: map[ng-a:2 ng-b:2 ng-c:2] 0
}
