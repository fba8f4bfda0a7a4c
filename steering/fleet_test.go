package steering_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/steering"
)

// fleet is groups of which nothing becomes ready but what is from the start.
type fleet struct {
	t     *testing.T
	state *steering.State
	now   time.Time
	sizes map[string]int
	// perNode is how many of the pods a node takes; 0 means one.
	perNode map[string]int

	most  int // maximum size of each; 0 means 20
	ready []steering.NodeState
	// instead is the group that Cluster Autoscaler increases in place of the answer; empty if it follows.
	instead string

	reading   *steering.Cloud // the last
	decisions []steering.Decision
}

// ask begins a loop in which Cluster Autoscaler asks for nodes for so many pods, one on each, in some
// groups. It returns what is granted.
func (f *fleet) ask(pods int, groups ...string) (granted int) {
	f.t.Helper()
	f.now = f.now.Add(10 * time.Second)
	f.step(steering.Observe{Nodes: f.ready, Known: true})
	reading := &steering.Cloud{At: f.now, Groups: map[string]*steering.Group{}}
	question := steering.Question{Nodes: map[string]*v1.Node{}}
	var pending []int
	for i := range pods {
		question.Pods = append(question.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}})
		pending = append(pending, i)
	}
	for zone, size := range f.sizes {
		question.Nodes[zone] = machine(zone)
		g := &steering.Group{
			NodeGroup: cloudprovider.NodeGroup{ID: zone, MaxSize: cmp.Or(f.most, 20)}, Target: size, Revision: f.state.Revision(zone),
			Template: cloudprovider.Template{Node: machine(zone)},
		}
		for i := range size {
			g.Instances = append(g.Instances, cloudprovider.Instance{ID: fmt.Sprint(zone, i), State: cloudprovider.InstanceCreating})
		}
		reading.Groups[zone] = g
	}
	for _, zone := range groups {
		nodes := ceilDiv(pods, max(1, f.perNode[zone]))
		question.Options = append(question.Options, expander.Offer{Group: zone, NodeCount: nodes, Pods: pending})
	}
	f.step(steering.LoopBegins{Began: f.now, Reading: reading})
	f.reading = reading
	group := f.step(steering.Asked{Question: question}).Group
	if group == "" {
		return 0
	}
	group = cmp.Or(f.instead, group)
	f.step(steering.Increase{Group: group, Delta: pods})
	granted = f.step(steering.Order{}).Nodes
	f.sizes[group] += granted
	f.step(steering.OrderEnded{Group: group})
	f.step(steering.Answered{Received: true})
	return granted
}

// step applies an event that no error is expected of.
func (f *fleet) step(e steering.Event) steering.Answer {
	f.t.Helper()
	answer, effects := f.state.Step(f.now, e)
	if answer.Err != nil {
		f.t.Fatal(answer.Err)
	}
	f.decisions = append(f.decisions, effects.Decisions...)
	return answer
}

// A new process of Cluster Autoscaler counts no node that is on its way. It is shown groups without them, so that it
// can ask for them, and less is granted where they are; but not for long.
func TestWhatIsNotCountedHoldsForMinutes(t *testing.T) {
	state, err := steering.New("this process", steering.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, state: state, now: start, sizes: map[string]int{"a": 0, "b": 0}}
	f.ask(6, "a", "b")
	f.ask(3, "a", "b")
	if want := map[string]int{"a": 3, "b": 3}; !maps.Equal(f.sizes, want) {
		t.Fatalf("sizes %v, want %v", f.sizes, want)
	}
	f.step(steering.NewProcess{})
	if state.Shown("a") != 0 || state.Shown("b") != 0 {
		t.Errorf("a new process is shown sizes of %d and %d, which it would wait for", state.Shown("a"), state.Shown("b"))
	}
	f.ask(9, "a") // and counts those of a from now on
	for loop := range 24 {
		if granted := f.ask(3, "a"); (granted == 0) != (loop < 19) {
			t.Errorf("%d nodes granted in loop %d, although as many are on their way in b; want none in 19 loops", granted, loop)
		}
	}
	if state.Shown("b") != 0 {
		t.Errorf("b is shown with %d nodes, and so left out on and on", state.Shown("b"))
	}
}

// A daemon takes more of the nodes of zone b, so that they take two of the pods and the others three: nothing is ordered there as long
// as the others have room, since that takes fewer nodes. Then each member's own room counts for how many are needed.
func TestEachMembersOwnRoomCounts(t *testing.T) {
	for most, want := range map[int]map[string]int{20: {"a": 4, "b": 0, "c": 4}, 3: {"a": 3, "b": 3, "c": 3}} {
		state, err := steering.New("this process", steering.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{t: t, state: state, now: start, sizes: map[string]int{"a": 0, "b": 0, "c": 0},
			perNode: map[string]int{"a": 3, "b": 2, "c": 3}, most: most}
		for left := 22; left > 0; {
			left = 22
			f.ask(left-f.room(), "a", "b", "c")
			left -= f.room()
		}
		if f.room() < 22 || !maps.Equal(f.sizes, want) {
			t.Errorf("at most %d: sizes %v with room for %d pods, want %v", most, f.sizes, f.room(), want)
		}
	}
}

// Zones a and c have no nodes, so what is known of them lacks what runs on real ones: that they seem to take more of the pods than zone
// b, which has a node, is no reason to leave zone b out.
func TestAPromiseOfMoreRoomLeavesNobodyOut(t *testing.T) {
	state, err := steering.New("this process", steering.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, state: state, now: start, sizes: map[string]int{"a": 0, "b": 1, "c": 0}, perNode: map[string]int{"a": 3, "b": 2, "c": 3}}
	f.ready = []steering.NodeState{{ProviderID: "b0", Created: start.Add(-time.Hour), Ready: true}}
	for f.room() < 22 {
		f.ask(22-f.room(), "a", "b", "c")
	}
	if want := map[string]int{"a": 3, "b": 2, "c": 3}; !maps.Equal(f.sizes, want) {
		t.Errorf("sizes %v, want %v", f.sizes, want)
	}
}

// room is how many pods the nodes take.
func (f *fleet) room() int {
	room := 0
	for zone, size := range f.sizes {
		room += size * f.perNode[zone]
	}
	return room
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// An order that was on its way when its process ended counts from when it was given. The group had its
// last nodes long before: the new process must not take what is coming for overdue.
func TestAnOrderBeforeARestartIsNotOverdue(t *testing.T) {
	state, err := steering.New("first process", steering.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, state: state, now: start, sizes: map[string]int{"a": 0}}
	f.ask(1, "a") // the node is there, and not ready, from now on
	f.now = f.now.Add(14 * time.Minute)
	f.ask(1, "a")
	text, err := state.Journal()
	if err != nil {
		t.Fatal(err)
	}
	// The first node was ordered more than 15 min ago, and a second order was under way at the end.
	ordered := f.now.Add(-20 * time.Minute).Format(time.RFC3339)
	text = regexp.MustCompile(`"ordered":"[^"]*"`).ReplaceAll(text, fmt.Appendf(nil, `"ordered":%q,"order":{"before":1,"delta":1,"at":%q}`,
		ordered, f.now.Format(time.RFC3339)))
	if f.state, err = steering.New("second process", steering.Options{}); err != nil {
		t.Fatal(err)
	}
	f.decisions = nil
	f.step(steering.JournalRead{Text: text})
	f.sizes["a"] = 2
	f.ask(1, "a")
	for _, d := range f.decisions {
		if strings.Contains(d.Reason, "did not become ready within") {
			t.Errorf("seconds after the order: %s", d.Reason)
		}
	}
}

// Cluster Autoscaler balances by itself, and asks for all nodes in a group that has its share. That group is at its maximum in the next
// loop, and the status says so; then it may grow again.
func TestAGroupWithItsShareIsAtItsMaximumForALoop(t *testing.T) {
	state, err := steering.New("this process", steering.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, state: state, now: start, sizes: map[string]int{"a": 0, "b": 3}, instead: "b"}
	for i := range 3 {
		f.ready = append(f.ready, steering.NodeState{ProviderID: fmt.Sprint("b", i), Created: start.Add(-time.Hour), Ready: true})
	}
	if granted := f.ask(3, "a", "b"); granted != 0 {
		t.Fatalf("%d nodes are granted to the larger group", granted)
	}
	f.instead = ""
	limited := func() bool {
		_, most := state.Bounds(f.reading.Groups["b"])
		said := state.Status(f.now).Groups[1].Limited
		if (most == 3) != strings.Contains(said, "at its maximum for this loop") {
			t.Errorf("the maximum is %d, and the status says %q", most, said)
		}
		return most == 3
	}
	if f.ask(3, "a"); !limited() || f.sizes["a"] != 3 {
		t.Errorf("sizes %v, and b may grow on", f.sizes)
	}
	if f.ask(2, "a", "b"); limited() {
		t.Error("b may not grow again")
	}
}

// Nodes that vanish long after they came are not overdue at once: the time since they were asked for says nothing of
// when the cloud makes them anew.
func TestWhatVanishesLaterIsNotOverdueAtOnce(t *testing.T) {
	state, err := steering.New("this process", steering.Options{MaxNodeProvisionTime: 3 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, state: state, now: start, sizes: map[string]int{"a": 0}}
	f.ask(1, "a")
	takenBack := func(after time.Duration, instances ...cloudprovider.Instance) bool {
		f.now = start.Add(after)
		group := &steering.Group{NodeGroup: cloudprovider.NodeGroup{ID: "a", MaxSize: 20}, Target: 1, Instances: instances}
		return slices.ContainsFunc(f.step(steering.Overdue{Group: group}).TakeBacks, func(b steering.TakeBack) bool { return b.Missing > 0 })
	}
	takenBack(time.Minute, cloudprovider.Instance{ID: "a0"})
	if takenBack(5*time.Minute) || takenBack(7*time.Minute) || !takenBack(8*time.Minute) {
		t.Error("a node that vanished is not taken back after the provision time, or before")
	}
}
