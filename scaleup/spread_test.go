package scaleup_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// spreadZone is a zone with a group of nodes that are full: so many of the workload's pods, and
// others.
type spreadZone struct {
	name      string
	size, max int
	pods      int
}

// spreadWorld has nodes for so many pods of a workload each.
type spreadWorld struct {
	zones   []spreadZone
	perNode int
	pods    []*v1.Pod
}

func (w *spreadWorld) play(t testing.TB, checker *predicates.Checker, o scaleup.Options) (rounds []scaleup.Round, sizes map[string]int, pending int) {
	t.Helper()
	var config fake.Config
	for _, z := range w.zones {
		config.Groups = append(config.Groups, fake.Group{ID: z.name, Size: z.size, MaxSize: z.max, BootTime: time.Minute, Template: machine(z.name, fmt.Sprint(w.perNode), "64Gi")})
	}
	o.SequentialResize = true
	f := newFleet(t, checker, config, o)
	on := map[string][]*v1.Pod{}
	for _, z := range w.zones {
		var names []string
		for _, n := range f.cloud.RegisteredNodes() {
			if n.Labels[v1.LabelTopologyZone] == z.name {
				names = append(names, n.Name)
			}
		}
		slots := z.size * w.perNode
		for i := range slots {
			kind := "other"
			if i < z.pods {
				kind = "web"
			}
			pod := onePerNode(kind, 1, asking("1"))[0]
			pod.Name = fmt.Sprintf("%s-on-%s-%d", kind, z.name, i)
			name := names[i%len(names)]
			on[name] = append(on[name], pod)
		}
	}
	pods, scheduler := w.pods, checker.Scheduler()
	for {
		var ready, all []predicates.Node
		for _, n := range f.cloud.RegisteredNodes() {
			node := predicates.Node{Node: n, Pods: on[n.Name]}
			all = append(all, node)
			if template.IsReady(n) {
				ready = append(ready, node)
			}
		}
		places, err := scheduler.Bind(ready, nil, pods)
		if err != nil {
			t.Fatal(err)
		}
		var left []*v1.Pod
		for i, at := range places {
			if at < 0 {
				left = append(left, pods[i])
				continue
			}
			name := ready[at].Node.Name
			on[name] = append(slices.Clone(on[name]), pods[i])
		}
		for i := range all {
			all[i].Pods = on[all[i].Node.Name]
		}
		pods = left
		for {
			r := f.roundOn(all, pods...)
			if len(rounds) == 0 || r.Grew() > 0 {
				rounds = append(rounds, r)
			}
			if r.Grew() == 0 {
				break
			}
		}
		next, more := f.cloud.NextEvent()
		if !more {
			return rounds, f.sizes(), len(pods)
		}
		f.clock.SetTime(next)
	}
}

// What Cluster Autoscaler does with pods that are spread over zones, and what the plan for all zones
// at once does: the ways in which the former goes wrong are those of the reference.
func TestSpreadPodsAgainstClusterAutoscaler(t *testing.T) {
	checker := newChecker(t)
	web := func(n int, change ...func(*v1.Pod)) []*v1.Pod {
		return onePerNode("web", n, append(change, asking("1"))...)
	}
	alone := scaleup.AsEstimated(scaleup.Options{DisableBalancing: true, DisableSpreadSplit: true})
	levelled := scaleup.AsEstimated(scaleup.Options{DisableSpreadSplit: true})
	type result struct {
		rounds, pending int
		sizes           map[string]int
	}
	tests := map[string]struct {
		world    spreadWorld
		as       scaleup.Options
		ca, ours result
	}{
		"one step per loop": {
			spreadWorld{[]spreadZone{{"a", 1, 20, 2}, {"b", 1, 20, 2}, {"c", 1, 20, 2}}, 2, web(30, spreadOver(v1.LabelTopologyZone, 1))}, alone,
			result{15, 0, map[string]int{"a": 6, "b": 6, "c": 6}}, result{1, 0, map[string]int{"a": 6, "b": 6, "c": 6}},
		},
		"all zones empty: without balancing everything lands in one": {
			spreadWorld{[]spreadZone{{"a", 0, 20, 0}, {"b", 0, 20, 0}, {"c", 0, 20, 0}}, 1, web(9, spreadOver(v1.LabelTopologyZone, 1))}, alone,
			result{1, 0, map[string]int{"a": 9, "b": 0, "c": 0}}, result{1, 0, map[string]int{"a": 3, "b": 3, "c": 3}},
		},
		"an empty zone is opened if that serves the pods": {
			spreadWorld{[]spreadZone{{"a", 1, 2, 2}, {"b", 1, 2, 2}, {"c", 0, 20, 0}}, 2, web(12, spreadOver(v1.LabelTopologyZone, 4))}, alone,
			result{3, 0, map[string]int{"a": 2, "b": 2, "c": 4}}, result{1, 0, map[string]int{"a": 2, "b": 2, "c": 4}},
		},
		"levelling moves a node where the pod cannot go": {
			spreadWorld{[]spreadZone{{"a", 5, 9, 0}, {"b", 3, 9, 1}, {"c", 5, 9, 1}}, 1, web(2, spreadOver(v1.LabelTopologyZone, 2))}, levelled,
			result{2, 0, map[string]int{"a": 6, "b": 5, "c": 5}}, result{1, 0, map[string]int{"a": 6, "b": 4, "c": 5}},
		},
		"a pinned pod does not pin the others": {
			spreadWorld{[]spreadZone{{"a", 0, 20, 0}, {"b", 0, 20, 0}, {"c", 0, 20, 0}}, 1,
				slices.Concat(onePerNode("pinned", 1, asking("1"), inZone("a")), web(9))}, alone,
			result{1, 0, map[string]int{"a": 10, "b": 0, "c": 0}}, result{1, 0, map[string]int{"a": 4, "b": 3, "c": 3}},
		},
		"the least filled zone is at its maximum": {
			spreadWorld{[]spreadZone{{"a", 2, 9, 2}, {"b", 2, 9, 2}, {"c", 1, 1, 1}}, 1, web(6, spreadOver(v1.LabelTopologyZone, 1))}, alone,
			result{1, 6, map[string]int{"a": 2, "b": 2, "c": 1}}, result{1, 6, map[string]int{"a": 2, "b": 2, "c": 1}},
		},
		"opening a zone with little room would hold the others back": {
			spreadWorld{[]spreadZone{{"a", 2, 9, 5}, {"b", 2, 9, 5}, {"c", 0, 1, 0}}, 4, web(12, spreadOver(v1.LabelTopologyZone, 1))}, levelled,
			result{1, 8, map[string]int{"a": 3, "b": 2, "c": 1}}, result{1, 0, map[string]int{"a": 4, "b": 4, "c": 0}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				who  string
				o    scaleup.Options
				want result
			}{{"Cluster Autoscaler", test.as, test.ca}, {"ours", scaleup.Options{}, test.ours}} {
				rounds, sizes, pending := test.world.play(t, checker, c.o)
				got := result{len(rounds), pending, sizes}
				if diff := gocmp.Diff(c.want, got, gocmp.AllowUnexported(result{})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.who, diff)
				}
			}
		})
	}
}

func TestPodsThatWaitAreToldWhichZoneBinds(t *testing.T) {
	checker := newChecker(t)
	for name, test := range map[string]struct {
		world spreadWorld
		want  string
	}{
		"some are placed": {
			spreadWorld{[]spreadZone{{"a", 1, 9, 1}, {"b", 1, 9, 1}, {"c", 1, 2, 1}}, 1, onePerNode("web", 9, asking("1"), spreadOver(v1.LabelTopologyZone, 1))},
			"topology.kubernetes.io/zone c takes no more (c is at its maximum of 2); maxSkew 1 holds the others",
		},
		"none is placed": {
			spreadWorld{[]spreadZone{{"a", 2, 9, 2}, {"b", 2, 9, 2}, {"c", 1, 1, 1}}, 1, onePerNode("web", 6, asking("1"), spreadOver(v1.LabelTopologyZone, 1))},
			"topology.kubernetes.io/zone c takes no more (c is at its maximum of 1); maxSkew 1 holds the others",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rounds, _, _ := test.world.play(t, checker, scaleup.Options{})
			var reasons []string
			for _, p := range rounds[0].Decision.Pods {
				reasons = append(reasons, p.Reason)
			}
			if !slices.Contains(reasons, test.want) {
				t.Errorf("%q, want %q", reasons, test.want)
			}
		})
	}
}

// What a plan places is counted by the scheduler's plugins: on all nodes that a first round has
// ordered, pod by pod, in the order of the list or the largest first, whichever places more.
func (f *fleet) placeable(checker *predicates.Checker, config fake.Config, nodes []predicates.Node, pods []*v1.Pod) (placed, ordered int) {
	f.t.Helper()
	sizes := f.sizes()
	largest := slices.Clone(pods)
	cpu := func(pod *v1.Pod) int64 { return pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }
	slices.SortStableFunc(largest, func(a, b *v1.Pod) int { return cmp.Compare(cpu(b), cpu(a)) })
	for _, left := range [][]*v1.Pod{pods, largest} {
		cluster := checker.Cluster(nodes)
		ordered = 0
		for _, g := range config.Groups {
			ordered += sizes[g.ID] - g.Size
			cluster.AddCopies(predicates.Node{Node: g.Template.Node}, sizes[g.ID]-g.Size)
		}
		for before := -1; len(left) != before; { // one more pod may open the way for others
			before = len(left)
			left = slices.DeleteFunc(slices.Clone(left), func(pod *v1.Pod) bool {
				on, err := cluster.Place(pod, 1, 0, cluster.Len())
				if err != nil {
					f.t.Fatal(err)
				}
				return len(on) > 0
			})
		}
		placed = max(placed, len(pods)-len(left))
	}
	return placed, ordered
}

// Pods with several constraints, of several shapes: the first round places at least as many as with
// plain levelling, and mostly more.
func TestASpreadPlanPlacesNoFewerPodsThanLevelling(t *testing.T) {
	checker := newChecker(t)
	cases := 1000
	if testing.Short() {
		cases = 100
	}
	more := 0
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 5))
		var config fake.Config
		for _, zone := range []string{"a", "b", "c", "d"}[:2+r.IntN(3)] {
			size := r.IntN(3)
			config.Groups = append(config.Groups, fake.Group{ID: zone, Size: size, MaxSize: size + r.IntN(8), Template: machine(zone, "4", "64Gi")})
		}
		var pods []*v1.Pod
		for k := range 1 + r.IntN(3) {
			zonally, wide := spreadOver(v1.LabelTopologyZone, 1+r.Int32N(3)), func(*v1.Pod) {}
			switch r.IntN(4) {
			case 0:
				wide = apartOver(v1.LabelHostname)
			case 1:
				wide = func(pod *v1.Pod) {
					zonal := pod.Spec.TopologySpreadConstraints
					spreadOver(v1.LabelHostname, 1+int32(seed%2))(pod)
					pod.Spec.TopologySpreadConstraints = append(zonal, pod.Spec.TopologySpreadConstraints...)
				}
			}
			pods = append(pods, onePerNode(fmt.Sprintf("w%d", k), 1+r.IntN(12), asking(fmt.Sprintf("%dm", 500*(1+r.IntN(4)))), zonally, wide)...)
		}
		played := map[bool]int{}
		for _, plain := range []bool{false, true} {
			f := newFleet(t, checker, config, scaleup.AsEstimated(scaleup.Options{DisableSpreadSplit: plain, SequentialResize: true}))
			var nodes []predicates.Node
			for i, n := range f.cloud.RegisteredNodes() {
				others := onePerNode("other", 1, asking("4"))
				others[0].Name = fmt.Sprintf("other-%d", i)
				nodes = append(nodes, predicates.Node{Node: n, Pods: others})
			}
			f.roundOn(nodes, pods...)
			played[plain], _ = f.placeable(checker, config, nodes, pods)
		}
		if played[false] < played[true] {
			t.Errorf("seed %d: %d pods placed, %d by plain levelling", seed, played[false], played[true])
		}
		if played[false] > played[true] {
			more++
		}
	}
	t.Logf("more pods placed in %d of %d cases", more, cases)
	if 2*more < cases {
		t.Errorf("more pods placed in %d of %d cases only", more, cases)
	}
}

// Against the least number of nodes that places as many pods, found by trying all sizes. An empty
// zone may take one more, since those are opened that levelling would open.
func TestASpreadPlanOrdersTheFewestNodes(t *testing.T) {
	checker := newChecker(t)
	cases := 150
	if testing.Short() {
		cases = 30
	}
	beyond := map[string]int{}
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 6))
		var config fake.Config
		for _, zone := range []string{"a", "b", "c"} {
			size := r.IntN(2)
			config.Groups = append(config.Groups, fake.Group{ID: zone, Size: size, MaxSize: size + r.IntN(4), Template: machine(zone, "2", "64Gi")})
		}
		kinds := 1 + r.IntN(2)
		var pods []*v1.Pod
		for k := range kinds {
			pods = append(pods, onePerNode(fmt.Sprintf("w%d", k), 1+r.IntN(8), asking(fmt.Sprintf("%dm", 600*(1+r.IntN(3)))), spreadOver(v1.LabelTopologyZone, 1+r.Int32N(2)))...)
		}
		empty := 0
		for _, g := range config.Groups {
			if g.Size == 0 {
				empty++
			}
		}
		f := newFleet(t, checker, config, scaleup.AsEstimated(scaleup.Options{SequentialResize: true}))
		var nodes []predicates.Node
		for i, n := range f.cloud.RegisteredNodes() {
			others := onePerNode("other", 1, asking("2"))
			others[0].Name = fmt.Sprintf("other-%d", i)
			nodes = append(nodes, predicates.Node{Node: n, Pods: others})
		}
		f.roundOn(nodes, pods...)
		placed, ordered := f.placeable(checker, config, nodes, pods)
		best, least := -1, 0
		for n := range 4 * 4 * 4 {
			add := []int{n % 4, n / 4 % 4, n / 16}
			if slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return config.Groups[i].Size+add[i] > config.Groups[i].MaxSize }) {
				continue
			}
			reached, _ := f.placeable(checker, fake.Config{}, slices.Concat(nodes, copies(config, add)), pods)
			if sum := add[0] + add[1] + add[2]; reached > best || reached == best && sum < least {
				best, least = reached, sum
			}
		}
		switch {
		case kinds == 1 && (placed < best || ordered > least+empty):
			t.Errorf("seed %d: %d pods on %d nodes, best %d on %d", seed, placed, ordered, best, least)
		case placed < best:
			beyond["fewer pods"]++
		default:
			beyond[fmt.Sprintf("%+d nodes", ordered-least)]++
		}
	}
	t.Logf("beside the least possible: %v", beyond)
	if 10*beyond["+0 nodes"] < 8*cases {
		t.Errorf("the fewest nodes in %d of %d cases only", beyond["+0 nodes"], cases)
	}
}

// copies are new nodes of the groups.
func copies(config fake.Config, add []int) (nodes []predicates.Node) {
	for i, g := range config.Groups {
		for k := range add[i] {
			n := g.Template.Node.DeepCopy()
			n.Name = fmt.Sprintf("%s-more-%d", g.ID, k)
			n.Labels[v1.LabelHostname] = n.Name
			nodes = append(nodes, predicates.Node{Node: n})
		}
	}
	return nodes
}

// A rejection by the spread alone leaves a group in its set, another one does not.
func TestSpreadAloneDropsNoMember(t *testing.T) {
	checker := newChecker(t)
	zones := []spreadZone{{"a", 3, 9, 3}, {"b", 1, 9, 1}, {"c", 1, 9, 1}}
	w := spreadWorld{zones, 1, onePerNode("web", 7, asking("1"), spreadOver(v1.LabelTopologyZone, 1))}
	rounds, sizes, pending := w.play(t, checker, scaleup.Options{})
	if diff := gocmp.Diff(map[string]int{"a": 4, "b": 4, "c": 4}, sizes); diff != "" || pending > 0 || len(rounds) != 1 {
		t.Errorf("%d rounds, %d pending, sizes (-want +got):\n%s", len(rounds), pending, diff)
	}
	if members := strings.Join(rounds[0].Decision.Members, ""); members != "abc" {
		t.Errorf("members %s, want all three", members)
	}
	for _, pod := range w.pods {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpNotIn, Values: []string{"a"}}},
		}}}}}
	}
	rounds, _, _ = w.play(t, checker, scaleup.Options{})
	if members := strings.Join(rounds[0].Decision.Members, ""); members != "bc" {
		t.Errorf("members %s, want b and c", members)
	}
}
