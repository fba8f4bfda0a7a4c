package linked

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// zonedNode is a node with two cores; without a zone it takes no part in a spread.
func zonedNode(zone string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("29"),
		}},
	}
}

// spreadPods are pods of one application that is spread over zones; none with a skew of 0.
func spreadPods(app string, n int, cpu string, skew, minDomains int32) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(app, "-", i), Labels: map[string]string{"app": app}}}
		pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
		if skew > 0 {
			pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: skew, MinDomains: &minDomains, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			}}
		}
		pods = append(pods, pod)
	}
	return pods
}

// A spreadWorld is groups that are named as their zones with a digit, and their nodes.
type spreadWorld struct {
	Spread[*testGroup]
	on map[int][]*v1.Pod // what the plan puts on each node
}

func newSpreadWorld(pods []*v1.Pod, groups ...*testGroup) *spreadWorld {
	w := &spreadWorld{on: map[int][]*v1.Pod{}}
	w.Pods, w.Members, w.Templates = pods, groups, map[string]Template{}
	for _, g := range groups {
		w.Templates[g.id] = (&testTemplate{node: zonedNode(g.id[:1])}).read()
		for i := range g.size {
			full := (&testTemplate{node: zonedNode(g.id[:1]), pods: spreadPods("web", 2, "1", 1, 1)}).read()
			full.Node.Name = fmt.Sprint(g.id, "-", i)
			w.Nodes = append(w.Nodes, full)
		}
	}
	w.Options = []Option{{Group: groups[0].id, Pods: pods}}
	w.Try = w.try
	return w
}

// try is a slow and obvious scheduler of pods that are spread over zones.
func (w *spreadWorld) try(added []string, pods []Placement) error {
	nodes := w.Nodes
	for _, group := range added {
		nodes = append(nodes[:len(nodes):len(nodes)], w.Templates[group])
	}
	for _, p := range pods {
		free := nodes[p.Node].Node.Status.Allocatable.Cpu().MilliValue() - nodes[p.Node].Requested[v1.ResourceCPU]
		for _, other := range append(w.on[p.Node], p.Pod) {
			free -= other.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
		if free < 0 {
			return fmt.Errorf("node %d is full", p.Node)
		}
		w.on[p.Node] = append(w.on[p.Node], p.Pod)
		if skewed := w.skewed(p.Pod, nodes); skewed != "" {
			return errors.New(skewed)
		}
	}
	return nil
}

// skewed says what is wrong with the spread of a pod that has just been put on a node, of which
// every zone counts only itself or more.
func (w *spreadWorld) skewed(pod *v1.Pod, nodes []Template) string {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		count := map[string]int{}
		mine := ""
		for i, node := range nodes {
			zone := node.Node.Labels[v1.LabelTopologyZone]
			count[zone] += 0
			for _, other := range append(node.Pods(), w.on[i]...) {
				if other.Labels["app"] == pod.Labels["app"] {
					count[zone]++
				}
				if other == pod {
					mine = zone
				}
			}
		}
		least := math.MaxInt
		for zone, n := range count {
			if zone == mine {
				n-- // the scheduler's minimum is that before the pod
			}
			least = min(least, n)
		}
		if len(count) < int(*c.MinDomains) {
			least = 0
		}
		if count[mine]-least > int(c.MaxSkew) {
			return fmt.Sprintf("pod %s is the %dth in zone %s, the least has %d", pod.Name, count[mine], mine, least)
		}
	}
	return ""
}

// pinnedTo has pods run in one zone only.
func pinnedTo(zone string, pods []*v1.Pod) []*v1.Pod {
	for _, pod := range pods {
		pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone}
	}
	return pods
}

func sizesOf(plan *SpreadPlan[*testGroup], why string) string {
	if why != "" {
		return why
	}
	var out []string
	for _, g := range plan.Growth {
		out = append(out, fmt.Sprintf("%s %d->%d", g.Group.id, g.Size, g.NewSize))
	}
	return fmt.Sprintf("%s for %d pods", strings.Join(out, ", "), len(plan.Pods))
}

func TestSpreadPlan(t *testing.T) {
	thirty := func() []*v1.Pod { return spreadPods("web", 30, "1", 1, 1) }
	three := func(size int) []*testGroup {
		return []*testGroup{sized("a", size, 20), sized("b", size, 20), sized("c", size, 20)}
	}
	// Groups on demand end in 0, those on spot in 1: two nodes on demand, then a fifth.
	bought := func() []*testGroup {
		return []*testGroup{sized("a0", 0, 20), sized("a1", 0, 20), sized("b0", 0, 20), sized("b1", 0, 20), sized("c0", 0, 20),
			sized("c1", 0, 20)}
	}
	declare := func(change func(*nodegroupset.Terms)) func(*spreadWorld) {
		return func(w *spreadWorld) {
			terms := &nodegroupset.Terms{Set: "workers", Policy: nodegroupset.Proportional, Portions: []nodegroupset.Portion{
				{Name: "on-demand", Groups: []string{"a0", "b0", "c0"}, Base: 2, Weight: 20},
				{Name: "spot", Groups: []string{"a1", "b1", "c1"}, Weight: 80},
			}}
			if change != nil {
				change(terms)
			}
			w.Declared = func(string) (*nodegroupset.Terms, []*testGroup) { return terms, w.Members }
		}
	}
	limited := func(w *spreadWorld, limits Limits) {
		w.Limits = func([]Sized[*testGroup], int64) (Limits, error) { return limits, nil }
	}
	for _, test := range []struct {
		name   string
		pods   []*v1.Pod
		groups []*testGroup
		change func(*spreadWorld)
		want   string
	}{
		{"a full node in each zone", thirty(), three(1), nil, "a 1->6, b 1->6, c 1->6 for 30 pods"},
		{"empty zones", thirty(), three(0), nil, "a 0->5, b 0->5, c 0->5 for 30 pods"},
		{"maxSkew 2", spreadPods("web", 30, "1", 2, 1), three(1), nil, "a 1->6, b 1->6, c 1->6 for 30 pods"},
		{"minDomains", spreadPods("web", 30, "1", 1, 3), three(0), nil, "a 0->5, b 0->5, c 0->5 for 30 pods"},
		{
			"the chosen group comes first", thirty(), three(1),
			func(w *spreadWorld) { w.Options = []Option{{"c", w.Pods[:1]}} }, "c 1->6, a 1->6, b 1->6 for 30 pods",
		},
		{
			"what the cluster may have", thirty(), three(1),
			func(w *spreadWorld) { limited(w, Limits{Room: 7}) }, "a 1->4, b 1->3, c 1->3 for 13 pods",
		},
		{
			"a quota of one zone", thirty(), three(1),
			func(w *spreadWorld) {
				limited(w, Limits{Room: math.MaxInt64, Quotas: []nodegroupset.Quota{{Groups: []string{"b"}, Units: []int64{2}, Limit: 5}}})
			}, "a 1->3, b 1->2, c 1->3 for 8 pods",
		},
		{
			"a quota of two zones", thirty(), three(1),
			func(w *spreadWorld) {
				limited(w, Limits{Room: math.MaxInt64, Quotas: []nodegroupset.Quota{{Groups: []string{"a", "b"}, Units: []int64{2, 2}, Limit: 12}}})
			}, "a 1->3, b 1->3, c 1->3 for 12 pods",
		},
		{
			"limits that nobody can read", thirty(), three(1), func(w *spreadWorld) {
				w.Limits = func([]Sized[*testGroup], int64) (Limits, error) { return Limits{}, errors.New("no quota can be read") }
			}, "no quota can be read",
		},
		{"no room at all", thirty(), three(1), func(w *spreadWorld) { limited(w, Limits{Room: -1}) }, "no new node would help"},
		{
			"a scheduler that thinks otherwise", thirty(), three(1),
			func(w *spreadWorld) { w.Try = func([]string, []Placement) error { return errors.New("a taint") } }, "a taint",
		},
		{
			"a policy chooses groups within zones, as in the scenario policy-spread", spreadPods("web", 24, "1", 1, 1), bought(), declare(nil),
			"a0 0->2, a1 0->2, b0 0->2, b1 0->2, c1 0->4 for 24 pods",
		},
		{
			"a policy, and a zone without spot", spreadPods("web", 24, "1", 1, 1), bought(),
			func(w *spreadWorld) { w.Members[5].max = 0; declare(nil)(w) }, "a0 0->1, a1 0->3, b0 0->1, b1 0->3, c0 0->4 for 24 pods",
		},
		{
			"a policy, and a member on trial", spreadPods("web", 24, "1", 1, 1), bought(),
			func(w *spreadWorld) {
				declare(nil)(w)
				w.Deadlines = NewDeadlines(w.Declared, func(string) string { return "" }, backoff.Options{}, NewJournal(clock.RealClock{}))
				w.Deadlines.trials["c1"] = trial{}
			}, "a0 0->1, a1 0->3, b0 0->2, b1 0->2, c0 0->3, c1 0->1 for 24 pods",
		},
		{
			"a policy that allows nothing where the spread needs it", spreadPods("web", 24, "1", 1, 1), bought(),
			func(w *spreadWorld) {
				w.Members[5].max = 0
				declare(func(terms *nodegroupset.Terms) { terms.Portions[0].Base, terms.Portions[0].Weight = 0, 0 })(w)
			}, "the policy of the set allows no more nodes where the topology spread needs some",
		},
		{
			"a policy that counts capacities", spreadPods("web", 24, "1", 1, 1), bought(),
			declare(func(terms *nodegroupset.Terms) { terms.Capacity = map[string]int64{"a0": 2, "a1": 4} }),
			"nodes of set workers have different capacities, which its policy counts",
		},
		{
			"a policy, and nodes that take more pods than others", spreadPods("web", 24, "1", 1, 1), bought(),
			func(w *spreadWorld) {
				declare(nil)(w)
				w.Templates["a1"].Node.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("4")
			}, "a set with a policy of its own has nodes that take more pods than others",
		},
		{
			"no spread", spreadPods("web", 30, "1", 0, 1), three(1), func(w *spreadWorld) {
				w.Options = []Option{{"a", w.Pods}, {"b", w.Pods}, {"c", w.Pods}}
			}, "all members take the same pods, and none has a topology spread",
		},
		{
			"pods that run in one zone only, beside others", append(pinnedTo("b", spreadPods("bound", 1, "2", 0, 1)),
				spreadPods("free", 9, "2", 0, 1)...), three(0),
			func(w *spreadWorld) {
				w.Options = []Option{{"a", w.Pods[1:]}, {"b", w.Pods}, {"c", w.Pods[1:]}}
			}, "a 0->4, b 0->3, c 0->3 for 10 pods",
		},
		{
			"volumes", thirty(), three(1), func(w *spreadWorld) {
				w.Pods[0].Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
			}, "volumes",
		},
		{
			"a ProvisioningRequest", thirty(), three(1), func(w *spreadWorld) {
				yes := true
				for _, pod := range w.Pods {
					pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ProvisioningRequest", Controller: &yes}}
				}
			}, "a ProvisioningRequest gets all of its nodes or none",
		},
		{"a zone that has come back lately", thirty(), three(1), func(w *spreadWorld) {
			w.Lag = func(group string) int64 { return map[string]int64{"a": 2}[group] }
		}, "a 1->6, b 1->6, c 1->6 for 30 pods"},
		{"no size of the chosen group", thirty(), []*testGroup{silent("a"), sized("b", 1, 9)}, nil, "the cloud is out"},
		{"no size of another", spreadPods("web", 28, "1", 1, 1), []*testGroup{sized("a", 0, 20), silent("b"), sized("c", 0, 20)}, nil,
			"a 0->7, c 0->7 for 28 pods"},
		{
			"pods that another set could run too are left to the expander", append(thirty(), spreadPods("api", 4, "2", 0, 1)...), three(1),
			func(w *spreadWorld) {
				w.Options = []Option{{"a", w.Pods[:1]}, {"b", w.Pods[30:]}, {"other", w.Pods[30:]}}
			}, "a 1->6, b 1->6, c 1->6 for 30 pods",
		},
		{
			"pods that only this set can run are planned too", append(thirty(), spreadPods("api", 3, "2", 0, 1)...), three(1),
			func(w *spreadWorld) { w.Options = []Option{{"a", w.Pods[:1]}, {"b", w.Pods[30:]}} }, "a 1->7, b 1->7, c 1->7 for 33 pods",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSpreadWorld(test.pods, test.groups...)
			if test.change != nil {
				test.change(w)
			}
			if got := sizesOf(w.Plan()); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// A plan is used for the split it was made for, as long as the groups are as large as then, and is
// written down.
func TestSpreadPlanIsUsedOnce(t *testing.T) {
	groups := []*testGroup{sized("a", 1, 20), sized("b", 1, 20), sized("c", 1, 20)}
	plan, why := newSpreadWorld(spreadPods("web", 30, "1", 1, 1), groups...).Plan()
	if why != "" {
		t.Fatal(why)
	}
	told := ""
	split := func(groups ...*testGroup) int {
		j, _ := newTestJournal()
		events := eventsOf(j)
		grown, err := ScaleUp[*testGroup]{Groups: groups, Asked: 1, Planned: plan}.Split(j)
		if err != nil {
			t.Fatal(err)
		}
		nodes := 0
		for _, g := range grown {
			nodes += g.NewSize - g.Size
		}
		told = <-events
		shown := j.remembers().status(j.clock.Now()).Splits[0]
		if planned := shown.Pods == 30 && shown.PodsLeft == 0; planned != (nodes == 15) {
			t.Errorf("%d nodes are shown as %+v", nodes, shown)
		}
		return nodes
	}
	if got := split(groups...); got != 15 {
		t.Errorf("%d nodes, want 15", got)
	}
	want := "Normal BalancedScaleUp 15 nodes for similar node groups: a 1->6, b 1->6, c 1->6; planned for 30 pods with their topology spread"
	if told != want {
		t.Errorf("event %q, want %q", told, want)
	}
	if got := split(groups[1], groups[0]); got != 1 {
		t.Errorf("another group is chosen: %d nodes, want 1", got)
	}
	groups[2].size = 2
	if got := split(groups...); got != 1 {
		t.Errorf("a group has grown since: %d nodes, want 1", got)
	}
}

// TestSpreadPlanKeepsAllBounds: in random worlds no maximum, quota or limit is exceeded, no new node
// stays empty, and every pod goes where it may.
func TestSpreadPlanKeepsAllBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var groups []*testGroup
		for _, zone := range []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "zones")] {
			for i := range rapid.IntRange(1, 2).Draw(t, "groups") {
				groups = append(groups, sized(fmt.Sprint(zone, i), rapid.IntRange(0, 2).Draw(t, "size"), rapid.IntRange(0, 12).Draw(t, "max")))
			}
		}
		skew := rapid.Int32Range(1, 3)
		pods := spreadPods("web", rapid.IntRange(1, 30).Draw(t, "web"), "1", skew.Draw(t, "skew"), rapid.Int32Range(1, 4).Draw(t, "minDomains"))
		pods = append(pods, spreadPods("api", rapid.IntRange(0, 8).Draw(t, "api"), "2", skew.Draw(t, "skew of api"), 1)...)
		pods = append(pods, spreadPods("plain", rapid.IntRange(0, 8).Draw(t, "plain"), "700m", 0, 1)...)
		w := newSpreadWorld(pods, groups...)
		limits := Limits{Room: rapid.Int64Range(0, 40).Draw(t, "room")}
		for range rapid.IntRange(0, 2).Draw(t, "quotas") {
			var q nodegroupset.Quota
			for _, g := range groups {
				if rapid.Bool().Draw(t, g.id) {
					q.Groups, q.Units = append(q.Groups, g.id), append(q.Units, rapid.Int64Range(1, 4).Draw(t, "units"))
				}
			}
			q.Limit = rapid.Int64Range(0, 60).Draw(t, "limit")
			limits.Quotas = append(limits.Quotas, q)
		}
		w.Limits = func([]Sized[*testGroup], int64) (Limits, error) { return limits, nil }
		if rapid.Bool().Draw(t, "declared") {
			terms := &nodegroupset.Terms{Set: "workers",
				Policy: rapid.SampledFrom([]nodegroupset.Policy{nodegroupset.Even, nodegroupset.Proportional, nodegroupset.Priority}).Draw(t, "policy")}
			for _, digit := range []string{"0", "1"} {
				p := nodegroupset.Portion{Name: digit, Weight: rapid.Int64Range(0, 3).Draw(t, "weight") + 1,
					Base: rapid.Int64Range(0, 4).Draw(t, "base")}
				for _, g := range groups {
					if g.id[1:] == digit {
						p.Groups = append(p.Groups, g.id)
					}
				}
				terms.Portions = append(terms.Portions, p)
			}
			w.Declared = func(string) (*nodegroupset.Terms, []*testGroup) { return terms, groups }
		}
		var added []string
		w.Try = func(names []string, placed []Placement) error {
			added = names
			if err := w.try(names, placed); err != nil {
				t.Fatal(err)
			}
			return nil
		}
		plan, why := w.Plan()
		if why != "" {
			return
		}
		for i := range added {
			if len(w.on[len(w.Nodes)+i]) == 0 {
				t.Fatalf("a new node of %s stays empty", added[i])
			}
		}
		more, total := map[string]int64{}, int64(0)
		for _, g := range plan.Growth {
			if g.NewSize > g.Group.max {
				t.Fatalf("%s grows to %d of %d", g.Group.id, g.NewSize, g.Group.max)
			}
			more[g.Group.id] = int64(g.NewSize - g.Size)
			total += more[g.Group.id]
		}
		if total != int64(len(added)) || total > limits.Room {
			t.Fatalf("%d nodes of %d, room for %d", total, len(added), limits.Room)
		}
		for _, q := range limits.Quotas {
			var takes, grows int64
			for i, name := range q.Groups {
				for _, g := range groups {
					if g.id == name {
						takes, grows = takes+q.Units[i]*(int64(g.size)+more[name]), grows+more[name]
					}
				}
			}
			if grows > 0 && takes > q.Limit {
				t.Fatalf("%d of a quota of %d", takes, q.Limit)
			}
		}
	})
}
