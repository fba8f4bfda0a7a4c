package scaleup_test

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

var (
	worlds = flag.Uint64("worlds", 100, "how many random worlds are played")
	from   = flag.Uint64("from", 0, "the seed of the first of them")
)

// seeds are those of the worlds to be played.
func seeds() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range *worlds {
			if !yield(*from + i) {
				return
			}
		}
	}
}

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
			config.Groups = append(config.Groups, fake.Group{ID: fmt.Sprintf("m%d-%s", m, zone), MaxSize: most, BootTime: time.Minute, Template: machine(zone, cores, "64Gi")})
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

// withTimes has the nodes of each group come after one to four minutes, which is known.
func withTimes(r *rand.Rand, config *fake.Config, o *scaleup.Options) {
	o.StartupTimes = map[string]scaleup.StartupTime{}
	for i := range config.Groups {
		g := &config.Groups[i]
		g.BootTime = time.Duration(1+r.IntN(4)) * time.Minute
		o.StartupTimes[g.ID] = scaleup.StartupTime{Registered: g.BootTime, Ready: g.BootTime}
	}
}

// orderAll plays rounds until none orders any more.
func (f *fleet) orderAll(pods []*v1.Pod) {
	f.t.Helper()
	for f.roundOn(nil, pods...).Grew() > 0 {
		f.clock.Step(10 * time.Second)
	}
}

// played is the result of a world.
type played struct {
	nodes, empty int // at the end
	pending      int
	waited, last time.Duration // of all pods together, and until the last was bound
}

// play lets pods come, nodes come, the scheduler bind and rounds order, until nothing
// happens any more.
func play(t *testing.T, checker *predicates.Checker, config fake.Config, pods []*v1.Pod, o scaleup.Options) played {
	t.Helper()
	o.SequentialResize = true
	f := newFleet(t, checker, config, o)
	on := map[string][]*v1.Pod{}
	scheduler := checker.Scheduler()
	registered := func(ready bool) (nodes []predicates.Node) {
		for _, n := range f.cloud.RegisteredNodes() {
			if !ready || template.IsReady(n) {
				nodes = append(nodes, predicates.Node{Node: n, Pods: on[n.Name]})
			}
		}
		return nodes
	}
	var p played
	for {
		nodes := registered(true)
		places, err := scheduler.Bind(nodes, nil, pods)
		if err != nil {
			t.Fatal(err)
		}
		var left []*v1.Pod
		for i, at := range places {
			if at < 0 {
				left = append(left, pods[i])
				continue
			}
			name := nodes[at].Node.Name
			on[name] = slices.Concat(on[name], []*v1.Pod{pods[i]})
			p.last = f.clock.Since(start)
			p.waited += p.last
		}
		pods = left
		for f.roundOn(registered(false), pods...).Grew() > 0 { // as frequent loops do
		}
		next, more := f.cloud.NextEvent()
		if !more {
			break
		}
		f.clock.SetTime(next)
	}
	p.pending = len(pods)
	for _, n := range registered(false) {
		if p.nodes++; len(n.Pods) == 0 {
			p.empty++
		}
	}
	return p
}

// As long as nothing changes in between. Each round orders only nodes after which neither they nor
// those on their way stay empty, if no more are ordered, so this holds whatever later rounds do. It
// takes a scheduler whose choice among equal nodes can be foreseen: see Options.NodeNames.
func TestNoOrderedNodeStaysEmpty(t *testing.T) {
	checker := newChecker(t)
	for _, timed := range []bool{false, true} {
		for _, workloads := range []int{1, 2} {
			for seed := range seeds() {
				r := rand.New(rand.NewPCG(seed, uint64(7+workloads)))
				config, pods, o := tightWorld(r, workloads)
				if timed {
					withTimes(r, &config, &o)
				}
				if p := play(t, checker, config, pods, o); p.empty > 0 {
					t.Errorf("%d workloads, seed %d, times %t: %d of %d nodes stay empty", workloads, seed, timed, p.empty, p.nodes)
				}
			}
		}
	}
}

// The time for simulations is counted. Where none is left, it is still simulated what
// happens to the nodes of a round together with those on their way.
func TestARoundWithoutTimeOrdersNoNodeThatWouldStayEmptyAtOnce(t *testing.T) {
	checker := newChecker(t)
	ordered := 0
	for seed := range seeds() {
		config, pods, o := tightWorld(rand.New(rand.NewPCG(seed, 11)), 1+int(seed%3))
		o.SequentialResize = true
		var plans []scaleup.Round
		for range 2 {
			f := newFleet(t, checker, config, scaleup.WithoutTime(o))
			plans = append(plans, f.round(pods...))
			if len(plans) == 1 {
				continue
			}
			for _, g := range config.Groups {
				if n := f.sizes()[g.ID]; n > g.MaxSize {
					t.Errorf("seed %d: %s has %d nodes, at most %d", seed, g.ID, n, g.MaxSize)
				}
			}
			f.clock.Step(time.Minute)
			if empty, nodes := f.emptyNodes(checker, pods); empty > 0 {
				t.Errorf("seed %d: %d of %d nodes stay empty", seed, empty, nodes)
			}
			ordered += plans[1].Grew()
		}
		if diff := gocmp.Diff(plans[0].Decision.Increases, plans[1].Decision.Increases); diff != "" {
			t.Errorf("seed %d: another plan for the same world (-first +second):\n%s", seed, diff)
		}
	}
	if ordered == 0 {
		t.Error("no round ordered anything")
	}
}

// emptyNodes counts registered nodes, and those that the scheduler binds none of the
// pods to.
func (f *fleet) emptyNodes(checker *predicates.Checker, pods []*v1.Pod) (empty, all int) {
	f.t.Helper()
	var nodes []predicates.Node
	for _, n := range f.cloud.RegisteredNodes() {
		nodes = append(nodes, predicates.Node{Node: n})
	}
	places, err := checker.Scheduler().Bind(nodes, nil, pods)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range nodes {
		if !slices.Contains(places, i) {
			empty++
		}
	}
	return empty, len(nodes)
}

// To simulate the scheduler must not cost pods time, or nodes: in the same world Cluster Autoscaler
// orders what it estimates, round after round. A plan that leaves nodes empty may be better by just
// these: some rounds later another zone's nodes use up what barred them. As no round knows what the
// next will be able to order, it cannot order them on trust. So only plans without an empty node are
// equalled for certain; how often another one is better is logged.
func TestPodsRunAsSoonOnNoMoreNodesThanAsEstimated(t *testing.T) {
	checker := newChecker(t)
	for _, timed := range []bool{false, true} {
		var with, without played
		better, worse := 0, 0
		for seed := range seeds() {
			r := rand.New(rand.NewPCG(seed, 10))
			config, pods, o := tightWorld(r, 1+int(seed%3))
			if timed {
				withTimes(r, &config, &o)
			}
			a, b := play(t, checker, config, pods, o), play(t, checker, config, pods, scaleup.AsEstimated(o))
			with.nodes, with.empty, without.nodes, without.empty = with.nodes+a.nodes, with.empty+a.empty, without.nodes+b.nodes, without.empty+b.empty
			by := cmp.Or(cmp.Compare(a.pending, b.pending), cmp.Compare(a.last, b.last), cmp.Compare(a.nodes, b.nodes))
			switch {
			case by < 0:
				better++
			case by > 0 && b.empty > 0:
				worse++
			case by > 0:
				t.Errorf("seed %d, times %t: %d pods wait at the end, the last is bound after %s, and there are %d nodes; as estimated %d, %s and %d",
					seed, timed, a.pending, a.last, a.nodes, b.pending, b.last, b.nodes)
			}
		}
		t.Logf("times %t: %d nodes, %d of them empty; as estimated %d, %d of them empty; better %d times, worse %d times",
			timed, with.nodes, with.empty, without.nodes, without.empty, better, worse)
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
	if diff := gocmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1}, f.sizes()); diff != "" {
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
	if diff := gocmp.Diff(map[string]int{"large-a": 1, "large-c": 1, "small-b": 0}, f.sizes()); diff != "" {
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
	if diff := gocmp.Diff(map[string]int{"a": 3, "b": 1, "c": 3}, f.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	if round.Decision.Unplaced != 2 {
		t.Errorf("%d nodes unplaced, want 2", round.Decision.Unplaced)
	}
}

// TestATemplateThatCannotBeComparedStandsAlone: it does not stop the round of the other groups.
func TestATemplateThatCannotBeComparedStandsAlone(t *testing.T) {
	odd := zonal("odd", 0, 20)
	odd.Template.Pods = onePerNode("agent", 1, func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("-1m")}
	})
	f := newFleet(t, newChecker(t), fake.Config{Groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), odd}}, scaleup.Options{})
	r := f.round(onePerNode("web", 6)...)
	if w := r.Decision.Warnings; len(w) != 1 || !strings.HasPrefix(w[0], `node group "odd": pods[0].requests[cpu]: Invalid value: "-1m"`) {
		t.Errorf("warnings: %q", w)
	}
	if s := f.sizes(); s["a"]+s["b"]+s["odd"] != 6 || max(s["a"], s["b"]) > 3 && s["odd"] == 0 {
		t.Errorf("sizes: %v", s)
	}
}
