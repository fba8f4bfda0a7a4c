package removal

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// planned draws a world and plans it.
func planned(t *rapid.T, checker *predicates.Checker) (*planner, Decision) {
	return planOf(t, checker, drawWorld(t))
}

func planOf(t *rapid.T, checker *predicates.Checker, w *World) (*planner, Decision) {
	o := drawOptions(t)
	d, err := Memory{}.Plan(w, checker, o)
	if err != nil {
		t.Fatal(err)
	}
	return newPlanner(w, checker, o), d
}

// goers are the nodes that go.
func goers(w *World, d *Decision) []*Node {
	byName := map[string]*Node{}
	for i := range w.Nodes {
		byName[w.Nodes[i].Node.Node.Name] = &w.Nodes[i]
	}
	var nodes []*Node
	for _, at := range d.Go {
		nodes = append(nodes, byName[d.Nodes[at].Node])
	}
	return nodes
}

// TestPlanKeepsMinimumsAndLimits: no group goes below its minimum, and no more
// nodes are on their way out than may be.
func TestPlanKeepsMinimumsAndLimits(t *testing.T) {
	checker := newChecker(t)
	rapid.Check(t, func(t *rapid.T) {
		p, d := planned(t, checker)
		left := map[string]int{}
		for _, g := range p.world.Groups {
			left[g.ID] = g.Target
		}
		leaving, drains := 0, 0
		for _, n := range p.world.Nodes {
			if n.Leaving {
				leaving++
				if n.Draining {
					drains++
				}
			}
		}
		for _, n := range goers(p.world, &d) {
			leaving++
			if d := p.world.drainOf(n, &p.opts); len(d.movable) > 0 {
				drains++
				if most := max(1, p.opts.MaxDrainParallelism); drains > most {
					t.Fatalf("%d drains, at most %d", drains, most)
				}
			}
			if left[n.Group]--; left[n.Group] < p.groups[n.Group].Min {
				t.Fatalf("%s is at %d, below its minimum of %d", n.Group, left[n.Group], p.groups[n.Group].Min)
			}
		}
		for _, f := range p.world.Floors {
			var taken int64
			for i := range p.world.Nodes {
				if slices.Contains(goers(p.world, &d), &p.world.Nodes[i]) {
					taken += f.Takes[i]
				}
			}
			if taken > f.Left {
				t.Fatalf("%d go of %s, at most %d may", taken, f.Name, f.Left)
			}
		}
		most := p.opts.MaxParallelism
		if most == 0 {
			most = DefaultMaxParallelism
		}
		if len(d.Go) > 0 && leaving > most {
			t.Fatalf("%d nodes leave, at most %d", leaving, most)
		}
	})
}

// TestPlanRemovesOnlyWhatMayGo restates the rules in the plainest words and holds
// every node that goes against them.
func TestPlanRemovesOnlyWhatMayGo(t *testing.T) {
	checker := newChecker(t)
	rapid.Check(t, func(t *rapid.T) {
		p, d := planned(t, checker)
		for _, n := range goers(p.world, &d) {
			g, object := p.groups[n.Group], n.Node.Node
			patience := 10 * time.Minute
			if object.Status.Conditions[0].Status != v1.ConditionTrue {
				patience = 20 * time.Minute
			}
			cpu := int64(0)
			for _, pod := range n.Pods {
				requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
				cpu += requests.Cpu().MilliValue()
				owner := metav1.GetControllerOf(pod)
				daemon := owner != nil && owner.Kind == "DaemonSet"
				if !daemon && (owner == nil || pod.Annotations[safeToEvict] == "false" || pod.Namespace == "kube-system" &&
					len(p.world.budgetsOf(pod)) == 0 || len(pod.Spec.Volumes) > 0) {
					t.Fatalf("%s goes with pod %s", object.Name, pod.Name)
				}
			}
			switch {
			case n.Leaving, object.Annotations[scaleDownDisabled] != "", g.AllOrNothing, g.Target <= g.Min, cpu > 2000:
				t.Fatalf("%s is no candidate", object.Name)
			case n.UnneededSince.IsZero(), start.Sub(n.UnneededSince) < patience, start.Before(p.world.CoolingUntil):
				t.Fatalf("%s goes too early", object.Name)
			}
		}
	})
}

// TestHooksDecide: candidates are tried in the order that Order returns, and only what Select names
// goes.
func TestHooksDecide(t *testing.T) {
	checker := newChecker(t)
	rapid.Check(t, func(t *rapid.T) {
		w, o := drawWorld(t), drawOptions(t)
		var offered []string
		o.Order = func(nodes []*v1.Node, _ func(*v1.Node) bool) []*v1.Node {
			slices.SortFunc(nodes, func(a, b *v1.Node) int { return strings.Compare(b.Name, a.Name) })
			return nodes
		}
		o.Select = func(nodes []Candidate, limit, drains int) nodegroupset.ShrinkResult {
			if limit < 0 || drains < 0 {
				t.Fatalf("limits %d and %d", limit, drains)
			}
			var s nodegroupset.ShrinkResult
			for i, n := range nodes {
				offered = append(offered, n.Node.Name)
				if i > 0 {
					s.Waits = append(s.Waits, nodegroupset.ShrinkWait{Candidate: i, Reason: nodegroupset.ReasonWaitsForLevel, Behind: "b"})
				}
			}
			if len(nodes) > 0 {
				s.Go = []int{0}
			}
			return s
		}
		d, err := Memory{}.Plan(w, checker, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range d.Nodes {
			switch at := slices.Index(offered, out.Node); {
			case at == 0 && out.Outcome != NodeGoes, at > 0 && (out.Outcome != WaitsForLevel || out.Behind != "b"), at < 0 &&
				out.Outcome == NodeGoes:
				t.Fatalf("%s is number %d of those offered and %s", out.Node, at, out.Outcome)
			}
		}
		if len(offered) > 1 && !d.Next.After(w.Now) {
			t.Fatalf("nodes wait, and the next look is at %s", d.Next)
		}
	})
}

// TestPlanIsPure: the same world gives the same decision and is not changed.
func TestPlanIsPure(t *testing.T) {
	checker := newChecker(t)
	rapid.Check(t, func(t *rapid.T) {
		w, o := drawWorld(t), drawOptions(t)
		before := make([]Node, len(w.Nodes))
		for i, n := range w.Nodes {
			before[i] = n
			before[i].Node = predicates.Node{Node: n.Node.Node.DeepCopy()}
			for _, pod := range n.Pods {
				before[i].Pods = append(before[i].Pods, pod.DeepCopy())
			}
		}
		first, err := Memory{}.Plan(w, checker, o)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Memory{}.Plan(w, checker, o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal("a second plan differs:", diff)
		}
		if diff := cmp.Diff(before, w.Nodes, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal("the world was changed:", diff)
		}
	})
}

// TestRemovalsMatchOracle tries the candidates in the same order, pod by pod and
// node by node on a cluster built anew for every question.
func TestRemovalsMatchOracle(t *testing.T) {
	checker := newChecker(t)
	rapid.Check(t, func(t *rapid.T) {
		p := newPlanner(drawWorld(t), checker, drawOptions(t))
		p.findCandidates()
		err := p.kindsOfPods()
		p.order()
		if err = errors.Join(err, p.tryRemovals()); err != nil {
			t.Fatal(err)
		}
		want := newOracle(p).unneeded(t)
		for _, i := range p.candidates {
			o := p.outcome[i].Outcome
			if got := o != NodeNeeded && o != NodeBlocked; got != want[i] {
				t.Fatalf("%s: %s, the oracle says that it is unneeded: %t", p.outcome[i].Node, o, want[i])
			}
		}
	})
}

// oracle is the cluster during the removals.
type oracle struct {
	*planner
	order []int                   // nodes as places
	nodes map[int]predicates.Node // as they stand
	moves map[int][]*v1.Pod       // pods to move from a node
	shut  map[int]bool            // nodes that take no pods
}

func newOracle(p *planner) *oracle {
	o := &oracle{
		planner: p, order: p.places(), nodes: map[int]predicates.Node{},
		moves: map[int][]*v1.Pod{}, shut: map[int]bool{},
	}
	for i := range p.world.Nodes {
		o.nodes[i], o.shut[i] = p.world.Nodes[i].Node, !takesPods(&p.world.Nodes[i])
	}
	for _, i := range p.candidates {
		o.moves[i] = p.pods.toMove[i]
	}
	return o
}

func (o *oracle) unneeded(t *rapid.T) map[int]bool {
	o.settle(t, o.nodes, o.moves, o.world.Pending)
	result, allowed := map[int]bool{}, map[int]int{}
	for b, budget := range o.world.Budgets {
		allowed[b] = budget.Allowed
	}
	for _, i := range o.candidates {
		selected, exhausted := o.selected(i), false
		for b, n := range selected {
			exhausted = exhausted || n > 0 && allowed[b] < 1
		}
		if exhausted {
			continue
		}
		nodes, moves := maps.Clone(o.nodes), maps.Clone(o.moves)
		shut := o.shut[i]
		o.shut[i] = true
		nodes[i] = departed(nodes[i])
		if result[i] = o.settle(t, nodes, moves, moves[i]); result[i] {
			o.nodes, o.moves = nodes, moves
			for b, n := range selected {
				allowed[b] -= n
			}
		} else {
			o.shut[i] = shut
		}
	}
	return result
}

// selected counts the pods of a node that move under each budget.
func (o *oracle) selected(i int) map[int]int {
	counts := map[int]int{}
	for _, pod := range o.world.Nodes[i].Pods {
		owner := metav1.GetControllerOf(pod)
		for b, budget := range o.world.Budgets {
			if owner != nil && owner.Kind != "DaemonSet" && budget.Namespace == pod.Namespace && budget.Selector.Matches(labels.Set(pod.Labels)) {
				counts[b]++
			}
		}
	}
	return counts
}

// settle places pods one by one, in the rank of their kinds, and reports whether all
// have found a place.
func (o *oracle) settle(t *rapid.T, nodes map[int]predicates.Node, moves map[int][]*v1.Pod, pods []*v1.Pod) bool {
	all := true
	for _, pod := range o.ranked(t, pods) {
		found := false
		for at, i := range o.order {
			if o.shut[i] {
				continue
			}
			var list []predicates.Node
			for _, k := range o.order {
				list = append(list, nodes[k])
			}
			placements, err := o.checker.Cluster(list).Place(pod, 1, at, at+1)
			if err != nil {
				t.Fatal(err)
			}
			if len(placements) > 0 {
				n := nodes[i]
				n.Pods = append(slices.Clip(n.Pods), pod)
				nodes[i], moves[i] = n, append(slices.Clip(moves[i]), pod)
				found = true
				break
			}
		}
		all = all && found
	}
	return all
}

// ranked sorts unbound copies of pods by the rank of their kinds.
func (o *oracle) ranked(t *rapid.T, pods []*v1.Pod) []*v1.Pod {
	type ranked struct {
		pod  *v1.Pod
		rank int
	}
	var list []ranked
	for _, pod := range pods {
		unbound := *pod
		unbound.Spec.NodeName = ""
		representatives := []*v1.Pod{&unbound}
		for _, kind := range o.pods.kinds {
			representatives = append(representatives, kind.Pod)
		}
		fit, err := o.checker.Fits(nil, nil, representatives)
		if err != nil {
			t.Fatal(err)
		}
		for k := range o.pods.kinds {
			if fit.KindOf(0) == fit.KindOf(k+1) {
				list = append(list, ranked{&unbound, o.pods.rank[k]})
				break
			}
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return a.rank - b.rank })
	var sorted []*v1.Pod
	for _, r := range list {
		sorted = append(sorted, r.pod)
	}
	return sorted
}
