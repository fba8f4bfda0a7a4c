package steering_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/steering"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// asker is a Cluster Autoscaler that asks an expander alone, of one set of groups.
type asker struct {
	t        interface{ Fatal(...any) }
	state    *steering.State
	now      time.Time
	sizes    map[string]steering.GroupSize
	effects  steering.Effects // of the last step
	warnings []string
}

func newAsker(t interface{ Fatal(...any) }, groups ...steering.GroupSize) *asker {
	state, err := steering.New("", steering.Options{ExpanderOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{t: t, state: state, now: start, sizes: map[string]steering.GroupSize{}}
	for _, g := range groups {
		a.sizes[g.Name] = g
	}
	return a
}

func (a *asker) step(e steering.Event) steering.Answer {
	answer, effects := a.state.Step(a.now, e)
	a.effects = effects
	a.warnings = append(a.warnings, effects.Warnings...)
	if answer.Err != nil {
		a.t.Fatal(answer.Err)
	}
	return answer
}

// ask asks for nodes in each of the groups that can grow, or in the given ones.
func (a *asker) ask(nodes int, in ...string) string {
	var pods []*v1.Pod
	for i := range nodes {
		pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}})
	}
	return a.asks(pods, nodes, in...)
}

// asks is ask for certain pods.
func (a *asker) asks(of []*v1.Pod, nodes int, in ...string) string {
	a.now = a.now.Add(20 * time.Millisecond)
	q := steering.Question{Nodes: map[string]*v1.Node{}, Pods: of}
	pods := make([]int, len(of))
	for i := range pods {
		pods[i] = i
	}
	for _, name := range slices.Sorted(maps.Keys(a.sizes)) {
		g := a.sizes[name]
		q.Nodes[name] = machine(name)
		if len(in) > 0 && !slices.Contains(in, name) || g.Target >= g.MaxSize && g.MaxSize > 0 || g.BackedOff != "" {
			continue
		}
		n := nodes
		if g.MaxSize > 0 {
			n = min(n, g.MaxSize-g.Target)
		}
		q.Options = append(q.Options, expander.Offer{Group: name, NodeCount: n, Pods: pods[:n]})
	}
	return a.step(steering.Asked{Question: q}).Group
}

// order is what Cluster Autoscaler does after an answer.
func (a *asker) order(group string, nodes int) {
	g := a.sizes[group]
	g.Target += nodes
	a.sizes[group] = g
}

// loop ends a loop: its status has the time at which it began.
func (a *asker) loop(began time.Time) {
	a.now = a.now.Add(20 * time.Millisecond)
	var groups []steering.GroupSize
	for _, name := range slices.Sorted(maps.Keys(a.sizes)) {
		groups = append(groups, a.sizes[name])
	}
	a.step(steering.Sizes{Began: began, Groups: groups})
}

func (a *asker) set(name string, change func(*steering.GroupSize)) {
	g := a.sizes[name]
	change(&g)
	a.sizes[name] = g
}

func threeGroups(sizes ...int) (out []steering.GroupSize) {
	for i, n := range sizes {
		out = append(out, steering.GroupSize{Name: string(rune('a' + i)), Target: n, Ready: n, MaxSize: 100})
	}
	return out
}

// TestAnswersCountUntilTheyShow: within a loop, with --salvo-scale-up, and until a status of it has come.
func TestAnswersCountUntilTheyShow(t *testing.T) {
	a := newAsker(t, threeGroups(2, 0, 1)...)
	a.loop(a.now)
	var got []string
	began := a.now
	for range 6 {
		got = append(got, a.ask(1))
	}
	if want := "b b c a b c"; strings.Join(got, " ") != want {
		t.Errorf("in one loop %v, want %s", got, want)
	}
	a.loop(began) // that of the loop before came late: it shows nothing of the answers
	if next := a.ask(1); next != "a" {
		t.Errorf("after a late status %s, want a", next)
	}
	// Nothing was ordered: after another status the answers do not count any more.
	a.loop(began.Add(time.Millisecond))
	a.loop(a.now)
	if next := a.ask(1); next != "b" {
		t.Errorf("after answers that never showed %s, want b", next)
	}
}

// TestAnswersAreNotCountedTwice: what a status shows does not count again.
func TestAnswersAreNotCountedTwice(t *testing.T) {
	a := newAsker(t, threeGroups(0, 0, 0)...)
	for range 10 {
		began := a.now
		for range 3 {
			a.order(a.ask(1), 1)
		}
		a.loop(began)
	}
	for name, g := range a.sizes {
		if g.Target != 10 || a.state.Target(name) != 10 {
			t.Errorf("%s has %d nodes and %d count, want 10", name, g.Target, a.state.Target(name))
		}
	}
}

// TestAnswerThatDidNotArrive: Cluster Autoscaler had stopped waiting.
func TestAnswerThatDidNotArrive(t *testing.T) {
	a := newAsker(t, threeGroups(0, 0, 0)...)
	first := a.ask(1)
	a.step(steering.Unread{})
	if second := a.ask(1); second != first {
		t.Errorf("answered %s, which did not arrive, and then %s", first, second)
	}
}

// TestTrial: a group whose nodes did not come gets one, which must become ready first. One that was refused an increase gets
// its share, since the cloud says at once whether it takes an order.
func TestTrial(t *testing.T) {
	for _, c := range []struct {
		refused bool
		want    string
	}{{false, "b a c a c"}, {true, "b b b b a"}} {
		a := newAsker(t, threeGroups(4, 0, 4)...)
		a.set("b", func(g *steering.GroupSize) { g.BackedOff, g.Refused = "no machines", c.refused })
		a.loop(a.now)
		a.set("b", func(g *steering.GroupSize) { g.BackedOff = "" })
		a.loop(a.now)
		var got []string
		for range 5 {
			began := a.now
			name := a.ask(1)
			a.order(name, 1)
			a.loop(began)
			got = append(got, name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("refused %v: %v, want %s", c.refused, got, c.want)
		}
		if c.refused {
			continue
		}
		a.set("b", func(g *steering.GroupSize) { g.Ready = 1 })
		a.loop(a.now)
		if next := a.ask(1); next != "b" {
			t.Errorf("after the node of the trial is ready %s, want b", next)
		}
	}
}

// TestLostNodes: a group whose instances do not become nodes is left alone while others can grow, and then gets one node, and no
// other while that is on its way. Cluster Autoscaler deletes such instances, and may ask for the group again at once.
func TestLostNodes(t *testing.T) {
	a := newAsker(t, threeGroups(4, 0, 4)...)
	a.set("b", func(g *steering.GroupSize) { g.Target, g.Lost = 4, 4 })
	a.loop(a.now)
	a.set("b", func(g *steering.GroupSize) { g.Target, g.Lost = 0, 0 })
	a.loop(a.now)
	loops := func(in ...string) string {
		var got []string
		for range 3 {
			began := a.now
			name := a.ask(1, in...)
			a.order(name, 1)
			a.loop(began)
			got = append(got, name)
		}
		return strings.Join(got, " ")
	}
	if got, want := loops(), "a c a"; got != want {
		t.Errorf("%v, want %s", got, want)
	}
	a.now = a.now.Add(6 * time.Minute)
	if got, want := loops(), "b c a"; got != want {
		t.Errorf("later %v, want %s", got, want)
	}
	a.set("b", func(g *steering.GroupSize) { g.Lost = 1 })
	a.loop(a.now)
	if got, want := loops("b"), "b b b"; got != want {
		t.Errorf("where only b can take the pods %v, want %s", got, want)
	}
	a.set("b", func(g *steering.GroupSize) { g.Lost, g.Ready = 0, 3 })
	a.loop(a.now)
	if got, want := loops(), "b b b"; got != want {
		t.Errorf("after nodes are ready %v, want %s", got, want)
	}
}

// TestNothingIsKnown: without any status the groups count by the answers that they had.
func TestNothingIsKnown(t *testing.T) {
	a := newAsker(t, threeGroups(0, 0, 0)...)
	for range 9 {
		a.order(a.ask(1), 1)
	}
	for name, g := range a.sizes {
		if g.Target != 3 {
			t.Errorf("%s has %d nodes, want 3", name, g.Target)
		}
	}
}

// TestCountedNodes: nodes that were counted lack those on their way, which count as long as they may take to come.
func TestCountedNodes(t *testing.T) {
	a := newAsker(t, threeGroups(0, 0, 0)...)
	counted := func() {
		a.step(steering.Sizes{Began: a.now, Counted: true,
			Groups: []steering.GroupSize{{Name: "a"}, {Name: "b"}, {Name: "c", Target: 1, Ready: 1}}})
	}
	var got []string
	for range 5 {
		counted()
		got = append(got, a.ask(1))
	}
	if want := "a b a b c"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	a.now = a.now.Add(time.Hour)
	counted()
	if next := a.ask(1, "a", "c"); next != "a" {
		t.Errorf("after an hour in which no node came %s, want a", next)
	}
}

// TestBackoffsOfAZone: groups that Cluster Autoscaler has backed off count for the detection of zones, and say why a set is uneven.
func TestBackoffsOfAZone(t *testing.T) {
	state, err := steering.New("", steering.Options{ExpanderOnly: true,
		ZonalShift: zonalshift.Options{Detect: zonalshift.Detect{Refusals: true, After: time.Minute}}})
	if err != nil {
		t.Fatal(err)
	}
	a := newAsker(t, threeGroups(4, 0, 4)...)
	a.state = state
	a.loop(a.now)
	a.ask(1) // so that the zones of the groups are known
	a.set("b", func(g *steering.GroupSize) { g.BackedOff, g.Refused = "no machines", true })
	a.loop(a.now)
	a.now = a.now.Add(2 * time.Minute)
	a.loop(a.now)
	shifted, uneven := false, ""
	for _, g := range a.state.Status(a.now).Groups {
		shifted = shifted || g.Name == "b" && g.Shifted != ""
	}
	for _, set := range a.state.Status(a.now).Uneven {
		uneven += set.Why
	}
	if !shifted {
		t.Error("zone b, of which all groups are backed off, is not shifted away")
	}
	if !strings.Contains(uneven, "b has 0 of 3: zone b is shifted away") {
		t.Errorf("the set is uneven because %q", uneven)
	}
}

// TestWhyTheSetIsUneven: the reason is that of the scale-up which left it so.
func TestWhyTheSetIsUneven(t *testing.T) {
	pinned := []*v1.Pod{{Spec: v1.PodSpec{NodeSelector: map[string]string{v1.LabelTopologyZone: "b"}}}}
	for _, c := range []struct {
		name  string
		sizes []int
		grow  func(a *asker) // a loop
		want  string
	}{
		{"at once", []int{0, 0, 0}, func(a *asker) { a.order(a.ask(4), 4); a.order(a.ask(4), 4); a.order(a.ask(1), 1) },
			"b has 4 of 3: Cluster Autoscaler added 4 nodes to it at once (--max-nodes-per-scaleup)"},
		{"too few", []int{1, 3, 6}, func(a *asker) { a.order(a.ask(1), 1) }, "the nodes of the scale-up were too few to level it"},
		{"pinned", []int{3, 3, 3}, func(a *asker) {
			for range 3 {
				a.order(a.asks(pinned, 1, "b"), 1)
			}
		}, "a has 3 of 4: no pod that needed nodes can run there"},
		{"larger", []int{3, 3, 3}, func(a *asker) {
			for range 3 {
				a.order(a.ask(1, "b"), 1)
			}
		}, "Cluster Autoscaler asked for nodes of the larger groups only"},
		{"lost", []int{3, 3, 3}, func(a *asker) {
			a.set("b", func(g *steering.GroupSize) { g.Target, g.Ready, g.Lost = 3, 0, 3 })
			a.loop(a.now)
			a.set("b", func(g *steering.GroupSize) { g.Target, g.Lost = 0, 0 })
			a.order("a", 1)
		}, "b has 0 of 2: backed off until 2026-08-01T12:05:00Z: boot: 3 instances did not become nodes in time"},
	} {
		a := newAsker(t, threeGroups(c.sizes...)...)
		a.loop(a.now)
		a.ask(1) // so that the sets are known
		a.step(steering.Unread{})
		a.loop(a.now)
		c.grow(a)
		a.loop(a.now)
		for _, u := range a.state.Status(a.now).Uneven {
			if u.Why != c.want {
				t.Errorf("%s: %+v, want %s", c.name, u, c.want)
			}
		}
		if n := len(a.state.Status(a.now).Uneven); n != 1 {
			t.Errorf("%s: %d uneven sets, want one", c.name, n)
		}
	}
}

func TestWarnings(t *testing.T) {
	a := newAsker(t, threeGroups(0, 0, 0)...)
	a.loop(a.now)
	began := a.now
	a.ask(30)
	if len(a.warnings) != 1 || !strings.Contains(a.warnings[0], "--max-nodes-per-scaleup") {
		t.Errorf("an increase of 30 nodes: warnings %q", a.warnings)
	}
	for _, name := range []string{"a", "b", "c"} {
		a.order(name, 10)
	}
	a.loop(began)
	if len(a.warnings) != 2 || !strings.Contains(a.warnings[1], "--balance-similar-node-groups") {
		t.Errorf("an increase that was split: warnings %q", a.warnings)
	}
}

// TestExpanderAloneIsExact: however sizes, maximums, late statuses and questions within one loop fall, the groups end within the bound
// of an increase of the exact split, and no node too many is ordered.
func TestExpanderAloneIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(1, 4).Draw(t, "bound")
		a := newAsker(t)
		request := nodegroupset.SplitRequest{}
		room := 0
		for i := range rapid.IntRange(2, 5).Draw(t, "groups") {
			size := rapid.IntRange(0, 6).Draw(t, "size")
			g := steering.GroupSize{Name: string(rune('a' + i)), Target: size, Ready: size, MaxSize: size + rapid.IntRange(1, 12).Draw(t, "room")}
			a.sizes[g.Name] = g
			room += g.MaxSize - size
			request.Groups = append(request.Groups, nodegroupset.Group{Name: g.Name, Size: int64(size), Max: int64(g.MaxSize)})
		}
		need := rapid.IntRange(1, room).Draw(t, "nodes")
		request.Nodes = int64(need)
		exact, err := nodegroupset.Split(request)
		if err != nil {
			t.Fatal(err)
		}
		a.loop(a.now)
		for need > 0 {
			began := a.now
			for range rapid.IntRange(1, 4).Draw(t, "questions of the loop") {
				if need == 0 {
					break
				}
				n := min(need, bound)
				group := a.ask(n)
				if group == "" {
					t.Fatal("nothing grows")
				}
				n = min(n, a.sizes[group].MaxSize-a.sizes[group].Target)
				a.order(group, n)
				need -= n
			}
			a.loop(began)
		}
		for _, g := range exact.Groups {
			if got := a.sizes[g.Name].Target; int64(got) > g.NewSize+int64(bound) || int64(got) < g.NewSize-int64(bound) {
				t.Fatalf("%s has %d nodes, the exact split gives it %d: more than %d apart", g.Name, got, g.NewSize, bound)
			}
			if bound == 1 && int64(a.sizes[g.Name].Target) != g.NewSize && !tied(exact, g, a.sizes) {
				t.Fatalf("%s has %d nodes, the exact split gives it %d", g.Name, a.sizes[g.Name].Target, g.NewSize)
			}
		}
	})
}

// tied reports whether a group has one node more or less than by the split, and another of the same size one the other way.
func tied(exact nodegroupset.SplitResult, g nodegroupset.GroupSplit, sizes map[string]steering.GroupSize) bool {
	off := int64(sizes[g.Name].Target) - g.NewSize
	return slices.ContainsFunc(exact.Groups, func(other nodegroupset.GroupSplit) bool {
		return int64(sizes[other.Name].Target)-other.NewSize == -off && off*off == 1 && int64(sizes[g.Name].Target) == other.NewSize
	})
}
