package scaledown

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
)

// fleet is a cloud, the pods on its nodes, and the two scalers.
type fleet struct {
	t     *testing.T
	clock *clocktesting.FakeClock
	cloud *fake.Cloud
	up    *scaleup.Scaler
	down  *Scaler
	pods  map[string][]*v1.Pod // by node
	wants []*v1.Pod            // pending
}

func newFleet(t *testing.T, config fake.Config, opts Options) *fleet {
	t.Helper()
	f := &fleet{t: t, clock: clocktesting.NewFakeClock(start), pods: map[string][]*v1.Pod{}}
	var err error
	if f.cloud, err = fake.New(config, f.clock); err != nil {
		t.Fatal(err)
	}
	checker := newChecker(t)
	if f.up, err = scaleup.New(f.cloud, checker, scaleup.Options{SequentialResize: true}); err != nil {
		t.Fatal(err)
	}
	if f.down, err = New(f.cloud, checker, opts); err != nil {
		t.Fatal(err)
	}
	return f
}

func cloudGroup(id string, size, least int) fake.Group {
	return fake.Group{ID: id, MinSize: least, MaxSize: 10, Size: size,
		Template: cloudprovider.Template{Node: machine("template", id)}, TerminationTime: time.Minute}
}

// after lets time pass and plays a round.
func (f *fleet) after(d time.Duration) Round {
	f.t.Helper()
	f.clock.Step(d)
	cluster := scaleup.Cluster{Pending: f.wants}
	for _, n := range f.cloud.RegisteredNodes() {
		cluster.Nodes = append(cluster.Nodes, predicates.Node{Node: n, Pods: f.pods[n.Name]})
	}
	up, err := f.up.Round(context.Background(), f.clock.Now(), cluster)
	if err != nil {
		f.t.Fatal(err)
	}
	down, err := f.down.Round(context.Background(), &up)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range down.Gone() {
		delete(f.pods, name)
	}
	return down
}

// fill puts a pod on nodes.
func (f *fleet) fill(milliCPU int64, nodes ...string) {
	for _, name := range nodes {
		pod := replica("on-"+name, milliCPU)
		pod.Spec.NodeName = name
		f.pods[name] = append(f.pods[name], pod)
	}
}

// tally counts outcomes, as "Goes 2, WaitsForTime 1".
func tally(r Round) string {
	counts := map[Outcome]int{}
	for _, o := range r.Decision.Nodes {
		counts[o.Outcome]++
	}
	var parts []string
	for outcome, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", outcome, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func expect(t *testing.T, what string, r Round, want string) {
	t.Helper()
	if got := tally(r); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func groups(all ...fake.Group) fake.Config { return fake.Config{Groups: all} }

func TestUnneededTime(t *testing.T) {
	f := newFleet(t, groups(cloudGroup("a", 3, 1)), Options{})
	first := f.after(0)
	expect(t, "at first", first, "WaitsForTime 3")
	if want := start.Add(10 * time.Minute); !first.Decision.Next.Equal(want) {
		t.Errorf("looks again at %s, want %s", first.Decision.Next, want)
	}
	expect(t, "too early", f.after(10*time.Minute-1), "WaitsForTime 3")
	f.fill(3000, "a-0001")
	expect(t, "one is used", f.after(1), "Goes 2, InUse 1")
	expect(t, "on their way", f.after(10*time.Second), "Fixed 1, Leaving 2")
	f.pods = map[string][]*v1.Pod{}
	expect(t, "at the minimum", f.after(time.Hour), "Fixed 1")
}

func TestUnneededTimeStartsAnew(t *testing.T) {
	f := newFleet(t, groups(cloudGroup("a", 2, 1)), Options{})
	f.after(0)
	f.fill(3000, "a-0001")
	expect(t, "used for a moment", f.after(5*time.Minute), "InUse 1, WaitsForTime 1")
	f.pods = map[string][]*v1.Pod{}
	r := f.after(5 * time.Minute)
	expect(t, "later", r, "Goes 1, WaitsForTime 1")
	if gone := r.Gone(); !slices.Equal(gone, []string{"a-0002"}) {
		t.Errorf("%v went, want a-0002", gone)
	}
}

func TestCoolDownAfterGrowth(t *testing.T) {
	f := newFleet(t, groups(cloudGroup("a", 2, 0), cloudGroup("b", 1, 1)), Options{})
	f.fill(3000, "b-0001")
	f.after(0)
	apart := replica("apart", 3000)
	apart.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "zone-b"}
	f.wants = []*v1.Pod{apart} // needs a new node of b
	expect(t, "while it grows", f.after(6*time.Minute), "Fixed 1, WaitsForTime 2")
	f.wants = nil
	f.fill(3000, "b-0002")
	r := f.after(5 * time.Minute)
	expect(t, "in the cool-down", r, "InUse 2, WaitsForCoolDown 2")
	if want := start.Add(16 * time.Minute); !r.Decision.Next.Equal(want) {
		t.Errorf("looks again at %s, want %s", r.Decision.Next, want)
	}
	expect(t, "after it", f.after(5*time.Minute), "Goes 1, InUse 2, WaitsForLevel 1") // b is as large then
}

// TestDeferral: a cannot shrink, so the nodes of b wait for the level of their
// set, but not forever.
func TestDeferral(t *testing.T) {
	f := newFleet(t, groups(cloudGroup("a", 3, 0), cloudGroup("b", 3, 0)), Options{})
	f.fill(3000, "a-0001", "a-0002", "a-0003")
	expect(t, "at first", f.after(0), "InUse 3, WaitsForTime 3")
	r := f.after(10 * time.Minute)
	expect(t, "one is level", r, "Goes 1, InUse 3, WaitsForLevel 2")
	since := f.clock.Now()
	r = f.after(2 * time.Minute)
	expect(t, "the others wait", r, "InUse 3, WaitsForLevel 2")
	for _, o := range r.Decision.Nodes {
		if o.Outcome == WaitsForLevel && (!o.DeferredSince.Equal(since) || o.Behind != "a") {
			t.Errorf("%s is deferred since %s behind %q, want %s behind a", o.Node, o.DeferredSince, o.Behind, since)
		}
	}
	if want := since.Add(10 * time.Minute); !r.Decision.Next.Equal(want) {
		t.Errorf("looks again at %s, want %s", r.Decision.Next, want)
	}
	r = f.after(8 * time.Minute)
	expect(t, "long enough", r, "Goes 2, InUse 3")
	for _, at := range r.Decision.Go {
		if r.Decision.Nodes[at].Behind != "a" {
			t.Errorf("does not say that it goes ahead of a: %+v", r.Decision.Nodes[at])
		}
	}
}

// TestDeferralIsForgotten where a node is needed meanwhile: it then waits the whole
// time again.
func TestDeferralIsForgotten(t *testing.T) {
	f := newFleet(t, groups(cloudGroup("a", 3, 0), cloudGroup("b", 2, 0)), Options{})
	f.fill(3000, "a-0001", "a-0002", "a-0003")
	f.after(0)
	expect(t, "both wait", f.after(10*time.Minute), "InUse 3, WaitsForLevel 2")
	f.fill(3000, "b-0001")
	expect(t, "one is needed", f.after(5*time.Minute), "InUse 4, WaitsForLevel 1")
	delete(f.pods, "b-0001")
	expect(t, "the other goes", f.after(5*time.Minute), "Goes 1, InUse 3, WaitsForTime 1")
	expect(t, "it waits again", f.after(10*time.Minute), "InUse 3, WaitsForLevel 1")
	expect(t, "the whole time", f.after(10*time.Minute), "Goes 1, InUse 3")
}

// TestDeferralOutlivesAMinimum: a node whose group is at its minimum for a round is not needed for
// that.
func TestDeferralOutlivesAMinimum(t *testing.T) {
	f := newFleet(t, groups(cloudGroup("a", 1, 0)), Options{})
	for i, c := range []struct {
		outcome Outcome
		waits   bool
	}{{WaitsForLevel, true}, {NodeFixed, true}, {WaitsForLevel, true}, {NodeNeeded, false}} {
		now := start.Add(time.Duration(i) * time.Minute)
		f.down.remember(&Decision{Nodes: []NodeOutcome{{Node: "a-0001", Outcome: c.outcome, DeferredSince: start}}}, now)
		if since := f.down.deferred.Since("a-0001"); since.Equal(start) != c.waits {
			t.Errorf("after %s the node waits since %s", c.outcome, since)
		}
	}
}

func TestNoDeferral(t *testing.T) {
	zero := time.Duration(0)
	g := newFleet(t, groups(cloudGroup("a", 3, 0), cloudGroup("b", 3, 0)), Options{MaxBalanceDeferral: &zero})
	g.fill(3000, "a-0001", "a-0002", "a-0003")
	g.after(0)
	expect(t, "without deferral", g.after(10*time.Minute), "Goes 3, InUse 3")
}

func TestParallelism(t *testing.T) {
	f := newFleet(t, groups(cloudGroup("a", 6, 0), cloudGroup("b", 6, 0)), Options{MaxParallelism: 3})
	f.fill(500, "a-0001", "a-0002", "b-0001", "b-0002")
	f.after(0)
	r := f.after(10 * time.Minute)
	drains := 0
	for _, at := range r.Decision.Go {
		if r.Decision.Nodes[at].Drain {
			drains++
		}
	}
	if len(r.Decision.Go) != 3 || drains > 1 {
		t.Errorf("%d go, %d of them with pods, want 3 and at most one", len(r.Decision.Go), drains)
	}
	if r = f.after(10 * time.Second); len(r.Decision.Go) != 0 || !strings.Contains(tally(r), string(WaitsForLimit)) {
		t.Errorf("while they leave: %s", tally(r))
	}
	if r = f.after(time.Minute); len(r.Decision.Go) != 3 {
		t.Errorf("when they are gone: %s", tally(r))
	}
}

func TestUnreadyNodesHaveTheirOwnTime(t *testing.T) {
	config := groups(cloudGroup("a", 2, 0), cloudGroup("b", 2, 0))
	config.Outages = []fake.Outage{{Zones: []string{"zone-a"}, Window: fake.Window{Start: time.Second}}}
	f := newFleet(t, config, Options{})
	f.fill(3000, "b-0001", "b-0002")
	f.after(0)
	f.after(time.Minute)
	expect(t, "after ten minutes", f.after(10*time.Minute), "InUse 2, WaitsForTime 2")
	r := f.after(10 * time.Minute)
	expect(t, "after twenty, without waiting for balance", r, "Goes 2, InUse 2")
	for _, at := range r.Decision.Go {
		if o := r.Decision.Nodes[at]; o.Behind != "" || !o.DeferredSince.IsZero() {
			t.Errorf("an unready node seems to have waited for balance: %+v", o)
		}
	}
}

// TestFailedDeletions: the group that failed waits, the others go on; a group
// that shrank although the call failed has lost its nodes.
func TestFailedDeletions(t *testing.T) {
	for name, effect := range map[string]bool{"refused": false, "lost answer": true} {
		t.Run(name, func(t *testing.T) {
			config := groups(cloudGroup("a", 2, 0), cloudGroup("b", 2, 0))
			config.Calls = []fake.CallFault{{Methods: []fake.Method{fake.MethodDeleteNodes}, Groups: []string{"a"}, First: 1, Error: "boom", AfterEffect: effect}}
			f := newFleet(t, config, Options{})
			f.after(0)
			r := f.after(10 * time.Minute)
			if effect {
				expect(t, "lost answer", r, "Goes 4")
				expect(t, "afterwards", f.after(10*time.Second), "Leaving 4")
				return
			}
			expect(t, "refused", r, "Goes 2, Refused 2")
			at := slices.IndexFunc(r.Attempts, func(a Attempt) bool { return a.Group == "a" })
			if !errors.Is(r.Attempts[at].Err, cloudprovider.ErrUnavailable) || r.Attempts[at].Shrank != 0 {
				t.Errorf("attempt %+v", r.Attempts[at])
			}
			r = f.after(10 * time.Second)
			expect(t, "soon after", r, "Leaving 2, WaitsForCoolDown 2")
			expect(t, "once more", f.after(r.Decision.Next.Sub(f.clock.Now())), "Goes 2")
		})
	}
}

func TestAllOrNothingGroupsStay(t *testing.T) {
	whole := cloudGroup("a", 2, 0)
	whole.Options = &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}
	own := cloudGroup("b", 2, 0)
	own.Options = &cloudprovider.GroupOptions{ScaleDownUnneededTime: time.Minute}
	f := newFleet(t, groups(whole, own), Options{})
	f.after(0)
	expect(t, "the group's own time", f.after(time.Minute), "Fixed 2, Goes 2")
}

func TestNewRefuses(t *testing.T) {
	cloud, err := fake.New(fake.Config{}, clocktesting.NewFakeClock(start))
	if err != nil {
		t.Fatal(err)
	}
	checker := newChecker(t)
	negative, above := -time.Second, int64(Whole+1)
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{UnneededTime: &negative}, "unneededTime: Invalid value: -1s: must not be negative"},
		{Options{MaxBalanceDeferral: &negative}, "maxBalanceDeferral: Invalid value: -1s: must not be negative; 0 defers nothing"},
		{Options{MaxDrainParallelism: -1}, "maxDrainParallelism: Invalid value: -1: must be 0 to 2147483647"},
		{Options{UtilizationThreshold: &above}, "utilizationThreshold: Invalid value: 1000001: must be 0 to 1000000"},
	} {
		if _, err := New(cloud, checker, c.opts); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := New(nil, checker, Options{}); err == nil {
		t.Error("takes no provider")
	}
}
