package schedule

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/predicates"
)

// The labels by which the nodes of three clouds are known.
var pools = []string{"eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "cloud.google.com/gke-nodepool"}

// TestRoomEqualsTheFiltersFromScratch: whatever happens to nodes and pods, a pod has room exactly if every
// filter of the scheduler, asked from scratch, lets it onto some node beside the pods that are there and
// those for which room is held; every pending pod has room held or fits nowhere; and nothing is kept of
// what is gone.
func TestRoomEqualsTheFiltersFromScratch(t *testing.T) {
	checker, err := predicates.New(t.Context(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t, Options{})
		d := drawer{r, rapid.SampledFrom(pools).Draw(r, "cloud")}
		var pods []*v1.Pod
		for i := range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch rapid.IntRange(0, 7).Draw(r, "step") {
			case 0, 1:
				f.nodes(d.node())
			case 2:
				f.changed(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: d.name()}}, true)
			case 3:
				p := created(d.pod(fmt.Sprint("id-", i)), fmt.Sprint("pod-", i))
				pods = append(pods, p)
				f.set(p)
			case 4:
				if len(pods) > 0 {
					at := rapid.IntRange(0, len(pods)-1).Draw(r, "pod")
					if pods[at].Spec.NodeName == "" {
						pods[at] = bound(pods[at], d.name())
						pods[at].Spec.SchedulingGates = nil
						f.set(pods[at])
					}
				}
			case 5:
				if len(pods) > 0 {
					gone := pods[len(pods)-1]
					pods = pods[:len(pods)-1]
					f.changed(gone, true)
				}
			case 6:
				f.clock.Step(time.Duration(rapid.IntRange(1, 70).Draw(r, "seconds")) * time.Second)
			}
			p := d.pod(fmt.Sprint("ask-", i))
			p.Spec.SchedulingGates, p.Spec.Priority = nil, ptr.To[int32](-1)
			d.compare(f, checker, p)
		}
		for _, p := range pods {
			f.changed(p, true)
		}
		f.clock.Step(time.Hour)
		f.ask("x")
		if len(f.c.pods)+len(f.c.pending) > 0 {
			r.Fatalf("%d pods, %d pending are left", len(f.c.pods), len(f.c.pending))
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if left := f.c.live.Node(name).Pods; len(left) > 0 {
				r.Fatalf("%d pods are left on node %s", len(left), name)
			}
		}
	})
}

type drawer struct {
	*rapid.T
	pool string
}

func (d drawer) of(values ...string) string { return rapid.SampledFrom(values).Draw(d.T, "value") }
func (d drawer) one(in int) bool            { return rapid.IntRange(1, in).Draw(d.T, "chance") == 1 }
func (d drawer) name() string               { return d.of("a", "b", "c", "d") }

func (d drawer) node() *v1.Node {
	return node(d.name(), "", int64(rapid.IntRange(0, 3).Draw(d.T, "cpu")), func(n *v1.Node) {
		n.Labels[d.pool], n.Labels[v1.LabelTopologyZone] = d.of("spot", "demand"), d.of("z1", "z2", "z3")
		if d.one(4) {
			n.Spec.Taints = []v1.Taint{{Key: "spot", Effect: v1.TaintEffectNoSchedule}}
		}
	})
}

func (d drawer) pod(id string) *v1.Pod {
	return pod(id, "", func(p *v1.Pod) {
		p.Labels["app"] = d.of("web", "db")
		p.Spec.NodeSelector = nil
		if d.one(2) {
			p.Spec.NodeSelector = map[string]string{d.pool: d.of("spot", "demand")}
		}
		if d.one(3) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "spot", Operator: v1.TolerationOpExists}}
		}
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}
		if d.one(3) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: d.of(v1.LabelTopologyZone, v1.LabelHostname), WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector}}
		}
		if d.one(4) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{LabelSelector: selector, TopologyKey: d.of(v1.LabelTopologyZone, v1.LabelHostname)}}}}
		}
		if d.one(5) {
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}}
		}
	})
}

// compare compares one answer, and what is held, with the filters asked from scratch.
func (d drawer) compare(f *fixture, checker *predicates.Checker, p *v1.Pod) {
	got := f.Room(f.t.Context(), []*v1.Pod{p})[0]
	f.Decided(p, false)
	f.Room(f.t.Context(), nil) // takes that over
	var nodes []predicates.Node
	for _, name := range slices.Sorted(maps.Keys(f.c.nodes)) {
		nodes = append(nodes, f.c.live.Node(name))
	}
	fits := func(p *v1.Pod) bool {
		reasons, err := checker.Reasons(nodes, p)
		if err != nil {
			d.Fatal(err)
		}
		return slices.ContainsFunc(reasons, func(r []predicates.Reason) bool { return len(r) == 0 })
	}
	want := none
	if fits(p) {
		want = onNode
	}
	if got != want {
		d.Fatalf("pod %+v: %v, want %v on %d nodes", p.Spec, got, want, len(nodes))
	}
	for p := range f.c.pending {
		if p.seen && p.node == "" && fits(p.Pod) {
			d.Fatalf("no room is held for %s, which fits", p.key)
		}
	}
}

// TestQuestionsInParallel: questions, changes and the loop that takes these over do not disturb each other.
func TestQuestionsInParallel(t *testing.T) {
	s, err := New(t.Context(), Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s.changed(node("a", "spot", 50), false)
	var loop, all sync.WaitGroup
	loop.Go(func() { _ = s.Run(t.Context()) })
	var mu sync.Mutex
	rooms := 0
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				id := fmt.Sprintf("%d-%d", i, j)
				if s.Room(t.Context(), subsets(id, "spot"))[0] == onNode {
					s.Decided(pod(id, "spot"), true)
					s.changed(created(pod(id, "spot"), "pod-"+id), false)
					mu.Lock()
					rooms++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if rooms != 50 {
		t.Errorf("room for %d pods, want 50", rooms)
	}
}

// BenchmarkRoom asks about new pods of 100 WorkloadSpreads with three subsets each, while pods are bound;
// ten pods run on each node.
func BenchmarkRoom(b *testing.B) {
	for _, spread := range []bool{false, true} {
		for _, size := range []int{100, 1_000, 5_000} {
			b.Run(fmt.Sprintf("spread=%t/nodes=%d", spread, size), func(b *testing.B) { benchmarkRoom(b, size, spread) })
		}
	}
}

func benchmarkRoom(b *testing.B, size int, spread bool) {
	s, err := New(b.Context(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	names := []string{"spot", "burst", "demand"}
	of := func(id string, workload int, subset string) *v1.Pod {
		p := pod(id, subset)
		p.Labels["app"] = fmt.Sprint("app-", workload)
		if spread {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: v1.LabelTopologyZone,
				WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}}}
		}
		return p
	}
	for i := range size {
		name := fmt.Sprint("node-", i)
		cpu := int64(64)
		if i%3 == 0 {
			cpu = 10 // is full
		}
		s.changed(node(name, names[i%3], cpu, func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = fmt.Sprint("z", i%5) }), false)
		for j := range 10 {
			id := fmt.Sprintf("%d-%d", i, j)
			s.changed(bound(created(of(id, j*7%100, names[i%3]), "old-"+id), name), false)
		}
	}
	if err := s.c.update(func() bool { return false }); err != nil {
		b.Fatal(err)
	}
	ask := func(i int) []*v1.Pod {
		var pods []*v1.Pod
		for _, name := range names {
			pods = append(pods, of(fmt.Sprint("new-", i), i%100, name))
		}
		return pods
	}
	s.o.Timeout = time.Minute
	for i := range 100 {
		s.Room(b.Context(), ask(i))
	}
	s.o.Timeout = DefaultTimeout
	var took []time.Duration
	late, i := 0, 100
	b.ReportAllocs()
	for b.Loop() {
		pods := ask(i)
		begin := time.Now()
		rooms := s.Room(b.Context(), pods)
		took = append(took, time.Since(begin))
		if rooms[2] == unknown {
			late++
		}
		s.Decided(pods[1], true)
		exists := created(pods[1], fmt.Sprint("new-", i))
		s.changed(exists, false)
		s.changed(bound(exists, fmt.Sprint("node-", (3*i+1)%(size-size%3))), false)
		i++
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(late)/float64(len(took)), "unknown/op")
}
