package spreadplan_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// TestZonesThatOtherPodsOpenCount: ten spread pods alone would all go to one zone, as the fewest
// nodes do. Pods without a spread open the others, and hold the spread pods to their maxSkew.
func TestZonesThatOtherPodsOpenCount(t *testing.T) {
	kind := func(app, cpu string, n int64, spread bool) *spreadplan.Kind {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app, Labels: map[string]string{"app": app}}}
		pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
		if spread {
			pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}}}
		}
		k, why := spreadplan.ReadKind(spreadplan.KeyOf(pod), pod)
		if why != "" {
			t.Fatal(why)
		}
		k.Count = n
		return k
	}
	web, plain := kind("web", "1", 10, true), kind("plain", "2", 3, false)
	request := &spreadplan.Request{Kinds: []*spreadplan.Kind{web, plain}}
	for _, zone := range []string{"a", "b", "c"} {
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("9")}},
		}
		request.Members = append(request.Members, spreadplan.Member{
			Group: nodegroupset.Group{Name: zone, Max: 20},
			New: func() *spreadplan.Machine {
				return &spreadplan.Machine{Node: node, Free: spreadplan.Allocatable(node), Usable: true, Fresh: true}
			},
		})
	}
	plan, why := spreadplan.New(request)
	if why != "" {
		t.Fatal(why)
	}
	pods := map[string]int64{}
	for _, put := range plan.Put {
		if put.Kind == web {
			pods[plan.Added[put.Machine]] += put.Pods
		}
	}
	if most := max(pods["a"], pods["b"], pods["c"]); plan.Left > 0 || most > 4 || min(pods["a"], pods["b"], pods["c"]) < most-1 {
		t.Errorf("%v, sizes %v, %d pods left", pods, plan.Sizes, plan.Left)
	}
	if plan.Sizes["a"]+plan.Sizes["b"]+plan.Sizes["c"] > 9 {
		t.Errorf("sizes %v", plan.Sizes)
	}
	request.Kinds = request.Kinds[:1]
	if plan, why = spreadplan.New(request); why != "" || plan.Sizes["a"] != 2 || plan.Sizes["b"] != 2 || plan.Sizes["c"] != 2 {
		t.Errorf("alone: sizes %v, %s", plan.Sizes, why)
	}
}
