package linked

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

func TestWhichNodesGo(t *testing.T) {
	const level, limit = nodegroupset.ReasonWaitsForLevel, nodegroupset.ReasonWaitsForLimit
	three := func(a, b, c int) []downGroup {
		return []downGroup{{name: "a", set: "a", size: a}, {name: "b", set: "a", size: b}, {name: "c", set: "a", size: c}}
	}
	for name, test := range map[string]struct {
		groups     []downGroup
		candidates []string
		nodes      int // 10 when 0
		drains     int // 1 when 0
		goes       string
		stays      map[string]nodegroupset.ShrinkReason
	}{
		"nothing":                    {groups: three(1, 1, 1), goes: ""},
		"the last name among equals": {groups: three(3, 3, 3), candidates: []string{"a-0", "b-0", "c-0"}, goes: "c-0 b-0 a-0"},
		"the largest first": {
			groups: three(5, 3, 3), candidates: []string{"b-0", "a-0", "c-0", "a-1"}, goes: "a-0 a-1 c-0 b-0"},
		"others wait for the largest": {
			groups: three(5, 3, 3), candidates: []string{"b-0", "a-1"}, goes: "a-1", stays: map[string]nodegroupset.ShrinkReason{"b-0": level}},
		"members without a candidate count": {
			groups: three(5, 3, 3), candidates: []string{"b-0"}, stays: map[string]nodegroupset.ShrinkReason{"b-0": level}},
		"members at their min do not": {
			groups:     []downGroup{{name: "a", set: "a", size: 5, min: 5}, {name: "b", set: "a", size: 3}},
			candidates: []string{"b-0"}, goes: "b-0"},
		"nodes on their way out have gone": {
			groups:     []downGroup{{name: "a", set: "a", size: 5, going: 2}, {name: "b", set: "a", size: 4}},
			candidates: []string{"a-0", "b-0", "b-1"}, goes: "b-0 b-1 a-0"},
		"empty ones before others, these before risky ones": {
			groups: []downGroup{{name: "x", size: 9}}, candidates: []string{"x-1?", "x-2!", "x-3"}, drains: 5, goes: "x-3 x-2 x-1"},
		"the parallel limit": {
			groups: three(3, 3, 3), candidates: []string{"a-0", "b-0", "c-0"}, nodes: 2, goes: "c-0 b-0",
			stays: map[string]nodegroupset.ShrinkReason{"a-0": limit}},
		"the limit less what is going": {
			groups:     []downGroup{{name: "x", size: 9, going: 1, draining: 1}},
			candidates: []string{"x-0", "x-1", "x-2"}, nodes: 4, drains: 3, goes: "x-0 x-1",
			stays: map[string]nodegroupset.ShrinkReason{"x-2": limit}},
		"the drain limit": {
			groups: []downGroup{{name: "x", size: 9}}, candidates: []string{"x-0!", "x-1!", "x-2"}, goes: "x-2 x-0",
			stays: map[string]nodegroupset.ShrinkReason{"x-1": limit}},
		"groups in no set never wait for balance": {
			groups: []downGroup{{name: "x", size: 9}, {name: "y", size: 2}}, candidates: []string{"y-0", "y-1"}, goes: "y-0 y-1"},
		"groups that are all or nothing are left alone": {
			groups:     []downGroup{{name: "a", set: "a", size: 2}, {name: "w", set: "a", size: 4, whole: true}},
			candidates: []string{"w-0", "w-1", "a-0"}, goes: "a-0 w-0 w-1"},
		"nodes that run pods to completion are neither counted nor waited for": {
			groups: three(3, 3, 3), candidates: []string{"c-0~", "c-1", "b-0"}, nodes: 2, goes: "c-1 b-0 c-0"},
		"a group reaches its min": {
			groups: []downGroup{{name: "x", size: 3, min: 2}}, candidates: []string{"x-0", "x-1"}, goes: "x-0",
			stays: map[string]nodegroupset.ShrinkReason{"x-1": nodegroupset.ReasonAtMin}},
		"errors of some stop no others": {
			groups:     []downGroup{{name: "a", set: "a", size: 2}, {name: "b", set: "a", size: 7, throttled: true}, {name: "lost", size: 1}},
			candidates: []string{"a-0", "b-0", "lost-0", "stranger-0"}, goes: "a-0 b-0 lost-0 stranger-0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDownCluster(time.Hour, test.groups...)
			c.limit, c.drains = cmp.Or(test.nodes, 10), cmp.Or(test.drains, 1)
			goes, stays := c.decide(c.round(test.candidates...))
			if goes != test.goes {
				t.Errorf("goes %q, want %q", goes, test.goes)
			}
			if diff := gocmp.Diff(test.stays, stays); diff != "" && len(test.stays)+len(stays) > 0 {
				t.Errorf("the others (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeferralIsBounded(t *testing.T) {
	groups := []downGroup{{name: "a", set: "a", size: 5}, {name: "b", set: "a", size: 3}}
	c := newDownCluster(10*time.Minute, groups...)
	c.limit = 0
	if got := c.after(0, "b-0"); got != "" {
		t.Fatalf("%q goes beyond the limit", got)
	}
	c.limit = 10 // only now is it balance that b-0 waits for
	for i, step := range []struct {
		after time.Duration
		want  string
	}{{10 * time.Minute, ""}, {9 * time.Minute, ""}, {time.Minute, "b-0"}} {
		if got := c.after(step.after, "b-0"); got != step.want {
			t.Fatalf("step %d: %q goes, want %q", i, got, step.want)
		}
	}
	c.after(0)
	if got := c.after(9*time.Minute, "b-0"); got != "b-0" {
		t.Errorf("%q goes, want b-0: that it was passed over for a while does not take its time away", got)
	}
	c.after(10 * time.Minute)
	if got := c.after(time.Second, "b-0"); got != "" {
		t.Errorf("%q goes, it was no candidate for longer than the deferral and has not waited", got)
	}
	c = newDownCluster(0, groups...)
	if got := c.after(0, "b-0", "a-0"); got != "a-0 b-0" {
		t.Errorf("without deferral %q goes, want all, the largest group's first", got)
	}
}

// A set is no more level with a node that is not ready than without it.
func TestUnreadyNodesAreNeverDeferred(t *testing.T) {
	c := newDownCluster(time.Hour, downGroup{name: "a", set: "a", size: 5}, downGroup{name: "b", set: "a", size: 3})
	if goes := c.after(0, "b-0", "b-1x", "b-2"); goes != "b-1" {
		t.Errorf("%q goes, want the unready one alone", goes)
	}
	if last := c.journal.history.last; last.Removed[0].Reason != "" {
		t.Errorf("says that it waited: %+v", last.Removed[0])
	}
}

// What an autoscaler before this one has seen of a wait is in the taint of the node.
func TestDeferralSurvivesARestart(t *testing.T) {
	for name, test := range map[string]struct {
		due  time.Duration // since the start
		want string
	}{
		"could have gone long before":        {-time.Hour, "b-0"},
		"could have gone for a while":        {-5 * time.Minute, ""},
		"could go only afterwards":           {time.Minute, ""},
		"waited as long as it may, just now": {-10 * time.Minute, "b-0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDownCluster(10*time.Minute, downGroup{name: "a", set: "a", size: 5}, downGroup{name: "b", set: "a", size: 3})
			nodes := c.round("b-0")
			nodes[0].Due = start.Add(test.due)
			c.decide(nodes)
			c.clock.SetTime(start.Add(time.Second))
			if goes, _ := c.decide(nodes); goes != test.want {
				t.Errorf("%q goes, want %q", goes, test.want)
			}
		})
	}
}

func TestNodeThatDoesNotGoStarvesNoOther(t *testing.T) {
	c := newDownCluster(time.Hour, downGroup{name: "a", set: "a", size: 5}, downGroup{name: "b", set: "a", size: 5},
		downGroup{name: "x", size: 5})
	var order []string
	for range 7 {
		order = append(order, c.after(time.Minute, "a-0!", "b-0!", "b-1!", "x-0!"))
	}
	if diff := gocmp.Diff([]string{"b-0", "b-1", "a-0", "x-0", "b-0", "b-1", "x-0"}, order); diff != "" {
		t.Errorf("nodes that go (-want +got):\n%s", diff)
	}
}

func TestDecisionsAreInTheJournal(t *testing.T) {
	c := newDownCluster(10*time.Minute, downGroup{name: "a", set: "a", size: 5}, downGroup{name: "b", set: "a", size: 4},
		downGroup{name: "x", size: 5})
	c.after(0, "b-0", "b-1", "x-0!", "x-1!")
	want := shrinkDecision{Time: c.clock.Now(),
		Removed: []nodeDecision{{Node: "x-0", Group: "x"}},
		Waiting: []nodeDecision{
			{Node: "b-0", Group: "b", Set: "a", Reason: reasonLevel, Behind: "a", Since: start, Began: true},
			{Node: "b-1", Group: "b", Set: "a", Reason: reasonLevel, Behind: "a", Since: start, Began: true},
			{Node: "x-1", Group: "x", Reason: reasonLimit},
		},
	}
	if diff := gocmp.Diff(want, c.journal.history.last); diff != "" {
		t.Errorf("first round (-want +got):\n%s", diff)
	}
	c.after(10*time.Minute, "b-0")
	want = shrinkDecision{Time: c.clock.Now(), Removed: []nodeDecision{{Node: "b-0", Group: "b", Set: "a", Reason: reasonOverdue,
		Since: start}}}
	if diff := gocmp.Diff(want, c.journal.history.last); diff != "" {
		t.Errorf("when overdue (-want +got):\n%s", diff)
	}
}

func TestScaleDownProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		test := drawDownCase(t)
		c := test.cluster()
		nodes := c.round(test.candidates...)
		goes, stays := c.decide(nodes)

		// Every node either goes or stays, and nothing is added.
		got := strings.Fields(goes)
		for node := range stays {
			got = append(got, node)
		}
		var want []string
		for _, node := range nodes {
			want = append(want, node.Node.Name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%v became %v", want, got)
		}

		// Permuting them changes nothing.
		again := test.cluster()
		shuffled := again.round(test.candidates...)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j],
				shuffled[i]
		})
		if goes2, stays2 := again.decide(shuffled); goes != goes2 || !gocmp.Equal(stays, stays2) {
			t.Fatalf("%s went, in another order of candidates %s", goes, goes2)
		}

		checkLevel(t, test, goes)
		checkLimits(t, test, goes)
	})
}

// checkLevel fails if a group shrank to more than one node below another of its set that could
// still shrink.
func checkLevel(t *rapid.T, test downCase, goes string) {
	gone := map[string]int{}
	for _, name := range strings.Fields(goes) {
		if !slices.Contains(test.candidates, name+"~") {
			gone[name[:1]]++
		}
	}
	for _, shrunk := range test.groups {
		for _, other := range test.groups {
			left, level := shrunk.size-gone[shrunk.name], other.size-gone[other.name]
			if shrunk.set != "" && shrunk.set == other.set && gone[shrunk.name] > 0 && level > other.min && left < level-1 {
				t.Fatalf("%s has shrunk to %d and %s to %d only", shrunk.name, left, other.name, level)
			}
		}
	}
}

// checkLimits fails if more nodes go than may. Those of groups that are all or nothing, and those
// that run pods to completion, do not count.
func checkLimits(t *rapid.T, test downCase, goes string) {
	nodes, drains := 0, 0
	for _, name := range strings.Fields(goes) {
		if strings.HasPrefix(name, "w") || slices.Contains(test.candidates, name+"~") {
			continue
		}
		nodes++
		if !slices.Contains(test.candidates, name) {
			drains++
		}
	}
	if nodes > test.limits[0] || drains > test.limits[1] {
		t.Fatalf("%d nodes go, %d of them drained; at most %v may", nodes, drains, test.limits)
	}
}

// While it stays a candidate and the limits leave room, no node waits longer than the deferral,
// however far apart rounds are.
func TestNoNodeWaitsLongerThanTheDeferral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		test := drawDownCase(t)
		test.limits = [2]int{100, 100}
		c := test.cluster()
		waiting := map[string]time.Time{}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			now := c.clock.Now()
			_, stays := c.decide(c.round(test.candidates...))
			for node, reason := range stays {
				if reason != nodegroupset.ReasonWaitsForLevel {
					continue
				}
				if since, before := waiting[node]; !before {
					waiting[node] = now
				} else if now.Sub(since) >= 10*time.Minute {
					t.Fatalf("%s has waited %v", node, now.Sub(since))
				}
			}
			c.clock.SetTime(now.Add(time.Duration(rapid.SampledFrom([]int{1, 60, 300, 900}).Draw(t, "seconds")) * time.Second))
		}
	})
}
