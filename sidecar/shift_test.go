package sidecar_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// shifted is a mark of a zone for a span of a world; without an end it lasts.
func shifted(zone string, from, until time.Duration) zonalshift.Mark {
	m := zonalshift.Mark{Domain: zonalshift.Zone(zone), Since: start.Add(from)}
	if until > 0 {
		m.Until = start.Add(until)
	}
	return m
}

// ordersIn are the nodes ordered in a group in a span of time.
func (w *harness) ordersIn(group string, from, until time.Duration) (n int) {
	for _, c := range w.cloud.Calls() {
		if at := c.At.Sub(start); c.Method == fake.MethodIncreaseSize && c.Group == group && at >= from && (until == 0 || at < until) {
			n += c.Delta
		}
	}
	return n
}

func TestAShiftedZoneGetsNoNode(t *testing.T) {
	w := newHarness(t, setup{cloud: fake.Config{Groups: zones(1, 1, 1)}, batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}},
		seed: 1})
	w.front.Shift("a file", []zonalshift.Mark{shifted("a", 0, 0)}, nil)
	state := w.settle(time.Hour)
	if got := state.Sizes(); !slices.Equal(got, []int{1, 6, 5}) && !slices.Equal(got, []int{1, 5, 6}) || state.Pending > 0 {
		t.Errorf("sizes %v, %d pending\n%s", got, state.Pending, w.log())
	}
	status := w.front.Status()
	if z := status.ZonalShift; z == nil || z.Source != "a file" || len(z.Shifted) != 1 ||
		status.Groups[0].Shifted != "zone a is shifted away" {
		t.Errorf("status %+v %+v", z, status.Groups)
	}
}

// Pods that can run only in the zone wait with a reason, and others do not wait for them. They run
// when the zone is back.
func TestPodsBoundToAShiftedZoneAreHeld(t *testing.T) {
	events := told{}
	s := setup{cloud: fake.Config{Groups: zones(0, 0, 0)}, seed: 1, batches: []batch{
		{At: 3 * time.Second, Pods: pinned(podsOf("bound", 2, 1), "a")}, {At: 3 * time.Second, Pods: podsOf("free", 6, 1)}}}
	s.sidecar.Recorder = events
	w := newHarness(t, s)
	w.front.Shift("a file", []zonalshift.Mark{shifted("a", 0, 30*time.Minute)}, nil)
	o := w.observe(25 * time.Minute)
	if o.orders["a"] > 0 || total(o.sizes) != 6 || events["PodsHeldByZonalShift"] == 0 || events["ZoneShifted"] != 1 {
		t.Errorf("%s, events %v\n%s", o, events, w.log())
	}
	if z := w.front.Status().ZonalShift; z == nil ||
		!strings.HasPrefix(z.Waiting, "2 pods can run nowhere else and wait, such as default/bound-") {
		t.Errorf("waiting: %+v", z)
	}
	if o = w.observe(40 * time.Minute); o.orders["a"] != 2 || o.running == 0 || events["ZoneReturned"] != 1 {
		t.Errorf("afterwards: %s, events %v\n%s", o, events, w.log())
	}
}

// shiftCase is a random world in which a zone is shifted away for a time.
func shiftCase(seed uint64) (c *faultCase, zone string, from, until time.Duration) {
	r := rand.New(rand.NewPCG(seed, 7))
	c = newFaultCase(seed, -1)
	c.cloud.StockOuts, c.cloud.Outages, c.told, c.begin = nil, nil, 0, 0
	for i := range c.cloud.Groups {
		c.cloud.Groups[i].MaxSize = 200
	}
	zone = c.cloud.Groups[r.IntN(len(c.cloud.Groups))].ID
	from = time.Duration(r.IntN(1200)) * time.Second
	until = from + time.Duration(1+r.IntN(3600))*time.Second
	c.about = fmt.Sprintf("seed %d: %s shifted away from %s to %s", seed, zone, from, until)
	return c, zone, from, until
}

// A shifted zone gets no order, and pods that are not bound to it run no later than with Cluster
// Autoscaler alone, which knows of no shift, but for one loop.
func TestShiftsInRandomWorlds(t *testing.T) {
	for seed := range uint64(60) {
		c, zone, from, until := shiftCase(seed)
		w, a := newHarness(t, c.setup), c.sameChoice(t)
		w.front.Shift("a file", []zonalshift.Mark{shifted(zone, from, until)}, nil)
		d := c.against(w, a)
		if n := w.ordersIn(zone, from, until); n > 0 {
			t.Errorf("%s: %d nodes ordered there\n%s", c.about, n, w.log())
		}
		if d.late() {
			t.Errorf("%s: pods run %s later than alone\n%s", c.about, d.by, d.log)
		}
	}
}

func TestNoNodeIsRemovedWhileAZoneIsShiftedAway(t *testing.T) {
	w := newHarness(t, setup{cloud: fake.Config{Groups: mins(zones(3, 5, 4), 4, 1, 1)}, seed: 1})
	w.refresh(time.Minute)
	if got := w.told(); got["a"] != 4 || got["b"] != 1 || got["c"] != 1 {
		t.Fatalf("before: minimums %v", got)
	}
	w.front.Shift("a file", []zonalshift.Mark{shifted("a", 0, 0)}, nil)
	w.refresh(time.Second)
	if got := w.told(); got["a"] != 3 || got["b"] != 5 || got["c"] != 4 {
		t.Errorf("minimums %v, want the sizes: Cluster Autoscaler neither removes nodes nor raises a to its minimum", got)
	}
	w.front.Shift("a file", nil, nil)
	w.refresh(time.Second)
	if got := w.told(); got["a"] != 4 || got["b"] != 1 || got["c"] != 1 {
		t.Errorf("afterwards: minimums %v", got)
	}
}

// After its return the zone catches up with what is new, at the pace, also where the sidecar was
// started anew meanwhile.
func TestAZoneReturnsAtThePace(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s := setup{cloud: fake.Config{Groups: zones(0, 20, 20)}, seed: 1, batches: []batch{{At: 10 * time.Minute, Pods: podsOf("p", 3, 1)},
			{At: 30 * time.Minute, Pods: podsOf("q", 9, 1)}}}
		w := newHarness(t, s)
		w.front.Shift("a file", []zonalshift.Mark{shifted("a", 0, 0)}, nil)
		w.observe(20 * time.Minute)
		if restart {
			w.restartSidecar()
		}
		w.front.Shift("a file", nil, nil)
		o := w.observe(45 * time.Minute)
		// The others have 22 and 21, so a quarter of 22 is made up for, and the rest is even.
		if o.sizes[0] < 6 || o.sizes[0] > 8 || o.running == 0 {
			t.Errorf("restart %v: %s\n%s", restart, o, w.log())
		}
	}
}

func TestBadMarksLeaveTheLastGoodOnes(t *testing.T) {
	events := told{}
	s := setup{cloud: fake.Config{Groups: zones(1, 1, 1)}, seed: 1}
	s.sidecar.Recorder = events
	w := newHarness(t, s)
	w.front.Shift("shifts.yaml", []zonalshift.Mark{shifted("x", 0, 0)}, nil)
	w.refresh(time.Second)
	problem := func(want string) {
		t.Helper()
		if z := w.front.Status().ZonalShift; z == nil || z.Problem != want {
			t.Errorf("status %+v, want the problem %q", z, want)
		}
	}
	problem("shifts.yaml: unknown zone x: known are a, b, c; no zone is shifted away by a mark")
	w.front.Shift("shifts.yaml", []zonalshift.Mark{shifted("a", 0, 0)}, nil)
	problem("")
	w.front.Shift("shifts.yaml", []zonalshift.Mark{shifted("b", 0, 0), shifted("x", 0, 0)}, nil)
	problem("shifts.yaml: unknown zone x: known are a, b, c; the last good marks are kept: zone a")
	w.front.Shift("shifts.yaml", nil, errors.New("shifts.yaml: document 1: is cut off"))
	problem("shifts.yaml: document 1: is cut off; the last good marks are kept: zone a")
	w.refresh(time.Second)
	if got := w.front.Status().ZonalShift.Shifted; len(got) != 1 || got[0].Value != "a" {
		t.Errorf("shifted %v", got)
	}
	if events["ZonalShiftInvalid"] != 3 {
		t.Errorf("events %v", events)
	}
}

func TestAShiftOfAllZonesLeavesTheLastOne(t *testing.T) {
	w := newHarness(t, setup{cloud: fake.Config{Groups: zones(0, 0, 0)}, batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 3, 1)}},
		seed: 1})
	w.front.Shift("a file", []zonalshift.Mark{shifted("a", -3, 0), shifted("b", -2, 0), shifted("c", -1, 0)}, nil)
	state := w.settle(time.Hour)
	if got := state.Sizes(); !slices.Equal(got, []int{0, 0, 3}) || state.Pending > 0 {
		t.Errorf("sizes %v, %d pending\n%s", got, state.Pending, w.log())
	}
	if z := w.front.Status().ZonalShift; len(z.Ignored) != 1 || z.Ignored[0].Value != "c" {
		t.Errorf("status %+v", z)
	}
}

// A zone in which nothing becomes ready any more is shifted away by detection, and comes back.
func TestDetectionInTheSidecar(t *testing.T) {
	s := setup{cloud: fake.Config{
		Groups:  zones(4, 4, 4),
		Outages: []v1alpha1.Outage{{Zones: []string{"a"}, FaultWindow: during(5*time.Minute, 20*time.Minute)}},
	}, seed: 1}
	s.sidecar.ZonalShift.Detect.UnreadyPercentage = 50
	w := newHarness(t, s)
	away := map[time.Duration]bool{}
	for w.clock.Since(start) < 40*time.Minute {
		w.ca.Step()
		z := w.front.Status().ZonalShift
		away[w.clock.Since(start).Truncate(time.Minute)] = z != nil && len(z.Shifted) == 1 && z.Shifted[0].Detected
	}
	for at, want := range map[time.Duration]bool{4: false, 7: true, 19: true, 25: true, 33: false} {
		if got := away[at*time.Minute]; got != want {
			t.Errorf("after %d minutes: shifted away %v, want %v\n%s", at, got, want, w.log())
		}
	}
}
