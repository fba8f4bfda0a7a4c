package predicates

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// changing is a cluster that changes as a real one does: what changes is another object
// in another list.
type changing struct {
	*dice
	nodes   []Node
	pending []*v1.Pod
	daemon  *v1.Pod
}

// happen lets one thing happen.
func (x *changing) happen() {
	at := x.IntN(max(1, len(x.nodes)))
	switch x.IntN(6) {
	case 0:
		x.nodes = slices.Concat(x.nodes, x.dice.nodes(1))
		x.host(len(x.nodes)-1, x.daemon)
	case 1:
		if len(x.nodes) > 2 {
			x.nodes = slices.Delete(slices.Clone(x.nodes), at, at+1)
		}
	case 2:
		if len(x.nodes) > 0 {
			n := x.nodes[at].Node.DeepCopy()
			n.Labels["pool"] = x.of("a", "b")
			n.Spec.Unschedulable = x.one(4)
			x.nodes[at].Node = n
		}
	case 3:
		if len(x.nodes) > 0 && len(x.nodes[at].Pods) > 0 {
			x.nodes[at].Pods = slices.Clone(x.nodes[at].Pods[1:])
		}
	default:
		if len(x.nodes) == 0 || len(x.pending) == 0 {
			x.pending = append(x.pending, x.some(3)...)
			return
		}
		x.host(at, x.pending[0])
		x.pending = x.pending[1:]
	}
}

// host binds a copy of a pod.
func (x *changing) host(at int, p *v1.Pod) {
	bound := *p
	bound.Spec.NodeName = x.nodes[at].Node.Name
	x.nodes[at].Pods = slices.Concat(x.nodes[at].Pods, []*v1.Pod{&bound})
}

// some are equal pods but for their names.
func (x *changing) some(n int) []*v1.Pod {
	p := x.pod()
	pods := []*v1.Pod{p}
	for range n - 1 {
		same := *p
		same.Name = x.name("pod")
		pods = append(pods, &same)
	}
	return pods
}

// TestWhatIsRememberedChangesNoAnswer compares a Checker that has seen all that
// happened to a cluster with one that forgets everything before each question.
func TestWhatIsRememberedChangesNoAnswer(t *testing.T) {
	t.Parallel()
	remember(t, Options{}, rounds(t, 60))
}

// The same where a profile has default constraints, for pods with owners.
func TestWhatIsRememberedOfDefaultConstraintsChangesNoAnswer(t *testing.T) {
	t.Parallel()
	remember(t, Options{Objects: owners(),
		Configuration: listDefaults("{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}")}, rounds(t, 30))
}

func remember(t *testing.T, o Options, rounds int) {
	t.Helper()
	c, forgetful := newChecker(t, o), newChecker(t, o)
	for seed := range uint64(rounds) {
		t.Logf("seed %d", seed)
		d := newDice(seed)
		d.owned = len(o.Configuration) > 0
		x := &changing{dice: d, nodes: slices.Concat(d.fleet(), d.nodes(2)), pending: []*v1.Pod{d.pod()}, daemon: d.pod()}
		for range 8 {
			x.happen()
			templates := []Node{d.template(), d.template()}
			forgetful.shared = nil
			want, err := forgetful.Fits(x.nodes, templates, x.pending)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Fits(x.nodes, templates, x.pending)
			sameFit(t, want, got, err)
			for i, n := range x.nodes {
				forgetful.shared = nil
				var free []*v1.Pod
				for _, p := range n.Pods {
					unbound := *p
					unbound.Spec.NodeName = ""
					free = append(free, &unbound)
				}
				want, err := forgetful.Fits(nil, templates, free)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.FitsElsewhere(templates, n.Pods)
				sameFit(t, want, got, err)
				if i == 2 {
					break
				}
			}
			x.remove(t, c, forgetful)
		}
	}
}

func sameFit(t *testing.T, want, got *Fit, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.kindOf, got.kindOf); diff != "" {
		t.Fatal("kinds differ (-want +got):", diff)
	}
	for template := range want.shapeOf {
		for k := range want.kinds {
			if diff := cmp.Diff(want.Reasons(template, k), got.Reasons(template, k)); diff != "" {
				t.Fatalf("kind %d on template %d (-want +got):\n%s", k, template, diff)
			}
			if name := want.kinds[k].Pod.Name; got.kinds[k].Pod.Name != name || got.kinds[k].Pod.Spec.NodeName != want.kinds[k].Pod.Spec.NodeName {
				t.Fatalf("%s stands for kind %d, want %s", got.kinds[k].Pod.Name, k, name)
			}
		}
	}
}

// remove compares Moves, which go on from one removal to the next, with a Cluster
// that is forked for each.
func (x *changing) remove(t *testing.T, c, forgetful *Checker) {
	t.Helper()
	closed := make([]bool, len(x.nodes))
	for i := range closed {
		closed[i] = x.one(5)
	}
	var pods []*v1.Pod
	for range 3 {
		pods = append(pods, x.pod())
	}
	for i := range pods {
		pods[i].Spec.NodeName = ""
	}
	var gone func(int) Node
	if x.one(2) {
		gone = func(i int) Node {
			n := *x.nodes[i].Node
			n.Spec.Taints = append(slices.Clip(n.Spec.Taints), v1.Taint{Key: "going", Effect: v1.TaintEffectNoSchedule})
			return Node{Node: &n, Pods: x.nodes[i].Pods[:min(1, len(x.nodes[i].Pods))]}
		}
	}
	forgetful.shared = nil
	f := &forked{cluster: forgetful.Cluster(x.nodes), closed: slices.Clone(closed), pods: pods, gone: gone}
	m, err := c.Moves(Moving{Nodes: x.nodes, Closed: closed, Pods: pods, Gone: gone})
	if err != nil {
		t.Fatal(err)
	}
	list := func() []int {
		var kinds []int
		for k := range pods {
			kinds = append(kinds, slices.Repeat([]int{k}, x.IntN(4))...)
		}
		return kinds
	}
	kinds := list()
	got, err := m.Place(kinds)
	if err != nil {
		t.Fatal(err)
	}
	want := f.place(t, f.cluster, kinds)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("moves differ (-want +got):\n%s", diff)
	}
	for range len(x.nodes) {
		node, kinds := x.IntN(len(x.nodes)), list()
		want, wantOK := f.remove(t, node, kinds)
		got, ok, err := m.Remove(node, kinds)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || ok != wantOK {
			t.Fatalf("node %d: removed %t, want %t (-want +got):\n%s\n%s", node, ok, wantOK, diff, fmt.Sprint(closed, kinds))
		}
	}
}

// forked removes nodes on a fork, and takes the fork over where it did.
type forked struct {
	cluster *Cluster
	closed  []bool
	pods    []*v1.Pod
	gone    func(int) Node
}

func (f *forked) remove(t *testing.T, node int, kinds []int) ([]Move, bool) {
	t.Helper()
	trial, wasClosed := f.cluster.Fork(), f.closed[node]
	f.closed[node] = true
	if f.gone != nil {
		trial.replace(t, node, f.gone(node))
	}
	moves := f.place(t, trial, kinds)
	pods := 0
	for _, m := range moves {
		pods += m.Pods
	}
	if pods < len(kinds) {
		f.closed[node] = wasClosed
		return nil, false
	}
	f.cluster = trial
	return moves, true
}

func (f *forked) place(t *testing.T, cluster *Cluster, kinds []int) []Move {
	t.Helper()
	var moves []Move
	for k := range f.pods {
		left := 0
		for _, kind := range kinds {
			left += toInt(kind == k)
		}
		for lo := 0; lo < len(f.closed); lo++ {
			hi := lo
			for hi < len(f.closed) && !f.closed[hi] {
				hi++
			}
			runs, err := cluster.Place(f.pods[k], left, lo, hi)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range runs {
				for node := run.First; node < run.First+run.Nodes; node++ {
					moves = append(moves, Move{Kind: k, Node: node, Pods: run.PerNode})
				}
				left -= run.Nodes * run.PerNode
			}
			lo = hi
		}
	}
	return moves
}

// TestLittleIsRememberedOfWhatIsGone: a Checker that has answered questions about many
// pods and nodes keeps a bounded number of them.
func TestLittleIsRememberedOfWhatIsGone(t *testing.T) {
	c, d := newChecker(t, Options{}), newDice(1)
	template := d.pod()
	most := 0
	for range 300 {
		nodes := d.nodes(3)
		for i := range nodes {
			nodes[i].Pods = nil
			for range 50 {
				p := *template
				p.Spec.NodeName = nodes[i].Node.Name
				nodes[i].Pods = append(nodes[i].Pods, &p)
			}
		}
		if _, err := c.Fits(nodes, nil, nodes[0].Pods); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(c.shared.known), len(c.shared.forms), len(c.shared.nodes))
	}
	if most < 150 || most > 3*(2*150+maxGonePods)/2 {
		t.Errorf("%d objects are remembered at one time", most)
	}
}

// TestAChangedObjectIsRefusedOnceAndThenLookedAtAnew: a Checker that has seen an object does not
// answer from what it was.
func TestAChangedObjectIsRefusedOnceAndThenLookedAtAnew(t *testing.T) {
	given := func() ([]Node, []*v1.Pod) {
		n := aNode("n").Node
		on := aPod()
		on.Name, on.Spec.NodeName = "on", "n"
		return []Node{{Node: n, Pods: []*v1.Pod{on}}}, []*v1.Pod{aPod()}
	}
	for name, change := range map[string]func(nodes []Node, pending []*v1.Pod){
		"pending pod":        func(_ []Node, pending []*v1.Pod) { pending[0].ResourceVersion = "2" },
		"pod bound in place": func(nodes []Node, pending []*v1.Pod) { pending[0].Spec.NodeName = "n" },
		"pod made anew":      func(_ []Node, pending []*v1.Pod) { pending[0].UID = "other" },
		"pod in a changed list": func(nodes []Node, _ []*v1.Pod) {
			nodes[0].Pods[0].ResourceVersion = "2"
			nodes[0].Pods = append(nodes[0].Pods, aPod())
		},
		"node":                   func(nodes []Node, _ []*v1.Pod) { nodes[0].Node.ResourceVersion = "2" },
		"node cordoned in place": func(nodes []Node, _ []*v1.Pod) { nodes[0].Node.Spec.Unschedulable = true },
		"node tainted in place": func(nodes []Node, _ []*v1.Pod) {
			nodes[0].Node.Spec.Taints = []v1.Taint{{Key: "gone", Effect: v1.TaintEffectNoSchedule}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for question, ask := range map[string]func(*Checker, *Scheduler, []Node, []*v1.Pod) error{
				"Fits": func(c *Checker, _ *Scheduler, nodes []Node, pending []*v1.Pod) error {
					_, err := c.Fits(nodes, []Node{aNode("template")}, pending)
					return err
				},
				"Bind": func(_ *Checker, s *Scheduler, nodes []Node, pending []*v1.Pod) error {
					_, err := s.Bind(nodes, nil, pending)
					return err
				},
			} {
				c := newChecker(t, Options{})
				s := c.Scheduler()
				nodes, pending := given()
				if err := ask(c, s, nodes, pending); err != nil {
					t.Fatal(question, err)
				}
				change(nodes, pending)
				if err := ask(c, s, nodes, pending); !errors.Is(err, ErrChangedObject) {
					t.Errorf("%s of a changed object: %v", question, err)
				}
				if err := ask(c, s, nodes, pending); err != nil {
					t.Errorf("%s once all is forgotten: %v", question, err)
				}
			}
		})
	}
}

// TestAListOfPodsMayChangeInPlace: pods are compared one by one, not by the list that they come in.
func TestAListOfPodsMayChangeInPlace(t *testing.T) {
	c := newChecker(t, Options{})
	on, port := aPod(), aPod()
	on.Name, port.Name = "on", "port"
	port.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}}
	wants := port.DeepCopy()
	nodes := []Node{{Node: aNode("n").Node, Pods: []*v1.Pod{on}}}
	for _, test := range []struct {
		with *v1.Pod
		want int
	}{{on, 1}, {port, 0}, {on, 1}} {
		nodes[0].Pods[0] = test.with
		cluster := c.Cluster(nodes)
		placed, err := cluster.Place(wants, 1, 0, 1)
		if err != nil || len(placed) != test.want {
			t.Errorf("beside %s the pod is placed %d times, want %d (%v)", test.with.Name, len(placed), test.want, err)
		}
	}
}
