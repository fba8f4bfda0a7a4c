package scaleup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

func TestRoundLevelsWithinBoundsAndLimits(t *testing.T) {
	checker := newChecker(t)
	groups := func(g ...fake.Group) fake.Config { return fake.Config{Groups: g} }
	spread := func(pod *v1.Pod) {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}
	}
	tests := map[string]struct {
		config fake.Config
		opts   scaleup.Options
		pods   []*v1.Pod
		want   map[string]int
	}{
		"the proposal's example": {
			config: groups(zonal("a", 1, 10), zonal("b", 3, 10), zonal("c", 6, 10)),
			pods:   onePerNode("web", 14),
			want:   map[string]int{"a": 4, "b": 4, "c": 6},
		},
		"a need beyond the chosen group's own room": {
			config: groups(zonal("a", 0, 5), zonal("b", 0, 1), zonal("c", 0, 1)),
			pods:   onePerNode("web", 9),
			want:   map[string]int{"a": 5, "b": 1, "c": 1},
		},
		"exactly the room there is, in one round": {
			config: groups(zonal("a", 0, 3), zonal("b", 0, 3), zonal("c", 0, 3)),
			pods:   onePerNode("web", 9),
			want:   map[string]int{"a": 3, "b": 3, "c": 3},
		},
		"balancing off leaves the chosen group alone": {
			config: groups(zonal("a", 0, 10), zonal("b", 0, 10)),
			opts:   scaleup.Options{DisableBalancing: true},
			pods:   onePerNode("web", 6),
			want:   map[string]int{"a": 6, "b": 0},
		},
		"a pinned pod costs one node in its zone": {
			config: groups(zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20)),
			pods:   slices.Concat(onePerNode("pinned", 1, inZone("c")), onePerNode("free", 9)),
			want:   map[string]int{"a": 3, "b": 3, "c": 4},
		},
		"pods pinned to several zones": {
			config: groups(zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20)),
			pods:   slices.Concat(onePerNode("a", 5, inZone("a")), onePerNode("b", 1, inZone("b")), onePerNode("free", 3)),
			want:   map[string]int{"a": 5, "b": 2, "c": 2},
		},
		"max-nodes-total": {
			config: groups(zonal("a", 1, 20), zonal("b", 2, 20)),
			opts:   scaleup.Options{Limits: scaleup.Limits{MaxNodesTotal: 7}},
			pods:   onePerNode("web", 20),
			want:   map[string]int{"a": 4, "b": 3},
		},
		"cores-total counts cores": {
			config: groups(zonal("a", 0, 20), zonal("b", 0, 20)),
			opts:   scaleup.Options{Limits: scaleup.Limits{MaxCoresTotal: 5}},
			pods:   onePerNode("web", 20),
			want:   map[string]int{"a": 3, "b": 2},
		},
		"memory-total counts bytes": {
			config: groups(zonal("a", 0, 20), zonal("b", 0, 20)),
			opts:   scaleup.Options{Limits: scaleup.Limits{MaxMemoryTotal: 15 << 30}},
			pods:   onePerNode("web", 20),
			want:   map[string]int{"a": 2, "b": 1},
		},
		"max-nodes-per-scaleup": {
			config: groups(zonal("a", 0, 20), zonal("b", 0, 20)),
			opts:   scaleup.Options{Limits: scaleup.Limits{MaxNodesPerScaleUp: 3}},
			pods:   onePerNode("web", 20),
			want:   map[string]int{"a": 2, "b": 1},
		},
		"a quota per zone and one for all": {
			config: groups(zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20)),
			opts: scaleup.Options{Limits: scaleup.Limits{Quotas: []scaleup.Quota{
				{Name: "zone-a", Zones: []string{"a"}, Nodes: 1}, {Name: "all", Nodes: 8},
			}}},
			pods: onePerNode("web", 20),
			want: map[string]int{"a": 1, "b": 4, "c": 3},
		},
		"spread pods order what they need at once": {
			config: groups(zonal("a", 1, 20), zonal("b", 1, 20), zonal("c", 1, 20)),
			pods:   onePerNode("web", 9, spread),
			want:   map[string]int{"a": 3, "b": 3, "c": 3},
		},
		"spread goes where the pods may go, not where the group is small": {
			config: groups(zonal("a", 3, 3), zonal("b", 0, 9), zonal("c", 0, 9)),
			pods:   onePerNode("web", 9, spread),
			want:   map[string]int{"a": 3, "b": 3, "c": 3},
		},
		"an over-max group is left alone": {
			config: groups(zonal("a", 6, 3), zonal("b", 0, 9)),
			pods:   onePerNode("web", 8),
			want:   map[string]int{"a": 6, "b": 2},
		},
		"all or nothing is never split": {
			config: groups(
				fake.Group{ID: "a", MaxSize: 4, Template: machine("a", "1", "4Gi"), Options: &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}},
				fake.Group{ID: "b", MaxSize: 4, Template: machine("b", "1", "4Gi"), Options: &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}}),
			pods: onePerNode("web", 2),
			want: map[string]int{"a": 4, "b": 0},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, checker, test.config, test.opts)
			f.round(test.pods...)
			if diff := cmp.Diff(test.want, f.sizes()); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
			before := f.sizes()
			f.clock.Step(10 * time.Second)
			if again := f.round(test.pods...); again.Grew() > 0 && name != "max-nodes-per-scaleup" {
				t.Errorf("a second round ordered %d nodes more, sizes before it %v", again.Grew(), before)
			}
		})
	}
}

func TestQuotaDoesNotDependOnTheChosenGroup(t *testing.T) {
	checker := newChecker(t)
	limits := scaleup.Limits{Quotas: []scaleup.Quota{
		{Name: "a", Zones: []string{"a"}, Nodes: 5}, {Name: "b", Zones: []string{"b"}, Nodes: 1}, {Name: "c", Zones: []string{"c"}, Nodes: 1},
	}}
	for _, chosen := range []string{"a", "b", "c"} {
		// A group is chosen where a pod can only run there.
		pods := append(onePerNode("web", 8), onePerNode("pinned", 1, inZone(chosen))...)
		f := newFleet(t, checker, fake.Config{Groups: []fake.Group{zonal("a", 0, 9), zonal("b", 0, 9), zonal("c", 0, 9)}}, scaleup.Options{Limits: limits})
		f.round(pods...)
		if diff := cmp.Diff(map[string]int{"a": 5, "b": 1, "c": 1}, f.sizes()); diff != "" {
			t.Errorf("pinned to %s (-want +got):\n%s", chosen, diff)
		}
	}
}

func TestRefusedShareIsSplitAgainInTheSameRound(t *testing.T) {
	checker := newChecker(t)
	config := fake.Config{
		Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20)},
		Stocks: []fake.StockOut{{Scope: fake.Scope{Groups: []string{"b"}}}},
	}
	f := newFleet(t, checker, config, scaleup.Options{})
	r := f.round(onePerNode("web", 9)...)
	if diff := cmp.Diff(map[string]int{"a": 5, "b": 0, "c": 4}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	if o := groupOutcome(t, r, "b"); o.Outcome != scaleup.GroupRefused || !strings.Contains(o.Reason, "out of resources") {
		t.Errorf("b: %+v", o)
	}
	if r.Grew() != 9 || r.Decision.Unplaced != 0 {
		t.Errorf("grew by %d, %d unplaced", r.Grew(), r.Decision.Unplaced)
	}
	// The group stays backed off for five minutes, and its part goes elsewhere.
	f.clock.Step(5*time.Minute - time.Second)
	r = f.round(onePerNode("web", 12)...)
	if o := groupOutcome(t, r, "b"); o.Outcome != scaleup.GroupSkipped || !strings.Contains(o.Reason, "backed off for another 1s") {
		t.Errorf("b: %+v", o)
	}
	if calls := f.cloud.Calls(); !slices.ContainsFunc(calls, func(c fake.Call) bool { return c.Method == "IncreaseSize" && c.Group == "b" && c.Delta == 3 }) {
		t.Error("b was never asked")
	}
}

func TestNobodyTakesWhatEverybodyRefuses(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{
		Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20)},
		Stocks: []fake.StockOut{{}},
	}, scaleup.Options{})
	r := f.round(onePerNode("web", 4)...)
	if r.Grew() != 0 || r.Decision.Unplaced != 4 || len(r.Decision.Increases) != 0 {
		t.Errorf("grew %d, unplaced %d, increases %v", r.Grew(), r.Decision.Unplaced, r.Decision.Increases)
	}
	if o := r.Decision.Pods[0]; o.Outcome != scaleup.PodsNextRound || !strings.Contains(o.Reason, "no group could be resized: a: ") {
		t.Errorf("pods: %+v", o)
	}
}

func TestGrewAlthoughTheCallFailed(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{
		Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20)},
		Calls:  []fake.CallFault{{Methods: []fake.Method{fake.MethodIncreaseSize}, Groups: []string{"a"}, Error: "deadline exceeded", AfterEffect: true}},
	}, scaleup.Options{})
	r := f.round(onePerNode("web", 4)...)
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 2}, f.sizes()); diff != "" {
		t.Errorf("nodes were ordered twice (-want +got):\n%s", diff)
	}
	if r.Grew() != 4 {
		t.Errorf("grew %d", r.Grew())
	}
	if o := groupOutcome(t, r, "a"); o.Outcome != scaleup.GroupGrows || !strings.Contains(o.Reason, "grew although the cloud answered") {
		t.Errorf("a: %+v", o)
	}
}

// A bound is named where it had a say, and only there.
func TestWhatHeldAGroupIsToldTruly(t *testing.T) {
	checker := newChecker(t)
	spread := func(pod *v1.Pod) {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}
	}
	for name, test := range map[string]struct {
		groups []fake.Group
		limits scaleup.Limits
		pods   []*v1.Pod
		held   map[string]string
	}{
		"at the maximum by chance":     {[]fake.Group{zonal("a", 0, 1)}, scaleup.Limits{}, onePerNode("web", 1), map[string]string{"a": ""}},
		"level with one that had room": {[]fake.Group{zonal("a", 0, 3), zonal("b", 0, 20)}, scaleup.Limits{}, onePerNode("web", 6), map[string]string{"a": "", "b": ""}},
		"another became larger":        {[]fake.Group{zonal("a", 0, 3), zonal("b", 0, 20)}, scaleup.Limits{}, onePerNode("web", 8), map[string]string{"a": "held at its maximum of 3", "b": ""}},
		"pods are left over":           {[]fake.Group{zonal("a", 0, 3), zonal("b", 0, 3)}, scaleup.Limits{}, onePerNode("web", 8), map[string]string{"a": "held at its maximum of 3", "b": "held at its maximum of 3"}},
		"a quota just met":             {[]fake.Group{zonal("a", 0, 9), zonal("b", 0, 9)}, scaleup.Limits{Quotas: []scaleup.Quota{{Name: "q", Nodes: 4}}}, onePerNode("web", 4), map[string]string{"a": "", "b": ""}},
		"a quota that is short":        {[]fake.Group{zonal("a", 0, 9), zonal("b", 0, 9)}, scaleup.Limits{Quotas: []scaleup.Quota{{Name: "q", Nodes: 4}}}, onePerNode("web", 5), map[string]string{"a": "held by q", "b": "held by q"}},
		"spread pods wait for a zone":  {[]fake.Group{zonal("a", 1, 9), zonal("b", 1, 2)}, scaleup.Limits{}, onePerNode("web", 9, spread), map[string]string{"b": "held at its maximum of 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, checker, fake.Config{Groups: test.groups}, scaleup.Options{Limits: test.limits})
			r := f.round(test.pods...)
			for group, want := range test.held {
				reason := groupOutcome(t, r, group).Reason
				if want == "" && strings.Contains(reason, "held") || !strings.Contains(reason, want) {
					t.Errorf("%s: %q, want %q", group, reason, want)
				}
			}
		})
	}
}

func TestFailedInstancesAreTakenBack(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{
		Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20)},
		Stocks: []fake.StockOut{{Scope: fake.Scope{Groups: []string{"a"}}, Mode: fake.Fail}},
	}, scaleup.Options{})
	f.round(onePerNode("web", 4)...)
	f.clock.Step(10 * time.Second)
	r := f.round(onePerNode("web", 4)...)
	if len(r.Repairs) != 1 || r.Repairs[0].Group != "a" || r.Repairs[0].Nodes != 2 || r.Repairs[0].Err != nil {
		t.Errorf("repairs: %+v", r.Repairs)
	}
	if diff := cmp.Diff(map[string]int{"a": 0, "b": 4}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

func TestNodesThatNeverComeAreTakenBack(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{
		Groups: []fake.Group{{ID: "a", MaxSize: 9, Template: machine("a", "1", "4Gi"), BootTime: time.Hour}, zonal("b", 0, 9)},
	}, scaleup.Options{})
	pods := onePerNode("web", 4)
	f.round(pods...)
	f.clock.Step(10 * time.Second)
	f.round(pods...) // sees the instances for the first time
	f.clock.Step(cloudprovider.DefaultMaxNodeProvisionTime)
	r := f.round(pods...)
	if len(r.Repairs) != 1 || r.Repairs[0].Group != "a" || !strings.Contains(r.Repairs[0].Reason, "no node within 15m") {
		t.Errorf("repairs: %+v", r.Repairs)
	}
	if got := f.sizes()["a"]; got != 0 {
		t.Errorf("a keeps %d nodes that never came", got)
	}
}

func TestOrdersWithoutAnInstanceAreTakenBack(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{
		Groups: []fake.Group{zonal("a", 0, 9), zonal("b", 0, 9)},
		Stocks: []fake.StockOut{{Scope: fake.Scope{Groups: []string{"a"}}, Mode: fake.Silent}},
	}, scaleup.Options{})
	pods := onePerNode("web", 4)
	f.round(pods...)
	f.clock.Step(10 * time.Second)
	f.round(pods...) // misses the instances for the first time
	f.clock.Step(cloudprovider.DefaultMaxNodeProvisionTime - time.Second)
	if r := f.round(pods...); len(r.Repairs) != 0 {
		t.Errorf("given up too early: %+v", r.Repairs)
	}
	f.clock.Step(time.Second)
	r := f.round(pods...)
	if len(r.Repairs) != 1 || r.Repairs[0].Group != "a" || r.Repairs[0].Nodes != 2 || r.Repairs[0].Err != nil {
		t.Errorf("repairs: %+v", r.Repairs)
	}
	if diff := cmp.Diff(map[string]int{"a": 0, "b": 4}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

func TestPodsWithAPlaceOrderNothing(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{Groups: []fake.Group{{
		ID: "a", Size: 1, MaxSize: 9, Template: machine("a", "1", "4Gi"), BootTime: time.Minute,
	}}}, scaleup.Options{})
	pods := onePerNode("web", 3)
	first := f.round(pods...)
	if first.Grew() != 2 {
		t.Fatalf("grew %d, want 2: one node exists", first.Grew())
	}
	second := f.round(pods...)
	want := []scaleup.PodOutcome{
		{Example: "default/web-0", Count: 1, Outcome: scaleup.PodsFit, Reason: "fit on nodes that exist", Pods: []int{0}},
		{Example: "default/web-0", Count: 2, Outcome: scaleup.PodsAwaitNodes, Reason: "fit on nodes on their way in a", Pods: []int{1, 2}},
	}
	if diff := cmp.Diff(want, second.Decision.Pods, cmp.AllowUnexported(scaleup.PodOutcome{})); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if o := groupOutcome(t, second, "a"); o.Outcome != scaleup.GroupIdle {
		t.Errorf("a: %+v", o)
	}
}

func TestUnreadableGroupStopsNobody(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{
		Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20)},
		Calls:  []fake.CallFault{{Methods: []fake.Method{fake.MethodTargetSize}, Groups: []string{"a"}, Error: "throttled"}},
	}, scaleup.Options{})
	r := f.round(onePerNode("web", 4)...)
	if o := groupOutcome(t, r, "a"); o.Outcome != scaleup.GroupSkipped || !strings.Contains(o.Reason, "throttled") {
		t.Errorf("a: %+v", o)
	}
	if r.Grew() != 4 {
		t.Errorf("grew %d", r.Grew())
	}
}

func TestPodThatFitsNowhereIsExplained(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20)}}, scaleup.Options{})
	huge := onePerNode("huge", 2, func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("64")
	})
	r := f.round(huge...)
	want := "fit no node group: Insufficient cpu (wants 64, free 1 of 1 allocatable; 2 groups)"
	if o := r.Decision.Pods[0]; o.Outcome != scaleup.PodsUnhelped || o.Count != 2 || o.Reason != want {
		t.Errorf("pods: %+v, want reason %q", o, want)
	}
	if o := groupOutcome(t, r, "a"); o.Outcome != scaleup.GroupTakesNone || !strings.Contains(o.Reason, "Insufficient cpu") {
		t.Errorf("a: %+v", o)
	}
}

func TestCrossingLimitsAreReported(t *testing.T) {
	f := newFleet(t, newChecker(t), fake.Config{Groups: []fake.Group{zonal("a", 0, 9), zonal("b", 0, 9), zonal("c", 0, 9)}},
		scaleup.Options{Limits: scaleup.Limits{Quotas: []scaleup.Quota{
			{Name: "left", Groups: []string{"a", "b"}, Nodes: 4}, {Name: "right", Groups: []string{"b", "c"}, Nodes: 4},
		}}})
	r := f.round(onePerNode("web", 20)...)
	if len(r.Decision.Warnings) != 1 || !strings.Contains(r.Decision.Warnings[0], "left and right overlap in part") {
		t.Errorf("warnings: %q", r.Decision.Warnings)
	}
	if s := f.sizes(); s["a"]+s["b"] > 4 || s["b"]+s["c"] > 4 {
		t.Errorf("limits exceeded: %v", s)
	}
}

// TestWithoutAnExpanderLeastIsWasted: the zero value of the options chooses as Cluster Autoscaler
// does by default, not by name.
func TestWithoutAnExpanderLeastIsWasted(t *testing.T) {
	large := fake.Group{ID: "a", MaxSize: 20, Template: machine("a", "8", "32Gi")}
	f := newFleet(t, newChecker(t), fake.Config{Groups: []fake.Group{large, zonal("b", 0, 20)}}, scaleup.Options{})
	d := f.round(onePerNode("web", 1)...).Decision
	if d.Chosen != "b" || len(d.Trail) == 0 || d.Trail[0].Strategy != expander.Default {
		t.Errorf("chosen %q by %v, want b by %s", d.Chosen, d.Trail, expander.Default)
	}
}

func TestExpanderChoosesBetweenSets(t *testing.T) {
	chain, err := expander.New([]string{"least-nodes"}, expander.Config{})
	if err != nil {
		t.Fatal(err)
	}
	big := fake.Group{ID: "big", MaxSize: 9, Template: machine("a", "8", "32Gi")}
	f := newFleet(t, newChecker(t), fake.Config{Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), big}}, scaleup.Options{Expander: chain})
	r := f.round(onePerNode("web", 9)...)
	if r.Decision.Chosen != "big" || r.Grew() != 1 {
		t.Errorf("chose %s, grew %d: %v", r.Decision.Chosen, r.Grew(), f.sizes())
	}
	if o := groupOutcome(t, r, "a"); o.Outcome != scaleup.GroupNotChosen || !strings.Contains(o.Reason, "least-nodes") {
		t.Errorf("a: %+v", o)
	}
}

func TestTemplateComesFromARealNode(t *testing.T) {
	config := fake.Config{Groups: []fake.Group{zonal("a", 1, 9), zonal("b", 0, 9)}}
	f := newFleet(t, newChecker(t), config, scaleup.Options{StartupTaints: []string{"example.com/agent-not-ready"}})
	node := f.cloud.RegisteredNodes()[0]
	node.Spec.Taints = append(node.Spec.Taints,
		v1.Taint{Key: "example.com/agent-not-ready", Effect: v1.TaintEffectNoSchedule},
		v1.Taint{Key: "DeletionCandidateOfClusterAutoscaler", Effect: v1.TaintEffectPreferNoSchedule})
	isController := true
	daemon := onePerNode("agent", 1, func(pod *v1.Pod) {
		pod.Spec.NodeName = node.Name
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("10m")
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: &isController}}
	})
	work := onePerNode("work", 1, func(pod *v1.Pod) { pod.Spec.NodeName = node.Name })
	r := f.roundOn([]predicates.Node{{Node: node, Pods: append(daemon, work...)}}, onePerNode("web", 2)...)
	a := r.World.Groups[0]
	if a.TemplateFrom != "node "+node.Name {
		t.Errorf("template from %q", a.TemplateFrom)
	}
	if len(a.Template.Node.Spec.Taints) != 0 {
		t.Errorf("taints left: %v", a.Template.Node.Spec.Taints)
	}
	if host := a.Template.Node.Labels[v1.LabelHostname]; host == node.Name || host == "" {
		t.Errorf("hostname %q", host)
	}
	if len(a.Template.Pods) != 1 || a.Template.Pods[0].Name != "agent-0" || a.Template.Pods[0].Spec.NodeName != "" {
		t.Errorf("pods on the template: %v", a.Template.Pods)
	}
}

func TestEmptyGroupIsCompletedFromAPopulatedSibling(t *testing.T) {
	full := machine("a", "1", "4Gi")
	full.Node.Labels["example.com/pool"] = "blue"
	for _, list := range []v1.ResourceList{full.Node.Status.Capacity, full.Node.Status.Allocatable} {
		list["ephemeral-storage"] = resource.MustParse("100Gi")
		list["hugepages-1Gi"] = resource.MustParse("0")
	}
	differs := machine("c", "1", "4Gi")
	differs.Node.Labels["example.com/pool"] = "green"
	f := newFleet(t, newChecker(t), fake.Config{Groups: []fake.Group{
		{ID: "a", Size: 1, MaxSize: 9, Template: full}, zonal("b", 0, 9), {ID: "c", MaxSize: 9, Template: differs},
	}}, scaleup.Options{})
	r := f.round(onePerNode("web", 5)...)
	b, c := r.World.Groups[1], r.World.Groups[2]
	if want := "cloud, completed from a (ephemeral-storage, example.com/pool)"; b.TemplateFrom != want {
		t.Errorf("b: template from %q, want %q", b.TemplateFrom, want)
	}
	if c.TemplateFrom != "cloud" {
		t.Errorf("c carries another label, yet its template is from %q", c.TemplateFrom)
	}
	if diff := cmp.Diff(map[string]int{"a": 3, "b": 2, "c": 0}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

// What a pod looks at, what has a meaning and what two models would fill in
// differently is not guessed.
func TestTemplatesAreNotCompletedByAGuess(t *testing.T) {
	labelled := func(zone, key, value string) cloudprovider.Template {
		template := machine(zone, "1", "4Gi")
		template.Node.Labels[key] = value
		return template
	}
	withGPU := machine("a", "1", "4Gi")
	for _, list := range []v1.ResourceList{withGPU.Node.Status.Capacity, withGPU.Node.Status.Allocatable} {
		list["nvidia.com/gpu"] = resource.MustParse("1")
	}
	notBatch := func(pod *v1.Pod) {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "role", Operator: v1.NodeSelectorOpDoesNotExist}}}},
		}}}
	}
	batch := func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"role": "batch"} }
	for name, test := range map[string]struct {
		populated []cloudprovider.Template
		pods      []*v1.Pod
		from      string
		want      int // nodes of the empty group
	}{
		"pods that keep off the label":   {[]cloudprovider.Template{labelled("a", "role", "batch")}, onePerNode("web", 3, notBatch), "cloud", 3},
		"pods that ask for the label":    {[]cloudprovider.Template{labelled("a", "role", "batch")}, onePerNode("web", 9, batch), "cloud", 0},
		"a label with a meaning":         {[]cloudprovider.Template{labelled("a", "karpenter.sh/capacity-type", "spot")}, onePerNode("web", 1), "cloud", 0},
		"an extended resource":           {[]cloudprovider.Template{withGPU}, onePerNode("web", 1), "cloud", 0},
		"two models that would disagree": {[]cloudprovider.Template{labelled("a", "team", "x"), labelled("b", "team", "y")}, onePerNode("web", 2), "cloud, not completed: g0 and g1 differ in team", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var config fake.Config
			for i, template := range test.populated {
				config.Groups = append(config.Groups, fake.Group{ID: "g" + string(rune('0'+i)), Size: 1, MaxSize: 20, Template: template})
			}
			config.Groups = append(config.Groups, zonal("z", 0, 20))
			f := newFleet(t, newChecker(t), config, scaleup.Options{})
			r := f.round(test.pods...)
			if got := r.World.Groups[len(test.populated)].TemplateFrom; got != test.from {
				t.Errorf("template from %q, want %q", got, test.from)
			}
			if got := f.sizes()["z"]; got != test.want {
				t.Errorf("the empty group has %d nodes, want %d: %v", got, test.want, f.sizes())
			}
		})
	}
}

func TestInvalidLimitsAreRefused(t *testing.T) {
	checker := newChecker(t)
	cloud, err := fake.New(fake.Config{}, clocktesting.NewFakeClock(start))
	if err != nil {
		t.Fatal(err)
	}
	for want, limits := range map[string]scaleup.Limits{
		`maxNodesTotal: Invalid value: -1: must not be negative`:    {MaxNodesTotal: -1},
		`quotas[0].name: Invalid value: "": must be set and unique`: {Quotas: []scaleup.Quota{{Nodes: 1}}},
		`quotas[0].memory: Invalid value: -5: must not be negative`: {Quotas: []scaleup.Quota{{Name: "q", Memory: -5}}},
	} {
		if _, err := scaleup.New(cloud, checker, scaleup.Options{Limits: limits}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
