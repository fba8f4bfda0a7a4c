package spreadplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
)

// kindIn is pods that run in some zones of one letter each; so many fit on a node.
func kindIn(t *testing.T, name, zones string, count, perNode int64) *Kind {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(6000/perNode, resource.DecimalSI)}}}},
		Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: strings.Split(zones, "")},
			}}},
		}}},
	}}
	k, why := ReadKind(KeyOf(pod), pod)
	if why != "" {
		t.Fatal(why)
	}
	k.Count = count
	return k
}

// memberIn is an empty group of six-core nodes in the zone of its name.
func memberIn(zone string, most int64) Member {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("6"),
			v1.ResourcePods: resource.MustParse("110")}},
	}
	return Member{Group: nodegroupset.Group{Name: zone, Max: most}, New: func() *Machine {
		return &Machine{Node: node, Free: podfit.Allocatable(node), Usable: true, Fresh: true}
	}}
}

// Kinds that have zones in common get nodes so that the sizes are the most even ones, also beside
// pods with a spread.
func TestKindsWithZonesInCommonAreLevelledTogether(t *testing.T) {
	spread := kindIn(t, "spread", "abc", 3, 1)
	spread.Pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}},
	}}
	spread, why := ReadKind(KeyOf(spread.Pod), spread.Pod)
	if why != "" {
		t.Fatal(why)
	}
	spread.Count = 3
	tests := map[string]struct {
		kinds  []*Kind
		change func(members []Member)
		want   string
	}{
		"one zone in common": {kinds: []*Kind{kindIn(t, "l", "ab", 2, 1), kindIn(t, "r", "bc", 4, 1)}, want: "map[a:2 b:2 c:2] 0"},
		"two on a node":      {kinds: []*Kind{kindIn(t, "l", "ab", 4, 2), kindIn(t, "r", "bc", 7, 2)}, want: "map[a:2 b:2 c:2] 0"},
		"beside spread pods": {kinds: []*Kind{spread, kindIn(t, "l", "ab", 2, 1), kindIn(t, "r", "bc", 4, 1)}, want: "map[a:3 b:3 c:3] 0"},
		"less room than pods": {kinds: []*Kind{kindIn(t, "l", "ab", 2, 1), kindIn(t, "r", "bc", 4, 1)},
			change: func(m []Member) { m[1].Max, m[2].Max = 1, 2 }, want: "map[a:2 b:1 c:2] 1"},
		"what is held is used last": {
			kinds: []*Kind{kindIn(t, "l", "ab", 2, 1), kindIn(t, "r", "bc", 4, 1)}, want: "map[a:2 b:3 c:1] 0",
			change: func(m []Member) { m[2].Held, m[2].Allowed = true, 1 },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			members := []Member{memberIn("a", 20), memberIn("b", 20), memberIn("c", 20)}
			if tt.change != nil {
				tt.change(members)
			}
			plan, why := New(&Request{Kinds: tt.kinds, Members: members})
			if why != "" {
				t.Fatal(why)
			}
			if got := fmt.Sprint(plan.Sizes, plan.Left); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestPlansOfKindsWithZonesInCommon: a plan keeps to the room of nodes and members, leaves no more
// pods than planning one kind after the other, on no more nodes, and if each pod fills a node on the
// most even sizes.
func TestPlansOfKindsWithZonesInCommon(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for i := range 500 {
		most := random.Int64N(3) * 2
		request := &Request{}
		for _, zone := range []string{"a", "b", "c", "d"} {
			request.Members = append(request.Members, memberIn(zone, 3+random.Int64N(20)))
		}
		split := nodegroupset.SplitRequest{}
		for n := range 2 + random.IntN(4) {
			zones := ""
			for _, m := range request.Members {
				if random.IntN(2) == 0 {
					zones += m.Name
				}
			}
			if zones == "" {
				continue
			}
			perNode := 1 + random.Int64N(1+most)
			k := kindIn(t, fmt.Sprint("k", n), zones, 1+random.Int64N(9), perNode)
			request.Kinds = append(request.Kinds, k)
			split.Classes = append(split.Classes, nodegroupset.Class{Members: strings.Split(zones, ""), Nodes: k.Count})
			split.Nodes += k.Count
		}
		plan, why := New(request)
		if why != "" {
			t.Fatal(why)
		}
		if err := holds(request, plan); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		left, nodes := inTurn(t, request)
		if plan.Left > left || plan.Left == left && int64(len(plan.Added)) > nodes {
			t.Errorf("case %d: %d pods left and %d nodes, one kind after the other %d and %d", i, plan.Left, len(plan.Added), left, nodes)
		}
		if most > 0 || len(split.Classes) == 0 {
			continue
		}
		for _, m := range request.Members {
			split.Groups = append(split.Groups, m.Group)
		}
		best, err := nodegroupset.Split(split)
		if err != nil {
			t.Fatal(err)
		}
		if squares := squaresOf(plan); plan.Left == best.Unplaced && squares > squaresOfSplit(best) {
			t.Errorf("case %d: sizes %v, and %+v is possible", i, plan.Sizes, best.Groups)
		}
	}
}

// inTurn plans one kind after the other.
func inTurn(t *testing.T, r *Request) (left, nodes int64) {
	t.Helper()
	p := &planner{request: r, Plan: Plan{Sizes: map[string]int64{}}}
	for _, k := range slices.SortedStableFunc(slices.Values(r.Kinds), before) {
		if err := p.provideAll(k, k.Count); err != nil {
			t.Fatal(err)
		}
	}
	return p.Left, int64(len(p.Added))
}

// holds checks that pods are where they may run and have room, and members within their bounds.
func holds(r *Request, plan *Plan) error {
	machines := make([]*Machine, len(plan.Added))
	got := map[string]int64{}
	for i, name := range plan.Added {
		at := slices.IndexFunc(r.Members, func(m Member) bool { return m.Name == name })
		machines[i] = r.Members[at].New()
		got[name]++
		if got[name] > r.Members[at].Max || plan.Sizes[name] < got[name] {
			return fmt.Errorf("%s gets %d nodes, and has %d", name, got[name], plan.Sizes[name])
		}
	}
	var placed, all int64
	for _, put := range plan.Put {
		m := machines[put.Machine]
		if !put.Kind.rules.Admit(m.Node) || m.Free.Takes(put.Kind.requests) < put.Pods {
			return fmt.Errorf("%d pods of %s in %v", put.Pods, put.Kind.Key, m.Node.Labels)
		}
		m.Free.Add(-put.Pods, put.Kind.requests)
		placed += put.Pods
	}
	for _, k := range r.Kinds {
		all += k.Count
	}
	if placed+plan.Left != all {
		return fmt.Errorf("%d pods have room and %d are left, of %d", placed, plan.Left, all)
	}
	return nil
}

func squaresOf(plan *Plan) (sum int64) {
	for _, n := range plan.Sizes {
		sum += n * n
	}
	return sum
}

func squaresOfSplit(result nodegroupset.SplitResult) (sum int64) {
	for _, g := range result.Groups {
		sum += g.NewSize * g.NewSize
	}
	return sum
}
