package spreadplan_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// kind are pods that are spread over zones with some maxSkew, or not with 0.
func kind(t *testing.T, app, cpu string, n int64, maxSkew int32) *spreadplan.Kind {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app, Labels: map[string]string{"app": app}}}
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
	if maxSkew > 0 {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: maxSkew, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}}}
	}
	k, why := spreadplan.ReadKind(spreadplan.KeyOf(pod), pod)
	if why != "" {
		t.Fatal(why)
	}
	k.Count = n
	return k
}

// fresh is a new node with two CPUs.
func fresh(zone string) *spreadplan.Machine {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"),
			v1.ResourcePods: resource.MustParse("9")}},
	}
	return &spreadplan.Machine{Node: node, Free: podfit.Allocatable(node), Usable: true, Fresh: true}
}

// member is a group of such nodes, which has none yet.
func member(zone string, most int64) spreadplan.Member {
	return spreadplan.Member{Group: nodegroupset.Group{Name: zone, Max: most}, New: func() *spreadplan.Machine { return fresh(zone) }}
}

// TestZonesThatOtherPodsOpenCount: ten spread pods alone would all go to one zone, as the fewest
// nodes do. Pods without a spread open the others, and hold the spread pods to their maxSkew.
func TestZonesThatOtherPodsOpenCount(t *testing.T) {
	web, plain := kind(t, "web", "1", 10, 1), kind(t, "plain", "2", 3, 0)
	request := &spreadplan.Request{Kinds: []*spreadplan.Kind{web, plain}}
	for _, zone := range []string{"a", "b", "c"} {
		request.Members = append(request.Members, member(zone, 20))
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

// TestZonesThatLeftPodsOpenCount: eleven pods fit best with zone a closed, four of them have no room then. A group of zone a
// would take them next, and hold all others to a maxSkew of three.
func TestZonesThatLeftPodsOpenCount(t *testing.T) {
	for _, test := range []struct {
		name    string
		members []spreadplan.Member
		others  []*spreadplan.Machine
		sizes   [2]int64 // of a and b
		left    int64
		none    bool
	}{
		{name: "the zone would be opened", members: []spreadplan.Member{member("a", 1), member("b", 4)}, sizes: [2]int64{1, 3}, left: 4},
		{name: "the zone cannot grow", members: []spreadplan.Member{member("a", 0), member("b", 4)}, sizes: [2]int64{0, 4}, left: 3},
		{name: "another set would open it", members: []spreadplan.Member{member("b", 4)}, others: []*spreadplan.Machine{fresh("a")}, none: true},
		{name: "another set is in the same zone", members: []spreadplan.Member{member("b", 4)}, others: []*spreadplan.Machine{fresh("b")},
			sizes: [2]int64{0, 4}, left: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, why := spreadplan.New(&spreadplan.Request{
				Kinds: []*spreadplan.Kind{kind(t, "web", "1", 11, 3)}, Members: test.members, Others: test.others})
			switch {
			case test.none:
				if why == "" {
					t.Errorf("sizes %v, want no plan", plan.Sizes)
				}
			case why != "":
				t.Error(why)
			case plan.Sizes["a"] != test.sizes[0] || plan.Sizes["b"] != test.sizes[1] || plan.Left != test.left:
				t.Errorf("sizes %v, %d pods left, want %v, %d left", plan.Sizes, plan.Left, test.sizes, test.left)
			}
		})
	}
}
