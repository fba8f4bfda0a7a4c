package sidecar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
)

// outcome is the result of a world.
type outcome struct {
	running time.Duration  // since when all pods run; 0 for never
	waited  time.Duration  // by all pods together
	sizes   []int          // of the groups at the end
	orders  map[string]int // nodes ordered in all, by group
	most    int            // nodes on order at once
	w       *harness
}

func (o *outcome) String() string {
	ordered := 0
	for _, n := range o.orders {
		ordered += n
	}
	return fmt.Sprintf("all pods run after %s, they waited %s, sizes %v, %d nodes ordered %v, at most %d at once", o.running, o.waited,
		o.sizes, ordered, o.orders, o.most)
}

// observe runs a world for so long.
func (w *harness) observe(until time.Duration) *outcome {
	w.t.Helper()
	o := &outcome{orders: map[string]int{}, w: w}
	for w.clock.Since(start) < until {
		before := w.clock.Now()
		w.ca.Step()
		state := w.ca.State()
		onOrder := 0
		for _, g := range state.Groups {
			onOrder += g.Size - g.Ready
		}
		o.sizes, o.most = state.Sizes(), max(o.most, onOrder)
		o.waited += time.Duration(state.Pending) * w.clock.Since(before)
		switch {
		case state.Pending > 0:
			o.running = 0
		case o.running == 0:
			o.running = w.clock.Since(start)
		}
	}
	for _, c := range w.cloud.Calls() {
		if c.Method == fake.MethodIncreaseSize && c.Error == "" {
			o.orders[c.Group] += c.Delta
		}
	}
	return o
}

// alone is the same world with a Cluster Autoscaler that balances by itself, and no sidecar.
func (s setup) alone(t testing.TB) *harness {
	t.Helper()
	s.ca.Balance = true
	w := newHarness(t, s)
	w.connect(s, always(autoscaler.Connection{Provider: w.cloud}))
	return w
}

// provisioned is the setup with a --max-node-provision-time.
func (s setup) provisioned(limit time.Duration) setup {
	s.ca.ProvisionTime, s.sidecar.MaxNodeProvisionTime = limit, limit
	return s
}

// aLoop is Cluster Autoscaler's scan interval and what the loops of the other members take.
const aLoop = 11 * time.Second

// neverWorse compares a world with the same one without sidecar: pods run no later, but for one
// loop per member, and there are no more nodes than it orders, unless they run sooner.
func neverWorse(t *testing.T, s setup, until time.Duration) *outcome {
	t.Helper()
	var with, without *outcome
	for seed := range uint64(1) { // Cluster Autoscaler's choices are random
		s.seed = seed
		with, without = newHarness(t, s).observe(until), s.alone(t).observe(until)
		pods := 0
		for _, b := range s.batches {
			pods += len(b.Pods)
		}
		grace := time.Duration(len(s.cloud.Groups)) * aLoop
		later := without.running > 0 && with.running > without.running+grace || with.waited > without.waited+time.Duration(pods)*grace
		if with.running == 0 || later || total(with.sizes) > total(without.sizes) && with.waited >= without.waited {
			t.Errorf("seed %d: with the sidecar %s\nCluster Autoscaler alone: %s\n%s", seed, with, without, with.w.log())
		}
	}
	t.Logf("with the sidecar %s\nalone %s", with, without)
	return with
}

// threeTimes are pods for nine nodes each, long after one another.
func threeTimes() []batch {
	var out []batch
	for i, at := range []time.Duration{3 * time.Second, 17 * time.Minute, 40 * time.Minute} {
		out = append(out, batch{At: at, Pods: podsOf(fmt.Sprint(i), 9, 1)})
	}
	return out
}

// A zone whose machines are of no use fails as a whole, however that shows: pods run no later than
// with Cluster Autoscaler alone, those that come later too, and the zone is not filled and emptied
// over and over.
func TestAMemberThatDoesNotDeliver(t *testing.T) {
	if testing.Short() {
		t.Skip("plays for long")
	}
	for _, mode := range []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent, fake.NeverRegisters,
		fake.NeverReady} {
		for _, limit := range []time.Duration{2 * time.Minute, 15 * time.Minute} {
			for _, end := range []time.Duration{0, 20 * time.Minute} {
				t.Run(fmt.Sprintf("%s, provision time %s, until %s", mode, limit, end), func(t *testing.T) {
					s := setup{batches: threeTimes(), cloud: fake.Config{Groups: zones(0, 0, 0), StockOuts: []v1alpha1.StockOut{{
						Groups: []string{"b"}, FaultWindow: during(0, end), Mode: mode,
					}}}}
					o := neverWorse(t, s.provisioned(limit), 90*time.Minute)
					dead := 0
					if mode == fake.NeverReady { // which stay
						dead = o.orders["b"]
					}
					if o.most > 9+dead {
						t.Errorf("%d nodes were on order at once, for nine", o.most)
					}
					if end == 0 && o.orders["b"] > 3+2 {
						t.Errorf("%d nodes were ordered of a zone that never delivered: its share, and one each after a backoff", o.orders["b"])
					}
				})
			}
		}
	}
}

// A zone that goes down during a scale-up, with nodes in any phase of their life: pods that wait
// and pods that come run no later than with Cluster Autoscaler alone.
func TestAZoneGoesDownDuringAScaleUp(t *testing.T) {
	if testing.Short() {
		t.Skip("plays for long")
	}
	for _, mode := range []string{v1alpha1.OutageUnready, v1alpha1.OutageVanish} {
		for _, limit := range []time.Duration{2 * time.Minute, 15 * time.Minute} {
			for _, end := range []time.Duration{0, 10 * time.Minute} {
				t.Run(fmt.Sprintf("%s, provision time %s, until %s", mode, limit, end), func(t *testing.T) {
					for _, begin := range []time.Duration{15 * time.Second, 29 * time.Second, 40 * time.Second, time.Minute, 100 * time.Second} {
						s := setup{cloud: fake.Config{Groups: zones(0, 0, 0), Outages: []v1alpha1.Outage{{
							Zones: []string{"b"}, Mode: mode, FaultWindow: during(begin, end),
						}}}, batches: []batch{
							{At: 3 * time.Second, Pods: podsOf("p", 15, 1)}, {At: 70 * time.Second, Pods: podsOf("q", 9, 1)},
							{At: 4 * time.Minute, Pods: podsOf("r", 9, 1)},
						}}
						s.bindDelay = 5 * time.Second // so that pods wait for nodes that are lost again
						neverWorse(t, s.provisioned(limit), 45*time.Minute)
					}
				})
			}
		}
	}
}

// A zone turns unready, and more pods come: nodes of it are not on their way, also where the sidecar
// has just been started.
func TestMorePodsComeWhileAZoneIsUnready(t *testing.T) {
	for i := range 6 {
		begin, balance := []time.Duration{20 * time.Second, 40 * time.Second, 2 * time.Minute}[i/2], i%2 == 1
		s := setup{cloud: fake.Config{Groups: zones(1, 1, 1), Outages: []v1alpha1.Outage{{
			Zones: []string{"b"}, Mode: v1alpha1.OutageUnready, FaultWindow: during(begin, begin+7*time.Minute),
		}}}, batches: []batch{
			{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: begin + 15*time.Second, Pods: podsOf("q", 9, 1)},
		}}
		s.ca.Balance = balance
		with := newHarness(t, s)
		with.ca.Run(begin + 5*time.Second)
		with.restartSidecar()
		if o, alone := with.observe(15*time.Minute), s.alone(t).observe(15*time.Minute); o.running == 0 || o.running > alone.running+3*aLoop {
			t.Errorf("from %s, balancing %t: with the sidecar %s\nCluster Autoscaler alone: %s\n%s", begin, balance, o, alone, with.log())
		}
	}
}

// A zone whose nodes have just come turns unready, and Cluster Autoscaler, which balances by itself, asks for a third of the nodes
// there. If that were answered with success it would wait for those that are not ready.
func TestNothingIsExpectedOfAnUnreadyZone(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(0, 0, 0), Outages: []v1alpha1.Outage{{
		Zones: []string{"b"}, Mode: v1alpha1.OutageUnready, FaultWindow: during(2*time.Minute, 0),
	}}}, batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: 150 * time.Second, Pods: podsOf("q", 9, 1)}}}
	s.ca.Balance = true
	with := newHarness(t, s)
	if o, alone := with.observe(15*time.Minute), s.alone(t).observe(15*time.Minute); o.waited > alone.waited+9*3*aLoop {
		t.Errorf("with the sidecar %s\nCluster Autoscaler alone: %s\n%s", o, alone, with.log())
	}
}

// All zones turn unready for less than a minute, longer after the last order than nodes may take to come,
// and more pods come: nodes that were ready once are no undelivered ones, and no member is left alone.
func TestNodesThatWereReadyAreNoUndeliveredOnes(t *testing.T) {
	events := told{}
	s := setup{sidecar: sidecar.Options{Recorder: events}, cloud: fake.Config{Groups: zones(0, 0, 0), Outages: []v1alpha1.Outage{{
		Zones: []string{"a", "b", "c"}, Mode: v1alpha1.OutageUnready, FaultWindow: during(5*time.Minute, 5*time.Minute+50*time.Second),
	}}}, batches: []batch{
		{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: 6*time.Minute + 30*time.Second, Pods: podsOf("q", 15, 1)},
	}}.provisioned(90 * time.Second)
	w := newHarness(t, s)
	if o, alone := w.observe(15*time.Minute), s.alone(t).observe(15*time.Minute); o.running == 0 || o.running > alone.running+3*aLoop ||
		!slices.Equal(o.sizes, []int{8, 8, 8}) {
		t.Errorf("with the sidecar %s\nCluster Autoscaler alone: %s\n%s", o, alone, w.log())
	}
	if events["MemberBackedOff"] > 0 {
		t.Errorf("events %v\n%s", events, w.log())
	}
}

// After its backoff a member gets one node first, whatever its share; when that is ready it takes
// part again.
func TestAMemberIsTriedWithOneNode(t *testing.T) {
	events := told{}
	s := setup{seed: 1, sidecar: sidecar.Options{Recorder: events}, cloud: fake.Config{Groups: zones(0, 0, 0), StockOuts: []v1alpha1.StockOut{{
		Groups: []string{"b"}, FaultWindow: during(0, 5*time.Minute), Mode: fake.NeverRegisters,
	}}}, batches: []batch{
		{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: 10 * time.Minute, Pods: podsOf("q", 9, 1)},
		{At: 12 * time.Minute, Pods: podsOf("r", 9, 1)},
	}}
	w := newHarness(t, s.provisioned(2*time.Minute))
	for _, step := range []struct {
		at    time.Duration
		sizes []int
		told  string // of b, on the status page
	}{
		{2 * time.Minute, []int{3, 3, 3}, ""},
		{4 * time.Minute, []int{5, 0, 4}, "boot, first at 2026-08-01T12:02:"},
		{11 * time.Minute, []int{9, 1, 8}, ""},
		{13 * time.Minute, []int{9, 9, 9}, ""},
	} {
		w.ca.Run(step.at)
		state := w.ca.State()
		b := w.front.Status().Groups[1]
		if fmt.Sprint(sorted(state.Sizes())) != fmt.Sprint(sorted(step.sizes)) || !strings.HasPrefix(b.Backoff, step.told) ||
			(b.Backoff == "") != (step.told == "") {
			t.Errorf("after %s: sizes %v, want %v; b is %+v\n%s", step.at, state.Sizes(), step.sizes, b, w.log())
		}
	}
	if events["MemberBackedOff"] == 0 {
		t.Errorf("events %v", events)
	}
}

// Pods that come while nodes are on their way take the room of pods that are like them. Nodes for
// these are ordered at once.
func TestPodsThatComeWhileNodesBoot(t *testing.T) {
	s := ten()
	s.batches = append(s.batches, batch{At: 30 * time.Second, Pods: podsOf("more", 9, 1)})
	w := newHarness(t, s)
	w.ca.Run(45 * time.Second)
	if state := w.ca.State(); fmt.Sprint(state.Sizes()) != "[13 13 13]" {
		t.Errorf("sizes %v\n%s", state.Sizes(), w.log())
	}
}

// Where no other member has room, nodes that have vanished stay on order: they come as soon as the
// zone is back.
func TestWhatOthersCannotTakeStaysOnOrder(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(3, 3), Outages: []v1alpha1.Outage{{
		Zones: []string{"b"}, Mode: v1alpha1.OutageVanish, FaultWindow: during(time.Minute, 20*time.Minute),
	}}}}
	s.cloud.Groups[0].MaxSize = 4
	o := newHarness(t, s.provisioned(2*time.Minute)).observe(30 * time.Minute)
	if o.running == 0 || o.running > 21*time.Minute || o.sizes[1] != 3 {
		t.Errorf("%s\n%s", o, o.w.log())
	}
}

// What a cloud makes anew after an outage has the time of a new order to become nodes, also where
// the order was long ago. Pods that come while it boots get their nodes at once.
func TestWhatTheCloudMakesAnewIsNotOverdue(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(1, 0), Outages: []v1alpha1.Outage{{
		Zones: []string{"b"}, Mode: v1alpha1.OutageVanish, FaultWindow: during(time.Minute, 10*time.Minute),
	}}}, batches: []batch{
		{At: 3 * time.Second, Pods: podsOf("p", 2, 1)}, {At: 10*time.Minute + 10*time.Second, Pods: podsOf("q", 3, 1)},
	}}
	s.cloud.Groups[0].MaxSize = 1
	o := neverWorse(t, s.provisioned(2*time.Minute), 20*time.Minute)
	if o.running > 12*time.Minute+30*time.Second || o.orders["b"] != 5 {
		t.Errorf("%s\n%s", o, o.w.log())
	}
}

// Where no other member has room, nobody can take a failed member's share. It is ordered again as soon
// as Cluster Autoscaler asks for it, or within a minute where that does not know of the failure.
func TestAMemberThatNoneCanReplaceIsTriedAgain(t *testing.T) {
	for _, mode := range []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent, fake.NeverRegisters} {
		t.Run(mode, func(t *testing.T) {
			for seed := range uint64(5) { // which pods take the room that a has left is random
				s := setup{seed: seed, cloud: fake.Config{Groups: zones(0, 0), StockOuts: []v1alpha1.StockOut{{
					Groups: []string{"b"}, FaultWindow: during(0, 21*time.Minute), Mode: mode,
				}}}, batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 8, 1)}}}
				s.cloud.Groups[0].MaxSize = 5
				s = s.provisioned(2 * time.Minute)
				with, without := newHarness(t, s).observe(time.Hour), s.alone(t).observe(time.Hour)
				grace := 2 * aLoop
				if mode != fake.NeverRegisters { // of which Cluster Autoscaler knows as well
					grace += time.Minute
				}
				if with.running == 0 || with.running > without.running+grace || mode == v1alpha1.StockOutRefuse && with.running > 23*time.Minute {
					t.Errorf("seed %d: with the sidecar %s\nCluster Autoscaler alone: %s\n%s", seed, with, without, with.w.log())
				}
			}
		})
	}
}

// The option of a group near its maximum holds only some of the pods that may get its new nodes.
// Where others get them, Cluster Autoscaler counts these nodes all the same, and the rest of the need
// is ordered at once.
func TestOtherPodsTakeTheRoomOfALimitedOption(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(0, 0), StockOuts: []v1alpha1.StockOut{{
		Groups: []string{"b"}, Mode: fake.NeverRegisters,
	}}}, batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 8, 1)}}}
	s.cloud.Groups[0].MaxSize = 5
	for seed := range uint64(5) {
		s.seed = seed
		w := newHarness(t, s.provisioned(2*time.Minute))
		w.ca.Run(2*time.Minute + 30*time.Second) // b has been given up for the first time
		if state := w.ca.State(); !slices.Equal(state.Sizes(), []int{5, 3}) {
			t.Errorf("seed %d: sizes %v\n%s", seed, state.Sizes(), w.log())
		}
	}
}

// A cloud lists new instances half a minute late. Cluster Autoscaler takes a group without instances
// to be unhealthy, unless its size is what it has asked for: pods that come meanwhile are shared among
// all members all the same, and run as soon as with Cluster Autoscaler alone.
func TestInstancesThatAreListedLate(t *testing.T) {
	for _, boot := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		for _, more := range []time.Duration{8 * time.Second, 20 * time.Second, 40 * time.Second} {
			s := setup{cloud: fake.Config{Groups: zones(0, 0, 0)}, batches: []batch{
				{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: 3*time.Second + more, Pods: podsOf("q", 9, 1)},
			}}
			for i := range s.cloud.Groups {
				s.cloud.Groups[i].ListDelay, s.cloud.Groups[i].BootTime = 30*time.Second, boot
			}
			o := neverWorse(t, s, 10*time.Minute)
			if !slices.Equal(o.sizes, []int{6, 6, 6}) {
				t.Errorf("boot %s, more after %s: %s\n%s", boot, more, o, o.w.log())
			}
		}
	}
}

// A node that falls silent while it boots is not on its way. Cluster Autoscaler counts on it until
// its time is over, and so puts pods on it that could run elsewhere: that ends with its next
// question.
func TestPodsDoNotWaitForASilentNode(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(0, 0, 0), Outages: []v1alpha1.Outage{{
		Zones: []string{"b"}, Mode: v1alpha1.OutageUnready, FaultWindow: during(30*time.Second, 14*time.Minute),
	}}}, batches: []batch{
		{At: 3 * time.Second, Pods: podsOf("p", 2, 1)}, {At: 2 * time.Minute, Pods: podsOf("q", 4, 1)},
	}}
	for seed := range uint64(5) {
		s.seed = seed
		o := newHarness(t, s).observe(20 * time.Minute)
		if o.running == 0 || o.running > 2*time.Minute+time.Minute+2*aLoop {
			t.Errorf("seed %d: %s\n%s", seed, o, o.w.log())
		}
	}
}

// A node that never becomes ready counts for Cluster Autoscaler as soon as it holds a request for
// the group. As long as others can take its share, the member gets none, or pods would wait for
// that node.
func TestAMemberWithNodesThatWillNotComeIsLeftOut(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(0, 0, 0), StockOuts: []v1alpha1.StockOut{{
		Groups: []string{"b"}, FaultWindow: during(0, 4*time.Minute), Mode: fake.NeverReady,
	}}}, batches: []batch{
		{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: 9 * time.Minute, Pods: podsOf("q", 3, 1)},
	}}
	o := newHarness(t, s.provisioned(2*time.Minute)).observe(15 * time.Minute)
	if o.running == 0 || o.running > 9*time.Minute+time.Minute || o.orders["b"] != 3 {
		t.Errorf("%s\n%s", o, o.w.log())
	}
}
