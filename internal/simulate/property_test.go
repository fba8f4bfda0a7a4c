package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/steering"
)

// randomSetup draws a small scenario: groups of two machine types in three zones,
// workloads that come, change and go, a quota, and faults.
func randomSetup(t *rapid.T) *Setup {
	chain, err := expander.New([]string{rapid.SampledFrom(expander.Names()[:4]).Draw(t, "expander")}, expander.Config{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	s := &Setup{Name: "random", Duration: 40 * time.Minute, Autoscaler: Autoscaler{Options: Options{Options: steering.Options{Chain: chain}}}}
	s.Options.NotBalanced = rapid.IntRange(0, 4).Draw(t, "balancing off") == 0
	for i := range rapid.IntRange(1, 5).Draw(t, "groups") {
		s.Cloud.Groups = append(s.Cloud.Groups, drawGroup(t, i))
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		w := drawWorkload(t, i)
		s.Workloads = append(s.Workloads, workload(&w))
		if rapid.IntRange(0, 2).Draw(t, "has a priority") == 0 {
			s.Workloads[i].Pod.Spec.Priority = new(rapid.SampledFrom([]int32{-20, -10, 0, 5}).Draw(t, "priority"))
		}
	}
	drawQuota(t, s)
	drawFaults(t, s)
	drawScaleDown(t, s)
	drawBudgets(t, s)
	return s
}

func drawBudgets(t *rapid.T, s *Setup) {
	for i := range rapid.IntRange(0, 2).Draw(t, "budgets") {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: fmt.Sprintf("b%d", i)}}
		b.Spec.Selector = &metav1.LabelSelector{}
		if rapid.Bool().Draw(t, "of one workload") {
			b.Spec.Selector.MatchLabels = map[string]string{"app": "w0"}
		}
		bound := intstr.FromInt32(rapid.Int32Range(0, 5).Draw(t, "bound"))
		if rapid.Bool().Draw(t, "percentage") {
			bound = intstr.FromString(fmt.Sprintf("%d%%", 20*bound.IntVal))
		}
		if rapid.Bool().Draw(t, "minimum") {
			b.Spec.MinAvailable = &bound
		} else {
			b.Spec.MaxUnavailable = &bound
		}
		s.Budgets = append(s.Budgets, b)
	}
}

func drawScaleDown(t *rapid.T, s *Setup) {
	if rapid.IntRange(0, 2).Draw(t, "scale-down off") == 0 {
		return
	}
	minutes := func(name string, most int) *time.Duration {
		d := time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Minute
		return &d
	}
	s.Options.MaxBalanceDeferral = minutes("deferral", 5)
	s.ScaleDown = &removal.Options{
		UnneededTime: minutes("unneeded time", 5), DelayAfterAdd: minutes("delay after add", 3),
		MaxDrainParallelism: rapid.IntRange(0, 3).Draw(t, "drains"),
	}
}

func drawGroup(t *rapid.T, i int) fake.Group {
	cores := rapid.SampledFrom([]int64{2, 8}).Draw(t, "cores")
	m := v1alpha1.ScenarioMachine{Name: fmt.Sprintf("m%d", cores), Resources: v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(cores, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(cores<<32, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(8, resource.DecimalSI),
	}}
	most := int32(rapid.IntRange(0, 6).Draw(t, "max"))
	g := v1alpha1.ScenarioNodeGroup{
		Name: fmt.Sprintf("g%d", i), Zone: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "zone"),
		Min: int32(rapid.IntRange(0, int(most)).Draw(t, "min")), Max: &most,
		Size: int32(rapid.IntRange(0, 4).Draw(t, "size")), Machine: m.Name,
	}
	return inlineGroup(&g, map[string]*v1alpha1.ScenarioMachine{m.Name: &m})
}

func drawWorkload(t *rapid.T, i int) v1alpha1.ScenarioWorkload {
	minutes := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }
	w := v1alpha1.ScenarioWorkload{
		Name: fmt.Sprintf("w%d", i), Replicas: int32(rapid.IntRange(0, 20).Draw(t, "replicas")),
		Arrive: minutes(rapid.IntRange(0, 3).Draw(t, "arrive")),
	}
	w.Requests = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(rapid.Int64Range(1, 30).Draw(t, "cpu")*100, resource.DecimalSI)}
	switch rapid.IntRange(0, 4).Draw(t, "kind of workload") {
	case 0:
		w.NodeSelector = map[string]string{v1.LabelTopologyZone: "x"}
	case 1:
		w.Spread = []v1alpha1.SpreadConstraint{{}}
	case 2:
		w.OnePerNode = true
	}
	if rapid.Bool().Draw(t, "scales") {
		w.Scale = []v1alpha1.ScaleStep{{At: minutes(8), Replicas: int32(rapid.IntRange(0, 30).Draw(t, "later replicas"))}}
	}
	if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
		leave := minutes(15)
		w.Leave = &leave
	}
	return w
}

func drawQuota(t *rapid.T, s *Setup) {
	if !rapid.Bool().Draw(t, "quota") {
		return
	}
	nodes := rapid.Int64Range(1, 12).Draw(t, "quota nodes")
	zones := []string{s.Cloud.Groups[0].Template.Node.Labels[v1.LabelTopologyZone]}
	q := v1alpha1.ScenarioQuota{Name: "q", Zones: zones, Nodes: &nodes}
	s.Cloud.Quotas = []v1alpha1.ScenarioQuota{q}
	s.Options.Quotas = documentQuotas([]v1alpha1.ScenarioQuota{q})
}

func drawFaults(t *rapid.T, s *Setup) {
	group := s.Cloud.Groups[0]
	window := during(time.Duration(rapid.IntRange(0, 5).Draw(t, "from"))*time.Minute, 10*time.Minute)
	switch rapid.IntRange(0, 5).Draw(t, "fault") {
	case 0:
		mode := rapid.SampledFrom([]string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent}).Draw(t, "stock-out")
		s.Cloud.StockOuts = []v1alpha1.StockOut{{Groups: []string{group.ID}, FaultWindow: window, Mode: mode, Left: 2}}
	case 1:
		zone := group.Template.Node.Labels[v1.LabelTopologyZone]
		mode := rapid.SampledFrom([]string{v1alpha1.OutageUnready, v1alpha1.OutageVanish}).Draw(t, "outage")
		s.Cloud.Outages = []v1alpha1.Outage{{Zones: []string{zone}, FaultWindow: window, Mode: mode}}
	case 2:
		s.Cloud.Calls = []v1alpha1.CallFault{{
			Methods: []string{fake.MethodIncreaseSize}, Groups: []string{group.ID}, First: 2,
			Delay: after(3 * time.Second), Error: "boom", AfterEffect: rapid.Bool().Draw(t, "after effect"),
		}}
	}
}

// play runs a scenario step by step and calls check after every one.
func play(t *rapid.T, setup *Setup, check func(*simulation)) *v1alpha1.ScenarioReport {
	ctx := context.Background()
	s, err := newSimulation(ctx, setup)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if err := s.step(ctx); err != nil {
			t.Fatal(err)
		}
		if check != nil {
			check(s)
		}
		if !s.jump(s.end()) {
			break
		}
	}
	report, err := s.report(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func sizeOf(t *rapid.T, s *simulation, group string) int {
	size, err := s.cloud.TargetSize(context.Background(), group)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// TestSizesStayWithinBoundsAndQuotas: at every instant no group is above its
// max, unless it started there, and no quota is exceeded by growth.
func TestSizesStayWithinBoundsAndQuotas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		play(t, setup, func(s *simulation) {
			counted, start := 0, 0
			for _, g := range setup.Cloud.Groups {
				size := sizeOf(t, s, g.ID)
				if size > max(g.MaxSize, g.Size) {
					t.Fatalf("+%s: %s has %d nodes, started with %d, max %d", s.elapsed(), g.ID, size, g.Size, g.MaxSize)
				}
				if len(setup.Cloud.Quotas) > 0 && slices.Contains(setup.Cloud.Quotas[0].Zones, nodegroupset.ZoneOf(g.Template.Node)) {
					counted, start = counted+size, start+g.Size
				}
			}
			if len(setup.Cloud.Quotas) > 0 && counted > max(start, int(*setup.Cloud.Quotas[0].Nodes)) {
				t.Fatalf("+%s: %d nodes under a quota of %d", s.elapsed(), counted, *setup.Cloud.Quotas[0].Nodes)
			}
		})
	})
}

// TestNodesAreConserved: every group ends with what it had, plus what was
// ordered, less what was given up.
func TestNodesAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		report := play(t, setup, nil)
		ordered := 0
		for _, g := range report.Status.Groups {
			if g.After != g.Before+g.Ordered-g.Removed {
				t.Fatalf("%s: %d + %d - %d is not %d", g.Name, g.Before, g.Ordered, g.Removed, g.After)
			}
			ordered += g.Ordered
		}
		if ordered != report.Status.NodesOrdered {
			t.Fatalf("the groups got %d nodes, %d were ordered", ordered, report.Status.NodesOrdered)
		}
	})
}

// TestScaleDownKeepsMinimums: a group that shrinks does not go below its minimum.
func TestScaleDownKeepsMinimums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		least := map[string]int{}
		for _, g := range setup.Cloud.Groups {
			least[g.ID] = g.MinSize
		}
		var seen *removal.Decision
		play(t, setup, func(s *simulation) {
			if s.last.scaleDown == seen {
				return
			}
			seen = s.last.scaleDown
			for _, at := range seen.Go {
				if group := seen.Nodes[at].Group; sizeOf(t, s, group) < least[group] {
					t.Fatalf("+%s: %s has %d nodes, at least %d", s.elapsed(), group, sizeOf(t, s, group), least[group])
				}
			}
		})
	})
}

// TestScaleDownTakesNoPodItsPlace: pods of a node that is removed run elsewhere in
// the same instant, or could: the scheduler may put them and others so that one
// finds no place, though all have one if they are put otherwise.
func TestScaleDownTakesNoPodItsPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		setup.Cloud.Outages, setup.Cloud.Calls = nil, nil
		setup.withoutPriorities() // pods lose their place to more important ones, too
		scaledDown := 0
		running, left := map[*pod]*node{}, map[*pod]*node{}
		play(t, setup, func(s *simulation) {
			now := sumOf(&runStatus{Timeline: s.timeline.rows}, v1alpha1.RowScaleDown, func(row *v1alpha1.TimelineRow) int { return row.Nodes })
			if now > scaledDown {
				checkMoved(t, s, running, left)
			}
			for _, p := range s.cluster.pods {
				if before := running[p]; before != nil && before != p.node {
					left[p] = before
				}
				running[p] = p.node
			}
			scaledDown = now
		})
	})
}

// withoutPriorities has all pods be equally important.
func (s *Setup) withoutPriorities() {
	for i := range s.Workloads {
		s.Workloads[i].Pod.Spec.Priority = nil
	}
	for _, p := range s.Pods {
		p.Spec.Priority = nil
	}
}

// checkMoved asks, if a pod that ran waits now, whether there is an order in which
// all pods of the nodes that are gone find places beside those that stayed. A node
// that budgets let go of step by step is there until its last pod has gone: those
// that left it before are among them.
func checkMoved(t *rapid.T, s *simulation, running, left map[*pod]*node) {
	stay := map[*node][]*v1.Pod{}
	var moved []*v1.Pod
	var waits *pod
	for _, p := range s.cluster.pods {
		switch from := left[p]; {
		case running[p] == nil:
		case running[p] == p.node && (from == nil || !slices.Contains(s.cluster.nodes, from)):
			stay[p.node] = append(stay[p.node], p.object)
		default:
			free := p.object.DeepCopy()
			free.Spec.NodeName = ""
			moved = append(moved, free)
			if p.node == nil {
				waits = p
			}
		}
	}
	if waits == nil {
		return
	}
	var nodes []predicates.Node
	for _, n := range s.cluster.nodes {
		if n.ready {
			nodes = append(nodes, predicates.Node{Node: n.object, Pods: append(slices.Clone(n.daemons), stay[n]...)})
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		if fits(t, s.checker.Cluster(nodes), moved) {
			return
		}
		random.Shuffle(len(moved), func(i, j int) { moved[i], moved[j] = moved[j], moved[i] })
	}
	t.Fatalf("+%s: %s ran, and now it waits: there is no place for all %d pods of the nodes that are gone", s.elapsed(), waits.object.Name,
		len(moved))
}

// fits reports whether all pods find places, one after the other.
func fits(t *rapid.T, c *predicates.Cluster, pods []*v1.Pod) bool {
	for _, p := range pods {
		placed, err := c.Place(p, 1, 0, c.Len())
		if err != nil {
			t.Fatal(err)
		}
		if len(placed) == 0 {
			return false
		}
	}
	return true
}

// TestBoundPodsFit: every bound pod passes the scheduler's filters on its node
// beside the others, and by plain arithmetic no node is overcommitted.
func TestBoundPodsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		play(t, randomSetup(t), func(s *simulation) {
			for _, n := range s.cluster.seen() {
				cpu := int64(0)
				for _, p := range n.Pods {
					requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
					cpu += requests.Cpu().MilliValue()
				}
				if free := n.Node.Status.Allocatable.Cpu().MilliValue(); cpu > free || len(n.Pods) > 8 {
					t.Fatalf("+%s: node %s of %d has %d pods that want %d", s.elapsed(), n.Node.Name, free, len(n.Pods), cpu)
				}
			}
			for _, p := range s.cluster.pods {
				if p.node != nil && p.node.ready {
					checkPlace(t, s, p)
				}
			}
		})
	})
}

// checkPlace takes a pod off its node and asks whether it may come back. Spread
// constraints are left out: they hold when a pod is bound, and may be broken
// later by pods that leave.
func checkPlace(t *rapid.T, s *simulation, p *pod) {
	node := predicates.Node{Node: p.node.object, Pods: slices.Clone(p.node.daemons)}
	for _, other := range s.cluster.pods {
		if other != p && other.node == p.node {
			node.Pods = append(node.Pods, other.object)
		}
	}
	pod := p.object.DeepCopy()
	pod.Spec.NodeName, pod.Spec.TopologySpreadConstraints = "", nil
	fit, err := s.checker.Fits(nil, []predicates.Node{node}, []*v1.Pod{pod})
	if err != nil {
		t.Fatal(err)
	}
	if !fit.Passes(0, 0) {
		t.Fatalf("+%s: pod %s does not fit node %s: %v", s.elapsed(), pod.Name, node.Node.Name, fit.Reasons(0, 0))
	}
}

// TestOrderOfGroupsIsIrrelevant: the groups of the cloud in any order give the
// same report, and so does a second run.
func TestOrderOfGroupsIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		first := bytesOf(t, play(t, setup, nil))
		if again := bytesOf(t, play(t, setup, nil)); again != first {
			t.Fatalf("a second run differs:\n%s\n%s", first, again)
		}
		shuffled := *setup
		shuffled.Cloud.Groups = slices.Clone(setup.Cloud.Groups)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		r.Shuffle(len(shuffled.Cloud.Groups), func(i, j int) {
			g := shuffled.Cloud.Groups
			g[i], g[j] = g[j], g[i]
		})
		if other := bytesOf(t, play(t, &shuffled, nil)); other != first {
			t.Fatalf("another order differs:\n%s\n%s", first, other)
		}
	})
}

func bytesOf(t *rapid.T, r *v1alpha1.ScenarioReport) string {
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPodsAreConserved: pods are pending or on a node that exists, as many as
// the workloads say.
func TestPodsAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		play(t, setup, func(s *simulation) {
			want := 0
			for _, w := range setup.Workloads {
				replicas := 0
				for _, step := range w.Steps {
					if step.At <= s.elapsed() {
						replicas = step.Replicas
					}
				}
				want += replicas
			}
			bound := 0
			for _, n := range s.cluster.seen() {
				bound += len(n.Pods)
			}
			if pending := len(s.cluster.waiting()); len(s.cluster.pods) != want || bound+pending != want {
				t.Fatalf("+%s: %d pods, %d bound and %d pending, want %d", s.elapsed(), len(s.cluster.pods), bound, pending, want)
			}
		})
	})
}

// after is a time of a fault; nil for none.
func after(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

// during is when a fault lasts; until 0 is forever.
func during(from, until time.Duration) v1alpha1.FaultWindow {
	return v1alpha1.FaultWindow{From: metav1.Duration{Duration: from}, Until: after(until)}
}
