package scaleup_test

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

func spreadOver(key string, maxSkew int32) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}
	}
}

func apartOver(key string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}}}
	}
}

func asking(cpu string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cpu) }
}

// tightWorld is up to three machine types in three zones each with few nodes to
// spare, and one or two workloads that mostly look at what is around them.
func tightWorld(r *rand.Rand, workloads int) (fake.Config, []*v1.Pod, scaleup.Options) {
	var config fake.Config
	for m := range 3 {
		cores := []string{"1", "2", "4", "16"}[r.IntN(4)]
		for _, zone := range []string{"a", "b", "c"} {
			most := max(0, r.IntN(7)-3) // often none
			config.Groups = append(config.Groups, fake.Group{ID: fmt.Sprintf("m%d-%s", m, zone), MaxSize: most, Template: machine(zone, cores, "64Gi")})
		}
	}
	var pods []*v1.Pod
	for i := range workloads {
		change := []func(*v1.Pod){asking(fmt.Sprintf("%dm", 100*(5+r.IntN(11))))}
		switch r.IntN(12) {
		case 0:
		case 1:
			change = append(change, apartOver(v1.LabelTopologyZone))
		case 2:
			change = append(change, apartOver(v1.LabelHostname))
		case 3:
			change = append(change, spreadOver(v1.LabelHostname, 1+r.Int32N(3)))
		default:
			change = append(change, spreadOver(v1.LabelTopologyZone, 1+r.Int32N(3)))
		}
		pods = append(pods, onePerNode(fmt.Sprintf("w%d", i), 1+r.IntN(35), change...)...)
	}
	chain, err := expander.New([]string{[]string{"least-waste", "most-pods", "least-nodes", "random"}[r.IntN(4)]}, expander.Config{})
	if err != nil {
		panic(err)
	}
	o := scaleup.Options{Expander: chain}
	if r.IntN(4) == 0 {
		o.Limits.Quotas = []scaleup.Quota{{Name: "zone-a", Zones: []string{"a"}, Nodes: 1 + r.Int64N(3)}, {Name: "all", Nodes: 3 + r.Int64N(8)}}
	}
	return config, pods, o
}

// orderAll plays rounds until none orders any more, and returns the nodes.
func (f *fleet) orderAll(pods []*v1.Pod) []predicates.Node {
	f.t.Helper()
	for f.roundOn(nil, pods...).Grew() > 0 {
		f.clock.Step(10 * time.Second)
	}
	var nodes []predicates.Node
	groups, err := f.cloud.NodeGroups(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, g := range groups {
		template, err := f.cloud.Template(context.Background(), g.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range f.sizes()[g.ID] {
			n := template.Node.DeepCopy()
			n.Name = fmt.Sprintf("%s-%d", g.ID, i)
			n.Labels[v1.LabelHostname] = n.Name
			nodes = append(nodes, predicates.Node{Node: n})
		}
	}
	return nodes
}

// bound is how many pods are on each node once the scheduler has bound them one
// after the other, each to the node that is least allocated of those it may run on.
func bound(t *testing.T, checker *predicates.Checker, nodes []predicates.Node, pods []*v1.Pod) []int {
	t.Helper()
	c := checker.Cluster(nodes)
	fit, err := checker.Fits(nil, nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	on, used := make([]int, len(nodes)), make([]float64, len(nodes))
	ids := make([]int, len(nodes))
	for i := range ids {
		ids[i] = i
	}
	for _, k := range scaleup.Queue(fit, nodes, nil) {
		kind := fit.Kinds()[k]
		cpu := float64(kind.Pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
		for range kind.Pods {
			slices.SortStableFunc(ids, func(a, b int) int {
				return stdcmp.Compare(used[a], used[b])
			})
			for _, id := range ids {
				runs, err := c.Place(kind.Pod, 1, id, id+1)
				if err != nil {
					t.Fatal(err)
				}
				if len(runs) > 0 {
					on[id]++
					used[id] += cpu / float64(nodes[id].Node.Status.Allocatable.Cpu().MilliValue())
					break
				}
			}
		}
	}
	return on
}

func TestNoOrderedNodeStaysEmpty(t *testing.T) {
	checker := newChecker(t)
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 8))
		config, pods, o := tightWorld(r, 1)
		nodes := newFleet(t, checker, config, o).orderAll(pods)
		for id, n := range bound(t, checker, nodes, pods) {
			if n == 0 {
				t.Errorf("seed %d: %s stays empty of %d nodes for %d pods", seed, nodes[id].Node.Name, len(nodes), len(pods))
			}
		}
	}
}

// Two workloads may come to the scheduler in an order that was not foreseen. Even so
// there is next to no node that nobody uses.
func TestHardlyANodeStaysEmptyWhereWorkloadsMix(t *testing.T) {
	checker := newChecker(t)
	empty, ordered := 0, 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 9))
		config, pods, o := tightWorld(r, 2)
		nodes := newFleet(t, checker, config, o).orderAll(pods)
		for _, n := range bound(t, checker, nodes, pods) {
			ordered++
			if n == 0 {
				empty++
			}
		}
	}
	t.Logf("%d of %d nodes stay empty", empty, ordered)
	if empty*200 > ordered {
		t.Errorf("%d of %d nodes stay empty", empty, ordered)
	}
}

// The pods of two spread workloads were put into zone after zone, as if a zone
// were not there before its first node: five nodes where three do.
func TestSpreadWorkloadsTogetherTakeNoMoreNodesThanTheyNeed(t *testing.T) {
	checker := newChecker(t)
	f := newFleet(t, checker, fake.Config{Groups: []fake.Group{
		{ID: "a", MaxSize: 3, Template: machine("a", "16", "64Gi")},
		{ID: "b", MaxSize: 3, Template: machine("b", "16", "64Gi")},
		{ID: "c", MaxSize: 3, Template: machine("c", "16", "64Gi")},
	}}, scaleup.Options{})
	zonally := spreadOver(v1.LabelTopologyZone, 1)
	pods := slices.Concat(onePerNode("x", 24, asking("1300m"), zonally), onePerNode("y", 8, asking("1300m"), zonally))
	f.round(pods...)
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

// A slot in one more zone is no help where it makes the least count so small that
// fewer pods may run in the others.
func TestAZoneThatWouldHoldOthersBackIsNotOpened(t *testing.T) {
	checker := newChecker(t)
	f := newFleet(t, checker, fake.Config{Groups: []fake.Group{
		{ID: "large-a", MaxSize: 1, Template: machine("a", "8", "64Gi")},
		{ID: "large-c", MaxSize: 1, Template: machine("c", "8", "64Gi")},
		{ID: "small-b", MaxSize: 1, Template: machine("b", "2", "64Gi")},
	}}, scaleup.Options{})
	f.orderAll(onePerNode("x", 20, asking("1300m"), spreadOver(v1.LabelTopologyZone, 1)))
	if diff := cmp.Diff(map[string]int{"large-a": 1, "large-c": 1, "small-b": 0}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

// What a zone refuses is not ordered in zones where the pods may not go.
func TestRefusedNodesOfSpreadPodsAreNotOrderedWhereNoPodMayGo(t *testing.T) {
	checker := newChecker(t)
	f := newFleet(t, checker, fake.Config{
		Groups: []fake.Group{zonal("a", 1, 20), zonal("b", 1, 20), zonal("c", 1, 20)},
		Stocks: []fake.StockOut{{Scope: fake.Scope{Groups: []string{"b"}}}},
	}, scaleup.Options{})
	round := f.round(onePerNode("x", 9, spreadOver(v1.LabelTopologyZone, 1))...)
	if diff := cmp.Diff(map[string]int{"a": 3, "b": 1, "c": 3}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	if round.Decision.Unplaced != 2 {
		t.Errorf("%d nodes unplaced, want 2", round.Decision.Unplaced)
	}
}
