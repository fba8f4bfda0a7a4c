package sidecar_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// levelled is a sidecar that levels, in front of a cloud whose nodes are there.
func levelled(t testing.TB, groups []fake.Group, stocks ...v1alpha1.StockOut) *harness {
	w := newHarness(t, setup{cloud: fake.Config{Groups: groups, StockOuts: stocks},
		sidecar: sidecar.Options{Options: steering.Options{LevelScaleDown: true}}})
	w.refresh(0)
	return w
}

// TestNoDeferral: with --max-balance-deferral=0 no node waits, as in a simulation and in an
// autoscaler with evenkeel linked.
func TestNoDeferral(t *testing.T) {
	groups := zones(5, 3)
	for limit, want := range map[*time.Duration]string{nil: "map[a:4 b:3]", ptr.To(time.Minute): "map[a:4 b:3]",
		ptr.To(time.Duration(0)): "map[a:0 b:0]"} {
		w := newHarness(t, setup{cloud: fake.Config{Groups: groups},
			sidecar: sidecar.Options{Options: steering.Options{LevelScaleDown: true, MaxBalanceDeferral: limit}}})
		w.refresh(0)
		if got := fmt.Sprint(w.told()); got != want {
			t.Errorf("deferral %v: minimums %s are told, want %s", limit, got, want)
		}
	}
	negative := -time.Second
	if _, err := steering.New("", steering.Options{MaxBalanceDeferral: &negative}); err == nil ||
		err.Error() != "max balance deferral -1s: must not be negative; 0 defers nothing" {
		t.Errorf("%v", err)
	}
}

// refresh is a loop of Cluster Autoscaler after so long.
func (w *harness) refresh(after time.Duration) {
	w.t.Helper()
	w.clock.Step(after)
	if err := w.front.Refresh(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// told are the minimums that Cluster Autoscaler is given, by group.
func (w *harness) told() map[string]int {
	w.t.Helper()
	groups, err := w.front.NodeGroups(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]int{}
	for _, g := range groups {
		out[g.ID] = g.MinSize
	}
	return out
}

// size is the target size of a group, looked at unnoticed.
func (w *harness) size(id string) int { return w.front.Target(id) }

// remove is a scale-down of so many nodes of a group.
func (w *harness) remove(id string, n int) {
	w.t.Helper()
	ctx := context.Background()
	instances, err := w.front.Nodes(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	var nodes []*v1.Node
	for _, in := range instances {
		if in.State == cloudprovider.InstanceRunning && len(nodes) < n {
			nodes = append(nodes, cloudprovider.FakeNode(in.ID, ""))
		}
	}
	if err := w.front.DeleteNodes(ctx, id, nodes); err != nil {
		w.t.Fatal(err)
	}
}

// why is what the status reports a group's minimum.
func (w *harness) why(id string) string {
	for _, g := range w.front.Status().Groups {
		if g.Name == id {
			return g.FloorWhy
		}
	}
	return ""
}

func mins(groups []fake.Group, mins ...int) []fake.Group {
	for i, m := range mins {
		groups[i].MinSize = m
	}
	return groups
}

func TestFloors(t *testing.T) {
	zeroOrMax := zones(5, 5, 3)
	zeroOrMax[2].Options = &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}
	other := zones(5, 3)
	other[1].Template.Node.Labels[v1.LabelInstanceTypeStable] = "n"
	for name, tt := range map[string]struct {
		groups []fake.Group
		want   []int
	}{
		"level":                                    {zones(5, 5, 5), []int{4, 4, 4}},
		"one smaller":                              {zones(5, 4, 5), []int{4, 4, 4}},
		"far from level":                           {zones(9, 2, 5), []int{8, 2, 5}},
		"a real minimum is never lowered":          {mins(zones(9, 9, 3), 0, 9, 5), []int{8, 9, 5}},
		"the largest is at its minimum":            {mins(zones(9, 6, 5), 9, 0, 0), []int{9, 5, 5}},
		"all are at their minimum":                 {mins(zones(2, 3), 2, 3), []int{2, 3}},
		"empty members":                            {zones(1, 0, 1), []int{0, 0, 0}},
		"a group of other machines":                {other, []int{0, 0}},
		"a group alone":                            {zones(5), []int{0}},
		"one that grows to its maximum or to zero": {zeroOrMax, []int{4, 4, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := levelled(t, tt.groups)
			told := w.told()
			for i, g := range tt.groups {
				if told[g.ID] != tt.want[i] {
					t.Errorf("minimums %v, want %v", told, tt.want)
					break
				}
			}
		})
	}
}

// TestFloorsFollowTheSizes: one level per loop, and what is smaller waits.
func TestFloorsFollowTheSizes(t *testing.T) {
	w := levelled(t, zones(5, 5, 5))
	expect := func(want ...int) {
		t.Helper()
		told := w.told()
		if got := []int{told["a"], told["b"], told["c"]}; !slices.Equal(got, want) {
			t.Fatalf("minimums %v, want %v", got, want)
		}
	}
	w.remove("c", 1)
	expect(4, 4, 4)
	w.refresh(10 * time.Second)
	expect(4, 4, 4)
	if why := w.why("c"); why != "waits for b with 5, until 12:10:10 at most" {
		t.Errorf("c %q", why)
	}
	if why := w.why("a"); why != "one per loop may go, so that the set stays level" {
		t.Errorf("a %q", why)
	}
	w.remove("a", 1)
	w.remove("b", 1)
	w.refresh(10 * time.Second)
	expect(3, 3, 3)
}

// TestWaitingEnds: a set whose larger members do not shrink may become uneven, by more nodes each
// time.
func TestWaitingEnds(t *testing.T) {
	w := levelled(t, zones(9, 8, 9))
	expect := func(want int) {
		t.Helper()
		if told := w.told()["b"]; told != want {
			t.Fatalf("minimum of b %d, want %d (%s)", told, want, w.why("b"))
		}
	}
	expect(8)
	w.refresh(9 * time.Minute)
	expect(8)
	w.refresh(time.Minute)
	expect(7)
	if why := w.why("b"); why != "1 per loop may go: no member of the set got smaller for 10m0s" {
		t.Errorf("b %q", why)
	}
	w.refresh(time.Hour)
	expect(7)
	w.remove("b", 1)
	w.refresh(time.Second) // less even than before: it begins anew
	expect(7)
	w.refresh(10*time.Minute - time.Second)
	expect(7)
	w.refresh(time.Second)
	expect(5)
	w.remove("b", 2)
	w.refresh(time.Second)
	expect(5)
	w.remove("a", 1) // by level
	w.refresh(9 * time.Minute)
	w.remove("c", 1)
	w.refresh(9 * time.Minute)
	expect(5)
	w.refresh(10 * time.Minute)
	expect(4)
}

// TestWaitingOutlivesAnUnreadableMember: that members cannot be read now and then, the first or the
// largest among them, takes the others no time away.
func TestWaitingOutlivesAnUnreadableMember(t *testing.T) {
	for _, test := range []struct {
		name       string
		sizes      []int
		unreadable string
		waits      string
	}{
		{"the first", []int{9, 8, 9}, "a", "b"},
		{"the largest", []int{8, 8, 9}, "c", "a"},
		{"one of two", []int{8, 9}, "b", "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := levelled(t, zones(test.sizes...))
			backend := &unreadable{Cloud: w.cloud}
			w.startSidecar(backend)
			for range 30 {
				backend.group = ""
				w.refresh(10 * time.Second)
				backend.group = test.unreadable
				w.refresh(10 * time.Second)
			}
			backend.group = ""
			w.refresh(10 * time.Second)
			if told := w.told()[test.waits]; told != 7 {
				t.Errorf("after ten minutes the minimum of %s is %d, want 7 (%s)", test.waits, told, w.why(test.waits))
			}
		})
	}
}

// TestWaitingOutlivesNodesThatComeAndGo: a set that gets smaller, and larger again, does not let
// others wait forever.
func TestWaitingOutlivesNodesThatComeAndGo(t *testing.T) {
	w := levelled(t, zones(9, 5, 9))
	for range 2 {
		w.remove("a", 1)
		w.refresh(4 * time.Minute)
		if err := w.cloud.IncreaseSize(context.Background(), "a", 1); err != nil {
			t.Fatal(err)
		}
		w.refresh(4 * time.Minute)
	}
	if told := w.told()["b"]; told != 4 {
		t.Errorf("the minimum of b is %d, want 4: it has waited longer than it may (%s)", told, w.why("b"))
	}
}

// TestAnEvenSetNeverWaits: where all members can give a node nobody waits, however long nothing
// happens. A set that is uneven by its remainder stays so while all members shrink.
func TestAnEvenSetNeverWaits(t *testing.T) {
	w := levelled(t, zones(9, 9, 9))
	for range 10 {
		w.refresh(time.Hour)
	}
	if told := w.told(); told["a"] != 8 || told["b"] != 8 || told["c"] != 8 {
		t.Errorf("minimums %v", told)
	}
	w = levelled(t, zones(9, 9, 8))
	w.refresh(time.Hour)
	w.refresh(time.Second)
	for want := 8; want > 0; want-- {
		if told := w.told(); told["a"] != want || told["c"] != want-1 {
			t.Fatalf("minimums %v", told)
		}
		for _, id := range []string{"a", "b", "c"} {
			if id != "c" || want > 1 {
				w.remove(id, 1)
			}
		}
		w.refresh(10 * time.Second)
	}
}

// TestFloorsAreNotRaised: where the set is not steered, or a member is left alone.
func TestFloorsAreNotRaised(t *testing.T) {
	for name, o := range map[string]steering.Options{"off": {}, "dry run": {LevelScaleDown: true, DryRun: true},
		"not balanced": {LevelScaleDown: true, NotBalanced: true}} {
		w := newHarness(t, setup{cloud: fake.Config{Groups: zones(5, 5, 4)}, sidecar: sidecar.Options{Options: o}})
		w.refresh(0)
		if told := w.told(); told["a"]+told["b"]+told["c"] > 0 {
			t.Errorf("%s: minimums %v", name, told)
		}
	}
	w := levelled(t, zones(5, 5, 4), v1alpha1.StockOut{Groups: []string{"b"}, Mode: v1alpha1.StockOutFail})
	if err := w.cloud.IncreaseSize(context.Background(), "b", 2); err != nil {
		t.Fatal(err)
	}
	w.refresh(10 * time.Second) // the failed ones are deleted, b is left alone
	if told := w.told(); told["a"] != 4 || told["b"] != 0 || told["c"] != 4 {
		t.Errorf("minimums %v, want those of a and c raised\n%s", told, w.log())
	}
}

// unreadable is a cloud that does not tell the size of one group.
type unreadable struct {
	*fake.Cloud
	group string
}

func (c *unreadable) TargetSize(ctx context.Context, id string) (int, error) {
	if id == c.group {
		return 0, fmt.Errorf("node group %q: %w", id, cloudprovider.ErrUnavailable)
	}
	return c.Cloud.TargetSize(ctx, id)
}

func TestFloorsOfUnreadableGroups(t *testing.T) {
	w := levelled(t, zones(5, 8, 4))
	backend := &unreadable{Cloud: w.cloud}
	w.startSidecar(backend)
	w.refresh(time.Second)
	backend.group = "b"
	w.refresh(time.Second)
	if told := w.told(); told["a"] != 4 || told["b"] != 0 || told["c"] != 4 {
		t.Errorf("minimums %v, want those of a and c by their own sizes", told)
	}
}

// TestFloorsLeaveDeadInstances: instances without a node are deleted by Cluster Autoscaler down to
// the minimum.
func TestFloorsLeaveDeadInstances(t *testing.T) {
	groups := zones(5, 5)
	for i := range groups {
		groups[i].BootTime = time.Hour
	}
	w := levelled(t, groups)
	if err := w.cloud.IncreaseSize(context.Background(), "b", 2); err != nil {
		t.Fatal(err)
	}
	w.refresh(10 * time.Second)
	if told := w.told(); told["b"] != 6 {
		t.Errorf("minimum of b %d, want 6 of 7 while nodes are on their way", told["b"])
	}
	for range 3 {
		w.refresh(8 * time.Minute)
	}
	if told := w.told(); told["b"] != 5 {
		t.Errorf("minimum of b %d, want 5: two of its instances will have no node any more", told["b"])
	}
}

// TestFloorsLeaveBrokenNodes: a set is no more level with nodes that are not ready than without
// them.
func TestFloorsLeaveBrokenNodes(t *testing.T) {
	groups := zones(5, 6)
	w := newHarness(t, setup{sidecar: sidecar.Options{Options: steering.Options{LevelScaleDown: true}}, cloud: fake.Config{
		Groups: groups, Outages: []v1alpha1.Outage{{Zones: []string{"a"}, FaultWindow: during(time.Minute, 0)}},
	}})
	w.refresh(0)
	if told := w.told(); told["a"] != 5 {
		t.Errorf("minimum of a %d, want 5 as b has 6", told["a"])
	}
	w.refresh(20 * time.Minute)
	if told := w.told(); told["a"] != 0 {
		t.Errorf("minimum of a %d, want 0: all of its nodes are broken", told["a"])
	}
}

// apart is how far the members that can shrink are apart.
func apart(groups []fake.Group, size func(id string) int) int {
	low, high := -1, -1
	for _, g := range groups {
		n := size(g.ID)
		if n <= g.MinSize {
			continue
		}
		if low < 0 {
			low, high = n, n
		}
		low, high = min(low, n), max(high, n)
	}
	return high - low
}

// TestFloorsKeepSetsLevel: a minimum is never above the size or below the real one, and whatever
// Cluster Autoscaler takes down to it in a loop, the set becomes no less even than by one, unless
// waiting has ended.
func TestFloorsKeepSetsLevel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		number := func(high int) int { return rapid.IntRange(0, high).Draw(r, "n") }
		sizes := make([]int, 2+number(3))
		for i := range sizes {
			sizes[i] = number(8)
		}
		groups := zones(sizes...)
		for i := range groups {
			groups[i].MinSize = max(0, number(5)-2)
		}
		w := levelled(t, groups)
		for range number(8) {
			w.refresh(time.Duration(number(12)) * time.Minute)
			told := w.told()
			before := apart(groups, w.size)
			ended := slices.ContainsFunc(w.front.Status().Groups,
				func(g steering.GroupStatus) bool { return strings.Contains(g.FloorWhy, "got smaller") })
			for _, g := range groups {
				if size := w.size(g.ID); told[g.ID] < g.MinSize || told[g.ID] > max(size, g.MinSize) {
					r.Fatalf("%s with %d is told to have a minimum of %d, it has %d", g.ID, size, told[g.ID], g.MinSize)
				}
			}
			for _, g := range groups {
				if room := w.size(g.ID) - told[g.ID]; room > 0 {
					w.remove(g.ID, number(room))
				}
			}
			if after := apart(groups, w.size); after > max(1, before) && !ended {
				r.Fatalf("%v told, the difference grows from %d to %d", told, before, after)
			}
		}
	})
}

// emptyNodes has nodes removed that have been empty for so long, and no others.
func emptyNodes(after time.Duration) *removal.Options {
	return &removal.Options{UnneededTime: &after, DelayAfterAdd: &after, UtilizationThreshold: new(int64)}
}

// leaving are three groups of four nodes with pods that stay, and eighteen or twenty more with pods
// that leave after an hour: a set that is even, or uneven by its remainder.
func leaving(seed uint64) setup {
	s := setup{cloud: fake.Config{Groups: zones(4, 4, 4)}, seed: seed}
	s.ca.Removal = emptyNodes(10 * time.Minute)
	s.batches = []batch{{At: time.Minute, Pods: podsOf("p", 18+2*int(seed%2), 1), Life: time.Hour}}
	return s
}

// TestScaleDownStaysLevel: an unmodified Cluster Autoscaler takes empty nodes in random order; with
// the minimums raised the sizes stay within one, and all that is not needed goes as soon.
func TestScaleDownStaysLevel(t *testing.T) {
	worst := map[bool]int{}
	for _, level := range []bool{false, true} {
		for seed := range uint64(3) {
			s := leaving(seed)
			s.sidecar.LevelScaleDown = level
			s.fault = func(w *harness, c caCall) callFault {
				if c.At.Sub(start) > time.Hour && c.Method == fake.MethodRefresh { // within a loop one member is the first
					worst[level] = max(worst[level], apart(s.cloud.Groups, w.size))
				}
				return callFault{}
			}
			w := newHarness(t, s)
			w.ca.Run(72 * time.Minute) // ten of them until nodes are taken
			state := w.ca.State()
			if want := []int{4, 4, 4}; !slices.Equal(state.Sizes(), want) {
				t.Errorf("sizes %v, want %v", state.Sizes(), want)
			}
		}
	}
	if worst[false] < 3 || worst[true] > 1 {
		t.Errorf("differences of %d without levelling and %d with it", worst[false], worst[true])
	}
}

// TestFloorsAreNeverAboveTheSize, in no call of any loop, whatever fails: else --enforce-node-group-min-size ordered nodes.
func TestFloorsAreNeverAboveTheSize(t *testing.T) {
	raised := 0
	for seed := *from; seed < *from+*worlds/10; seed++ {
		c := newRandomCase(seed)
		c.sidecar = sidecar.Options{Options: steering.Options{LevelScaleDown: true, MaxBalanceDeferral: ptr.To(2 * time.Minute)}}
		c.ca.EnforceMinSize, c.ca.Removal = true, emptyNodes(time.Minute)
		c.batches[0].Life = 20 * time.Minute
		own := map[string]int{}
		for _, g := range c.cloud.Groups {
			own[g.ID] = g.MinSize
		}
		told, disturb := map[string]int{}, c.fault
		names := slices.Sorted(maps.Keys(own))
		c.fault = func(w *harness, call caCall) callFault {
			if call.Method == fake.MethodNodeGroups {
				if told = nil; w.front.Ready() == nil {
					told = w.told()
				}
			}
			for _, id := range names {
				if told[id] == 0 {
					continue
				}
				size := w.size(id)
				if told[id] > own[id] {
					raised++
				}
				if told[id] > max(own[id], size) {
					t.Fatalf("seed %d:%s at %s %s: %s with %d was told to have a minimum of %d\n%s", seed, c.about, call.At.Sub(start), call.Method, id,
						size, told[id], w.log())
				}
			}
			return disturb(w, call)
		}
		w := newHarness(t, c.setup)
		w.ca.Run(40 * time.Minute)
		for _, d := range w.front.Status().Decisions {
			if d.Call == "IncreaseSize" && d.Reason == "up to the group's minimum size" && own[d.Group] == 0 {
				t.Fatalf("seed %d:%s raised to its minimum: %+v", seed, c.about, d)
			}
		}
	}
	if raised == 0 {
		t.Error("no minimum was ever raised")
	}
}
