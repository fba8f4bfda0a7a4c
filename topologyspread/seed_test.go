package topologyspread_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// foo is a pod of the workload that is spread, with the constraints given.
func foo(constraints ...v1.TopologySpreadConstraint) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"foo": "bar"}}}
	p.Spec.TopologySpreadConstraints = constraints
	return p
}

func hard(key string, maxSkew int32) v1.TopologySpreadConstraint {
	return v1.TopologySpreadConstraint{
		TopologyKey: key, MaxSkew: maxSkew, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "foo",
			Operator: metav1.LabelSelectorOpExists}}},
	}
}

func soft(key string, maxSkew int32) v1.TopologySpreadConstraint {
	c := hard(key, maxSkew)
	c.WhenUnsatisfiable = v1.ScheduleAnyway
	return c
}

func atLeast(n int32, c v1.TopologySpreadConstraint) v1.TopologySpreadConstraint {
	c.MinDomains = ptr.To(n)
	return c
}

// on is a node in a zone with n pods of the workload; the zone's label is left out if empty.
func on(name, zone string, n int) topologyspread.Node {
	node := topologyspread.Node{Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"node": name, v1.LabelHostname: name}}}}
	if zone != "" {
		node.Node.Labels["zone"] = zone
	}
	for range n {
		node.Pods = append(node.Pods, foo())
	}
	return node
}

// zones are zones zone1, zone2 and so on of a node each, named as the zone, with so many pods.
func zones(counts ...int) []topologyspread.Node {
	var nodes []topologyspread.Node
	for i, n := range counts {
		name := fmt.Sprintf("zone%d", i+1)
		nodes = append(nodes, on(name, name, n))
	}
	return nodes
}

// seven are the seven nodes of three zones of the proposal.
func seven() []topologyspread.Node {
	return []topologyspread.Node{
		on("node1a", "zone1", 1), on("node1b", "zone1", 2), on("node1c", "zone1", 0),
		on("node2a", "zone2", 2), on("node2b", "zone2", 0), on("node2c", "zone2", 0),
		on("node3a", "zone3", 1),
	}
}

// four are a, b in zone1 and x, y in zone2.
func four(a, b, x, y int) []topologyspread.Node {
	return []topologyspread.Node{on("a", "zone1", a), on("b", "zone1", b), on("x", "zone2", x), on("y", "zone2", y)}
}

func without(label, name string, nodes []topologyspread.Node) []topologyspread.Node {
	for _, n := range nodes {
		if n.Node.Name == name {
			delete(n.Node.Labels, label)
		}
	}
	return nodes
}

// with adds pods to a node.
func with(name string, nodes []topologyspread.Node, pods ...*v1.Pod) []topologyspread.Node {
	for i := range nodes {
		if nodes[i].Node.Name == name {
			nodes[i].Pods = append(nodes[i].Pods, pods...)
		}
	}
	return nodes
}

func elsewhere(p *v1.Pod) *v1.Pod { p.Namespace = "other"; return p }

func terminating(p *v1.Pod) *v1.Pod { p.DeletionTimestamp = &metav1.Time{}; return p }

func stranger(p *v1.Pod) *v1.Pod { p.Labels = map[string]string{"app": "other"}; return p }

func inZones(p *v1.Pod, names ...string) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn,
			Values: names}}}}}}}
	return p
}

// Where hard constraints allow a pod: the cases of the proposal that the feature began with, and
// those of its documentation. Every answer is the plugin's too.
func TestWhereAPodMayGo(t *testing.T) {
	const others = "zone3 zone4 zone5 zone6 zone7 zone8 zone9 zone10"
	for _, tc := range []struct {
		name       string
		pod        *v1.Pod
		nodes      []topologyspread.Node
		infeasible string // by other filters
		want       string
	}{
		{"story 1: a zone at a time", foo(hard("zone", 1)), zones(0, 0, 0), "", "zone1 zone2 zone3"},
		{"story 2: the third replica of a rolling update on two nodes", foo(hard("node", 1)),
			[]topologyspread.Node{on("node1", "", 1), on("node2", "", 1)}, "", "node1 node2"},
		{"story 2: the third replica where a third node is free", foo(hard("node", 1)),
			[]topologyspread.Node{on("node1", "", 1), on("node2", "", 1), on("node3", "", 0)}, "", "node3"},
		{"1/1/0, maxSkew 1", foo(hard("zone", 1)), zones(1, 1, 0), "", "zone3"},
		{"1/1/0, maxSkew 2", foo(hard("zone", 2)), zones(1, 1, 0), "", "zone1 zone2 zone3"},
		{"3/2/1, maxSkew 1", foo(hard("zone", 1)), zones(3, 2, 1), "", "zone3"},
		{"3/2/1, maxSkew 2", foo(hard("zone", 2)), zones(3, 2, 1), "", "zone2 zone3"},
		{"3/2/1, maxSkew 3", foo(hard("zone", 3)), zones(3, 2, 1), "", "zone1 zone2 zone3"},
		{"node affinity to two zones of ten, 1/1", inZones(foo(hard("zone", 1)), "zone1", "zone2"), zones(1, 1, 0, 0, 0, 0, 0, 0, 0, 0), others,
			"zone1 zone2"},
		{"node affinity to two zones of ten, 2/1", inZones(foo(hard("zone", 1)), "zone1", "zone2"), zones(2, 1, 0, 0, 0, 0, 0, 0, 0, 0), others,
			"zone2"},
		{"chicken and egg: no pod yet, the pod matches itself", foo(hard("zone", 1)), zones(0, 0, 0), "", "zone1 zone2 zone3"},
		{"chicken and egg: no pod yet, the pod does not match itself", stranger(foo(hard("zone", 1))), zones(0, 0, 0), "", "zone1 zone2 zone3"},
		{"seven nodes by zone", foo(hard("zone", 1)), seven(), "", "node3a"},
		{"seven nodes by node", foo(hard("node", 1)), seven(), "", "node1c node2b node2c"},
		{"zone3 infeasible: 3/3/0", foo(hard("zone", 1)), zones(3, 3, 0), "zone3", ""},
		{"zone3 infeasible: 1/1/0", foo(hard("zone", 1)), zones(1, 1, 0), "zone3", ""},
		{"zone3 infeasible: 2/1/0", foo(hard("zone", 1)), zones(2, 1, 0), "zone3", ""},
		{"zone3 infeasible: 1/1/1", foo(hard("zone", 1)), zones(1, 1, 1), "zone3", "zone1 zone2"},
		{"zone3 infeasible: 2/1/1", foo(hard("zone", 1)), zones(2, 1, 1), "zone3", "zone2"},
		{"imbalance that came later is not mended, only not made worse", foo(hard("zone", 1)), zones(5, 1, 1), "", "zone2 zone3"},

		{"pods of other namespaces", foo(hard("zone", 1)), with("a", four(0, 0, 1, 1), elsewhere(foo()), elsewhere(foo())), "", "a b"},
		{"a node without the zone label", foo(hard("zone", 1)), without("zone", "b", four(1, 1, 1, 1)), "", "a"},
		{"over nodes, maxSkew 2", foo(hard("node", 2)), four(2, 1, 0, 3), "", "b x"},
		{"a pod that does not match itself", stranger(foo(hard("node", 1))), four(2, 1, 0, 3), "", "b x"},
		{"minDomains 4 of 3", foo(atLeast(4, hard("node", 2))), four(2, 2, 1, 0)[:3], "", "x"},
		{"minDomains 2 of 3", foo(atLeast(2, hard("node", 2))), four(2, 2, 1, 0)[:3], "", "a b x"},
		{"a terminating pod", foo(hard("node", 1)), with("a", four(0, 1, 0, 0)[:2], terminating(foo())), "", "a"},
		{"two constraints that contradict each other", foo(hard("zone", 1), hard("node", 1)), four(2, 1, 0, 4), "", ""},
		{"a node without one of two keys", foo(hard("zone", 1), hard("node", 1)), without("node", "x", four(1, 0, 0, 1)), "", "b"},
		{"three zones 1/1/0", foo(hard("zone", 1)), zones(1, 1, 0), "", "zone3"},
		{"three zones 1/1/0, the third's node removed", foo(hard("zone", 1)), zones(1, 1), "", "zone1 zone2"},
		{"the key on no node", foo(hard("rack", 1)), four(0, 0, 0, 0), "", ""},
		{"no node", foo(hard("zone", 1)), nil, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, err := topologyspread.NewTable(tc.pod, tc.nodes)
			if err != nil {
				t.Fatal(err)
			}
			p := newPlugin(t)
			p.seen.show(tc.nodes)
			plugin, err := p.fits(tc.pod)
			if err != nil {
				t.Fatal(err)
			}
			var fits, fitsPlugin []string
			for i, n := range tc.nodes {
				if slices.Contains(strings.Fields(tc.infeasible), n.Node.Name) {
					continue
				}
				if table.Fits(i) {
					fits = append(fits, n.Node.Name)
				}
				if plugin[i] {
					fitsPlugin = append(fitsPlugin, n.Node.Name)
				}
			}
			if got := strings.Join(fits, " "); got != tc.want || !slices.Equal(fits, fitsPlugin) {
				t.Errorf("fits on %q, want %q; the plugin says %q", got, tc.want, fitsPlugin)
			}
		})
	}
}

// Which node soft constraints prefer, among those that are feasible.
func TestWhereAPodShouldGo(t *testing.T) {
	for _, tc := range []struct {
		name       string
		pod        *v1.Pod
		nodes      []topologyspread.Node
		infeasible string
		want       map[string]int64
	}{
		{"zone3 infeasible: 3/3/0", foo(soft("zone", 1)), zones(3, 3, 0), "zone3", map[string]int64{"zone1": 100, "zone2": 100}},
		{"zone3 infeasible: 1/1/0", foo(soft("zone", 1)), zones(1, 1, 0), "zone3", map[string]int64{"zone1": 100, "zone2": 100}},
		{"zone3 infeasible: 2/1/0", foo(soft("zone", 1)), zones(2, 1, 0), "zone3", map[string]int64{"zone1": 33, "zone2": 100}},
		{"zone3 infeasible: 1/1/1", foo(soft("zone", 1)), zones(1, 1, 1), "zone3", map[string]int64{"zone1": 100, "zone2": 100}},
		{"zone3 infeasible: 2/1/1", foo(soft("zone", 1)), zones(2, 1, 1), "zone3", map[string]int64{"zone1": 33, "zone2": 100}},
		{"story 2: a third replica is tolerated where the third node lacks room", foo(soft("node", 1)),
			[]topologyspread.Node{on("node1", "", 1), on("node2", "", 1), on("node3", "", 0)}, "node3",
			map[string]int64{"node1": 100, "node2": 100}},
		{"over hostnames", foo(soft(v1.LabelHostname, 1)), four(2, 1, 0, 3), "", map[string]int64{"a": 20, "b": 60, "x": 100, "y": 0}},
		{"pods on an infeasible node count for its zone", foo(soft("zone", 1)), four(4, 2, 1, 3), "y",
			map[string]int64{"a": 75, "b": 75, "x": 100}},
		{"terminating pods", foo(soft(v1.LabelHostname, 1)), with("a", four(0, 1, 0, 0)[:2], terminating(foo()), terminating(foo())), "",
			map[string]int64{"a": 100, "b": 0}},
		{"a node without one of two keys", foo(soft("zone", 1), soft("node", 1)), without("zone", "a", four(0, 1, 1, 1)), "",
			map[string]int64{"a": 0, "b": 100, "x": 75, "y": 75}},
		{"no pod at all", foo(soft("zone", 1)), four(0, 0, 0, 0), "", map[string]int64{"a": 100, "b": 100, "x": 100, "y": 100}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, err := topologyspread.NewTable(tc.pod, tc.nodes)
			if err != nil {
				t.Fatal(err)
			}
			var candidates []int
			for i, n := range tc.nodes {
				if n.Node.Name != tc.infeasible {
					candidates = append(candidates, i)
				}
			}
			p := newPlugin(t)
			p.seen.show(tc.nodes)
			plugin, err := p.scores(tc.pod, candidates)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			scores := table.Scores(candidates)
			for i, score := range scores {
				got[tc.nodes[candidates[i]].Node.Name] = score
			}
			if !maps.Equal(got, tc.want) || !slices.Equal(scores, plugin) {
				t.Errorf("scores %v, want %v; the plugin says %v", got, tc.want, plugin)
			}
		})
	}
}

// A third zone that cannot take the pod still has the least count: the pod stays pending.
func TestAnInfeasibleZoneHoldsTheOthers(t *testing.T) {
	table, err := topologyspread.NewTable(foo(hard("zone", 1)), zones(1, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for zone, want := range []string{
		"topologySpreadConstraints[0]: zone=zone1 has 1 matching pod, the least of 3 domains has 0: the skew would be 2, maxSkew is 1",
		"topologySpreadConstraints[0]: zone=zone2 has 1 matching pod, the least of 3 domains has 0: the skew would be 2, maxSkew is 1",
	} {
		refusals := table.Refusals(zone)
		if len(refusals) != 1 || refusals[0].String() != want {
			t.Errorf("zone%d: %v, want %s", zone+1, refusals, want)
		}
	}
}

// Nine pods of an empty workload end three and three and three, whatever node the scheduler takes
// of those that fit.
func TestStory1PodsEndAsEvenAsPossible(t *testing.T) {
	nodes := zones(0, 0, 0)
	table, err := topologyspread.NewTable(foo(hard("zone", 1)), nodes)
	if err != nil {
		t.Fatal(err)
	}
	var placed [3]int
	for range 9 {
		for node := 2; node >= 0; node-- {
			if table.Fits(node) {
				table.Place(node)
				placed[node]++
				break
			}
		}
	}
	if placed != [3]int{3, 3, 3} {
		t.Errorf("placed %v", placed)
	}
}
