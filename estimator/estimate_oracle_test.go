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

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
)

// naive places one pod at a time: largest kind first, on the first node that
// takes it, else on a new one.
func naive(cluster *predicates.Cluster, r Request, limit int) (Estimation, error) {
	s := cluster.Fork()
	e := Estimation{Placed: make([]int, len(r.Demands))}
	var opened []int
	for _, d := range naiveOrder(r) {
		for range r.Demands[d].Count {
			placed := 0
			for _, id := range opened {
				p, err := s.Place(r.Demands[d].Pod, 1, id, id+1)
				if err != nil {
					return e, err
				}
				if placed = total(p); placed == 1 {
					break
				}
			}
			if placed == 0 && e.NodeCount < limit {
				p, err := s.PlaceOnNew(r.Template, r.Demands[d].Pod, 1, 1)
				if err != nil {
					return e, err
				}
				if placed = total(p); placed == 1 {
					opened = append(opened, s.Len()-1)
					e.NodeCount++
				}
			}
			if placed == 0 {
				break
			}
			e.Placed[d]++
		}
	}
	return e, nil
}

func total(placements []predicates.Placement) int {
	n := 0
	for _, p := range placements {
		n += p.Nodes * p.PerNode
	}
	return n
}

func naiveOrder(r Request) []int {
	allocatable := r.Template.Node.Status.Allocatable
	score := func(i int) *big.Rat {
		requests := r.Demands[i].Pod.Spec.Containers[0].Resources.Requests
		return new(big.Rat).Add(
			big.NewRat(requests.Cpu().MilliValue(), allocatable.Cpu().MilliValue()),
			big.NewRat(requests.Memory().Value(), allocatable.Memory().Value()))
	}
	order := make([]int, len(r.Demands))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return score(b).Cmp(score(a)) })
	return order
}

// randomRequest draws a node in one of three zones, with pods of all the shapes the
// scheduler looks at.
func randomRequest(r *rand.Rand, plain bool) Request {
	var daemons []*v1.Pod
	if r.IntN(2) == 0 {
		daemon := podOf("daemon", 100*r.Int64N(5), gib)
		daemon.Spec.NodeName = "template"
		daemons = append(daemons, daemon)
	}
	request := Request{Template: inZone([]string{"a", "b", "c"}[r.IntN(3)], daemons...)}
	request.Template.Node.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(3+r.Int64N(20), resource.DecimalSI)
	for range 1 + r.IntN(4) {
		request.Demands = append(request.Demands, Demand{Pod: randomPod(r, plain), Count: r.IntN(9)})
	}
	return request
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

// In bulk and one by one come to the same: nodes, and pods of each demand.
func TestEstimateEqualsPlacingOneByOne(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 4000 {
		cluster := checker.Cluster(randomCluster(r))
		request, limit := randomRequest(r, i%2 == 0), randomLimit(r)
		got, err := Estimate(cluster, request, limit)
		if err != nil {
			t.Fatal(err)
		}
		want, err := naive(cluster, request, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("case %d: naive -, ours +:\n%s\n%s", i, diff, describe(request))
		}
		checkBounds(t, request, got, limit)
	}
}

func describe(r Request) string {
	s := fmt.Sprintf("zone %s\n", r.Template.Node.Labels[v1.LabelTopologyZone])
	for _, d := range r.Demands {
		s += fmt.Sprintf("  %d x %s %v %v %v %v\n", d.Count, d.Pod.Name, d.Pod.Spec.Containers[0].Resources.Requests, d.Pod.Spec.Affinity,
			d.Pod.Spec.TopologySpreadConstraints, d.Pod.Spec.NodeSelector)
	}
	return s
}

// checkBounds: within the limit, no more nodes than pods, and no fewer than the
// sum of the requests needs.
func checkBounds(t *testing.T, r Request, e Estimation, limit int) {
	t.Helper()
	requested := podfit.Resources{}
	pods := 0
	for i, d := range r.Demands {
		if placed := e.Placed[i]; placed > d.Count || placed < 0 {
			t.Fatalf("demand %d: %d of %d", i, placed, d.Count)
		}
		pods += e.Placed[i]
		requested.Add(int64(e.Placed[i]), podfit.Requests(d.Pod))
	}
	if n := e.NodeCount; n > pods || n > limit {
		t.Fatalf("%d nodes for %d pods, at most %d", n, pods, limit)
	}
	if requested[v1.ResourceCPU] > int64(e.NodeCount)*4000 || requested[v1.ResourceMemory] > int64(e.NodeCount)*16*gib {
		t.Fatalf("%d nodes for %+v", e.NodeCount, requested)
	}
}

// A higher limit never places fewer pods.
func TestALargerLimitPlacesNoFewer(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		cluster, request := checker.Cluster(nil), randomRequest(r, true)
		last := make([]int, len(request.Demands))
		for limit := range 8 {
			e, err := Estimate(cluster, request, limit)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range e.Placed {
				if n < last[i] {
					t.Fatalf("limit %d: %v, before %v", limit, e.Placed, last)
				}
			}
			last = e.Placed
		}
	}
}

// An Estimator answers as Estimate does, whatever it was asked before, and
// leaves its cluster and the request as they are.
func TestEstimatorEqualsEstimate(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(3, 3))
	split := 0
	for i := range 150 {
		cluster := checker.Cluster(randomCluster(r))
		nodes := cluster.Len()
		e := New(cluster)
		request := randomRequest(r, i%3 == 0)
		request.Class = fmt.Sprint(i)
		before := describe(request)
		for range 8 {
			limit := randomLimit(r)
			got, err := e.Estimate(request, limit)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Estimate(cluster, request, limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s\n%s", diff, before)
			}
		}
		if describe(request) != before {
			t.Fatalf("the request became\n%s\n%s", describe(request), before)
		}
		if separable(request) {
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
		a, b := podfit.Resources{v1.ResourceCPU: amount(), v1.ResourceMemory: amount()},
			podfit.Resources{v1.ResourceCPU: amount(), v1.ResourceMemory: amount()}
		score := func(q podfit.Resources) *big.Rat {
			return new(big.Rat).Add(big.NewRat(q[v1.ResourceCPU], cpu), big.NewRat(q[v1.ResourceMemory], memory))
		}
		if got, want := sizeOn(cpu, memory, a).compare(sizeOn(cpu, memory, b)), score(a).Cmp(score(b)); got != want {
			t.Fatalf("%+v and %+v on %d, %d: %d, want %d", a, b, cpu, memory, got, want)
		}
	}
	for _, test := range []struct {
		cpu, memory int64
		want        int
	}{{0, 0, 0}, {0, 5, -1}, {5, 0, 1}} {
		large, small := podfit.Resources{v1.ResourceCPU: 9, v1.ResourceMemory: 1}, podfit.Resources{v1.ResourceCPU: 1, v1.ResourceMemory: 2}
		if got := sizeOn(test.cpu, test.memory, large).compare(sizeOn(test.cpu, test.memory, small)); got != test.want {
			t.Errorf("on %d, %d: %d, want %d", test.cpu, test.memory, got, test.want)
		}
	}
}

// arithmetic is first fit by sums of cpu, memory and pods alone: what the
// scheduler's plugins come to for pods that ask for nothing else.
func arithmetic(request Request, limit int) Estimation {
	type node struct{ cpu, memory, pods int64 }
	empty := node{4000, 16 * gib, request.Template.Node.Status.Allocatable.Pods().Value() - int64(len(request.Template.Pods))}
	for _, daemon := range request.Template.Pods {
		r := daemon.Spec.Containers[0].Resources.Requests
		empty.cpu, empty.memory = empty.cpu-r.Cpu().MilliValue(), empty.memory-r.Memory().Value()
	}
	var nodes []node
	e := Estimation{Placed: make([]int, len(request.Demands))}
	for _, d := range naiveOrder(request) {
		r := request.Demands[d].Pod.Spec.Containers[0].Resources.Requests
		cpu, memory := r.Cpu().MilliValue(), r.Memory().Value()
		takes := func(n node) bool { return n.cpu >= cpu && n.memory >= memory && n.pods >= 1 }
		for range request.Demands[d].Count {
			i := slices.IndexFunc(nodes, takes)
			if i < 0 {
				if len(nodes) == limit || !takes(empty) {
					break
				}
				i, nodes = len(nodes), append(nodes, empty)
			}
			nodes[i].cpu, nodes[i].memory, nodes[i].pods = nodes[i].cpu-cpu, nodes[i].memory-memory, nodes[i].pods-1
			e.Placed[d]++
		}
	}
	e.NodeCount = len(nodes)
	return e
}

func TestEstimateEqualsArithmeticForPlainPods(t *testing.T) {
	checker := newChecker(t)
	cluster := checker.Cluster(nil)
	r := rand.New(rand.NewPCG(6, 6))
	for i := range 6000 {
		request, limit := randomRequest(r, true), randomLimit(r)
		for d := range request.Demands {
			request.Demands[d].Count = r.IntN(60)
		}
		got, err := Estimate(cluster, request, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(arithmetic(request, limit), got); diff != "" {
			t.Fatalf("case %d: arithmetic -, ours +:\n%s\n%s", i, diff, describe(request))
		}
	}
}
