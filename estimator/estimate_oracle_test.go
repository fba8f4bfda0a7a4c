package estimator

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// naive places one pod at a time: largest kind first, on the first node that
// takes it, else on a new one.
func naive(cluster *predicates.Cluster, phases []Phase, limit int) (Estimation, error) {
	s := cluster.Fork()
	opened := make([][]int, len(phases))
	var e Estimation
	for i, phase := range phases {
		estimated := Estimated{Placed: make([]Placed, len(phase.Demands))}
		var usable []int
		for _, earlier := range slices.Compact(slices.Sorted(slices.Values(phase.Reuse))) {
			usable = append(usable, opened[earlier]...)
		}
		for _, d := range naiveOrder(phase) {
			for range phase.Demands[d].Count {
				placed := 0
				for _, id := range usable {
					p, err := s.Place(phase.Demands[d].Pod, 1, id, id+1)
					if err != nil {
						return e, err
					}
					if placed = total(p); placed == 1 {
						break
					}
				}
				if placed == 0 && e.NodeCount < limit && estimated.NodeCount < phase.MaxNodes {
					p, err := s.PlaceOnNew(phase.Template, phase.Demands[d].Pod, 1, 1)
					if err != nil {
						return e, err
					}
					if placed = total(p); placed == 1 {
						usable = append(usable, s.Len()-1)
						opened[i] = append(opened[i], s.Len()-1)
						e.NodeCount++
						estimated.NodeCount++
					}
				}
				if placed == 0 {
					break
				}
				estimated.Placed[d].Count++
			}
		}
		e.Phases = append(e.Phases, estimated)
	}
	return e, nil
}

func naiveOrder(phase Phase) []int {
	allocatable := phase.Template.Node.Status.Allocatable
	score := func(i int) *big.Rat {
		requests := phase.Demands[i].Pod.Spec.Containers[0].Resources.Requests
		return new(big.Rat).Add(
			big.NewRat(requests.Cpu().MilliValue(), allocatable.Cpu().MilliValue()),
			big.NewRat(requests.Memory().Value(), allocatable.Memory().Value()))
	}
	order := make([]int, len(phase.Demands))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return score(b).Cmp(score(a)) })
	return order
}

// randomPhases draws up to three phases over three zones, with pods of all the
// shapes the scheduler looks at.
func randomPhases(r *rand.Rand, plain bool) []Phase {
	zones := []string{"a", "b", "c"}
	var phases []Phase
	for i := range 1 + r.IntN(3) {
		var daemons []*v1.Pod
		if r.IntN(2) == 0 {
			daemon := podOf("daemon", 100*r.Int64N(5), gib)
			daemon.Spec.NodeName = "template"
			daemons = append(daemons, daemon)
		}
		phase := Phase{Template: inZone(zones[r.IntN(3)], daemons...), MaxNodes: NoLimit}
		if r.IntN(4) == 0 {
			phase.MaxNodes = r.IntN(4)
		}
		phase.Template.Node.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(3+r.Int64N(20), resource.DecimalSI)
		for earlier := range i {
			if r.IntN(2) == 0 {
				phase.Reuse = append(phase.Reuse, earlier)
			}
		}
		for range 1 + r.IntN(4) {
			phase.Demands = append(phase.Demands, Demand{Pod: randomPod(r, plain), Count: r.IntN(9)})
		}
		phases = append(phases, phase)
	}
	return phases
}

func randomPod(r *rand.Rand, plain bool) *v1.Pod {
	pod := podOf(fmt.Sprintf("p%d", r.IntN(4)), 100*r.Int64N(45), gib/2*r.Int64N(34))
	if plain {
		return pod
	}
	keys := []string{v1.LabelHostname, v1.LabelTopologyZone}
	key := keys[r.IntN(2)]
	switch r.IntN(9) {
	case 0:
		return antiAffine(pod, key)
	case 1:
		return affine(pod, key)
	case 2, 3:
		return spread(pod, key, 1+r.Int32N(2))
	case 4:
		return hostPort(pod, 80+r.Int32N(2))
	case 5:
		return pinned(pod, []string{"a", "b"}[r.IntN(2)])
	}
	return pod
}

func randomCluster(r *rand.Rand) []predicates.Node {
	var nodes []predicates.Node
	for i := range r.IntN(4) {
		node := predicates.Node{Node: realNode(fmt.Sprintf("real-%d", i), []string{"a", "b", "c"}[r.IntN(3)])}
		for range r.IntN(3) {
			pod := randomPod(r, true)
			pod.Spec.NodeName = node.Node.Name
			pod.UID = "u"
			node.Pods = append(node.Pods, pod)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func randomLimit(r *rand.Rand) int {
	if r.IntN(3) == 0 {
		return r.IntN(8)
	}
	return NoLimit
}

// In bulk and one by one come to the same: nodes per phase and pods per demand.
func TestEstimateEqualsPlacingOneByOne(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		cluster := checker.Cluster(randomCluster(r))
		phases, limit := randomPhases(r, i%2 == 0), randomLimit(r)
		got, err := Estimate(cluster, phases, limit)
		if err != nil {
			t.Fatal(err)
		}
		want, err := naive(cluster, phases, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, withoutReasons(got)); diff != "" {
			t.Fatalf("case %d: naive -, ours +:\n%s\n%s", i, diff, describe(phases))
		}
		checkBounds(t, phases, got, limit)
	}
}

func withoutReasons(e Estimation) Estimation {
	stripped := Estimation{NodeCount: e.NodeCount}
	for _, phase := range e.Phases {
		p := Estimated{NodeCount: phase.NodeCount, Placed: slices.Clone(phase.Placed)}
		for i := range p.Placed {
			p.Placed[i].Reason = ""
		}
		stripped.Phases = append(stripped.Phases, p)
	}
	return stripped
}

func describe(phases []Phase) string {
	s := ""
	for i, phase := range phases {
		s += fmt.Sprintf("phase %d: zone %s, max %d, reuse %v\n", i, phase.Template.Node.Labels[v1.LabelTopologyZone], phase.MaxNodes, phase.Reuse)
		for _, d := range phase.Demands {
			s += fmt.Sprintf("  %d x %s %v %v %v %v\n", d.Count, d.Pod.Name, d.Pod.Spec.Containers[0].Resources.Requests, d.Pod.Spec.Affinity, d.Pod.Spec.TopologySpreadConstraints, d.Pod.Spec.NodeSelector)
		}
	}
	return s
}

// checkBounds: within the limits, no more nodes than pods, no fewer than the
// sum of the requests needs, and a reason exactly where pods are left over.
func checkBounds(t *testing.T, phases []Phase, e Estimation, limit int) {
	t.Helper()
	if e.NodeCount > limit {
		t.Fatalf("%d nodes above the limit of %d", e.NodeCount, limit)
	}
	var requested expander.Requests
	pods := 0
	for i, phase := range phases {
		phasePods := 0
		for j, d := range phase.Demands {
			placed := e.Phases[i].Placed[j]
			if (placed.Reason == "") != (placed.Count == d.Count) || placed.Count > d.Count || placed.Count < 0 {
				t.Fatalf("phase %d, demand %d: %+v of %d", i, j, placed, d.Count)
			}
			phasePods += placed.Count
			requested = requested.Plus(placed.Count, expander.RequestsOf(d.Pod))
		}
		if n := e.Phases[i].NodeCount; n > phasePods || n > phase.MaxNodes {
			t.Fatalf("phase %d: %d nodes for %d pods, at most %d", i, n, phasePods, phase.MaxNodes)
		}
		pods += phasePods
	}
	if requested.MilliCPU > int64(e.NodeCount)*4000 || requested.Memory > int64(e.NodeCount)*16*gib {
		t.Fatalf("%d nodes for %+v", e.NodeCount, requested)
	}
}

// A higher limit never places fewer pods.
func TestALargerLimitPlacesNoFewer(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		cluster, phases := checker.Cluster(nil), randomPhases(r, true)[:1]
		phases[0].MaxNodes = NoLimit
		last := make([]Placed, len(phases[0].Demands))
		for limit := range 8 {
			e, err := Estimate(cluster, phases, limit)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range e.Phases[0].Placed {
				if p.Count < last[i].Count {
					t.Fatalf("limit %d: %v, before %v", limit, e.Phases[0].Placed, last)
				}
			}
			last = e.Phases[0].Placed
		}
	}
}

// An Estimator answers as Estimate does, whatever it was asked before, and
// leaves its cluster and the phases as they are.
func TestEstimatorEqualsEstimate(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(3, 3))
	split := 0
	for i := range 150 {
		cluster := checker.Cluster(randomCluster(r))
		nodes := cluster.Len()
		e := New(cluster)
		phases := randomPhases(r, i%3 == 0)
		if i%3 > 0 {
			phases = phases[:1]
		}
		for i := range phases {
			phases[i].Shape = fmt.Sprint(i)
		}
		before := describe(phases)
		for range 8 {
			for i := range phases {
				phases[i].MaxNodes = randomLimit(r)
			}
			limit := randomLimit(r)
			got, err := e.Estimate(phases, limit)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Estimate(cluster, phases, limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s\n%s", diff, before)
			}
		}
		if len(phases) == 1 && separable(phases[0]) {
			split++
			if e.packed > 5 {
				t.Fatalf("packed %d times", e.packed)
			}
		}
		if cluster.Len() != nodes {
			t.Fatalf("the cluster grew from %d to %d nodes", nodes, cluster.Len())
		}
	}
	if split < 30 {
		t.Errorf("only %d of the cases were separable", split)
	}
}

// Sizes compare as exact fractions, beyond 64 bits and beyond float64.
func TestSizesCompareExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	amount := func() int64 { return r.Int64() >> r.IntN(60) }
	for range 50_000 {
		cpu, memory := amount()+1, amount()+1
		a, b := expander.Requests{MilliCPU: amount(), Memory: amount()}, expander.Requests{MilliCPU: amount(), Memory: amount()}
		score := func(q expander.Requests) *big.Rat {
			return new(big.Rat).Add(big.NewRat(q.MilliCPU, cpu), big.NewRat(q.Memory, memory))
		}
		if got, want := sizeOn(cpu, memory, a).compare(sizeOn(cpu, memory, b)), score(a).Cmp(score(b)); got != want {
			t.Fatalf("%+v and %+v on %d, %d: %d, want %d", a, b, cpu, memory, got, want)
		}
	}
	for _, test := range []struct {
		cpu, memory int64
		want        int
	}{{0, 0, 0}, {0, 5, -1}, {5, 0, 1}} {
		large, small := expander.Requests{MilliCPU: 9, Memory: 1}, expander.Requests{MilliCPU: 1, Memory: 2}
		if got := sizeOn(test.cpu, test.memory, large).compare(sizeOn(test.cpu, test.memory, small)); got != test.want {
			t.Errorf("on %d, %d: %d, want %d", test.cpu, test.memory, got, test.want)
		}
	}
}

// arithmetic is first fit by sums of cpu, memory and pods alone: what the
// scheduler's plugins come to for pods that ask for nothing else.
func arithmetic(phase Phase, limit int) Estimated {
	type node struct{ cpu, memory, pods int64 }
	empty := node{4000, 16 * gib, phase.Template.Node.Status.Allocatable.Pods().Value() - int64(len(phase.Template.Pods))}
	for _, daemon := range phase.Template.Pods {
		r := daemon.Spec.Containers[0].Resources.Requests
		empty.cpu, empty.memory = empty.cpu-r.Cpu().MilliValue(), empty.memory-r.Memory().Value()
	}
	var nodes []node
	estimated := Estimated{Placed: make([]Placed, len(phase.Demands))}
	for _, d := range naiveOrder(phase) {
		r := phase.Demands[d].Pod.Spec.Containers[0].Resources.Requests
		cpu, memory := r.Cpu().MilliValue(), r.Memory().Value()
		takes := func(n node) bool { return n.cpu >= cpu && n.memory >= memory && n.pods >= 1 }
		for range phase.Demands[d].Count {
			i := slices.IndexFunc(nodes, takes)
			if i < 0 {
				if len(nodes) == limit || !takes(empty) {
					break
				}
				i, nodes = len(nodes), append(nodes, empty)
			}
			nodes[i].cpu, nodes[i].memory, nodes[i].pods = nodes[i].cpu-cpu, nodes[i].memory-memory, nodes[i].pods-1
			estimated.Placed[d].Count++
		}
	}
	estimated.NodeCount = len(nodes)
	return estimated
}

func TestEstimateEqualsArithmeticForPlainPods(t *testing.T) {
	checker := newChecker(t)
	cluster := checker.Cluster(nil)
	r := rand.New(rand.NewPCG(6, 6))
	for i := range 6000 {
		phase, limit := randomPhases(r, true)[0], randomLimit(r)
		phase.MaxNodes = NoLimit
		for d := range phase.Demands {
			phase.Demands[d].Count = r.IntN(60)
		}
		got, err := Estimate(cluster, []Phase{phase}, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(arithmetic(phase, limit), withoutReasons(got).Phases[0]); diff != "" {
			t.Fatalf("case %d: arithmetic -, ours +:\n%s\n%s", i, diff, describe([]Phase{phase}))
		}
	}
}
