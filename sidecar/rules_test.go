package sidecar_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// tapped is a cloud that a test takes down, or whose increases it handles itself.
type tapped struct {
	*fake.Cloud
	down     func() bool
	increase func(ctx context.Context, id string, delta int) error
}

func (c *tapped) reach() error {
	if c.down != nil && c.down() {
		return fmt.Errorf("nobody answers: %w", cloudprovider.ErrUnavailable)
	}
	return nil
}

func (c *tapped) Refresh(ctx context.Context) error {
	return cmp.Or(c.reach(), c.Cloud.Refresh(ctx))
}

func (c *tapped) TargetSize(ctx context.Context, id string) (int, error) {
	if err := c.reach(); err != nil {
		return 0, err
	}
	return c.Cloud.TargetSize(ctx, id)
}

func (c *tapped) IncreaseSize(ctx context.Context, id string, delta int) error {
	if err := c.reach(); err != nil {
		return err
	}
	if c.increase != nil {
		return c.increase(ctx, id, delta)
	}
	return c.Cloud.IncreaseSize(ctx, id, delta)
}

// startSidecar replaces the sidecar by a new process in front of another cloud.
func (w *harness) startSidecar(backend sidecar.Backend) {
	w.t.Helper()
	s, err := sidecar.New(backend, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.front.Sidecar = s
	w.front.generation++
}

// connect replaces Cluster Autoscaler by one that is connected in another way.
func (w *harness) connect(s setup, connect func(process int) autoscaler.Connection) {
	w.t.Helper()
	config := clusterConfig{
		clock: w.clock, cloud: w.cloud, batches: append([]batch{fill(s.cloud.Groups)}, s.batches...), seed: s.seed, ca: s.ca, connect: connect,
		firstFit: s.firstFit, bindDelay: s.bindDelay,
	}
	if s.fault != nil {
		config.fault = func(c caCall) callFault { return s.fault(w, c) }
	}
	w.ca = newCluster(w.t, config)
}

// always is the same connection for every process.
func always(c autoscaler.Connection) func(int) autoscaler.Connection {
	return func(int) autoscaler.Connection { return c }
}

// unasked is a connection of --expander=random.
func (w *harness) unasked(process int) autoscaler.Connection {
	return autoscaler.Connection{Provider: w.front, Intercept: func(ctx context.Context, _ autoscaler.Call,
		do func(context.Context) error) error {
		return do(context.WithValue(ctx, connectionKey{}, fmt.Sprint(process, "-", w.front.generation)))
	}}
}

// slow has nodes take a minute.
func slow(groups []fake.Group) []fake.Group {
	for i := range groups {
		groups[i].BootTime = time.Minute
	}
	return groups
}

// A trial is a world that a rule makes come out right.
type trial struct {
	setup
	prepare func(*harness)
}

// ten are three empty groups and pods for thirty nodes.
func ten() setup {
	return setup{seed: 1, cloud: fake.Config{Groups: slow(zones(0, 0, 0))}, batches: []batch{{Pods: podsOf("p", 30, 1)}}}
}

// TestRules: with every rule at work the sizes are those of one exact split. Rules that can be
// taken away between Cluster Autoscaler and the sidecar are: without one of them the sizes are what
// steering without it comes to.
func TestRules(t *testing.T) {
	crash := func(after int) func(*testing.T) trial {
		return func(*testing.T) trial {
			s := ten()
			s.fault = crashAfter(after)
			return trial{setup: s}
		}
	}
	tests := map[string]struct {
		trial   func(*testing.T) trial
		want    []int
		take    func(*setup) // takes the rule away
		without []int        // nil for anything but want
	}{
		"SeeWhatCannotBeSeen after the first grant":  {trial: crash(1), want: []int{10, 10, 10}},
		"SeeWhatCannotBeSeen after the second grant": {trial: crash(2), want: []int{10, 10, 10}},
		"HideFailures":     {trial: failsInFlight, want: []int{8, 5, 8}},
		"StayWithTheSet":   {trial: twelveGroups, want: []int{0, 0, 0, 10, 9, 9, 0, 0, 0, 0, 0, 0}},
		"NeedIsTheLargest": {trial: nearItsMaximum, want: []int{0, 0, 0, 0, 1, 27, 0, 0, 0, 0, 0, 0}},
		"NoticeNewProcesses": {
			trial: restartWhenAllIsOrdered, want: []int{50, 50, 50}, // without it ten, and often more, are ordered twice
			take: func(s *setup) { s.between = func(f *front) cloudprovider.Provider { return unnoticed{f} } },
		},
		"KeepTheAnswer of releases that ask for the GPU label after it": {
			trial: func(*testing.T) trial {
				s := ten()
				s.ca = autoscaler.Options{Before135: true, Before136: true}
				return trial{setup: s}
			}, want: []int{10, 10, 10},
		},
		"KeepTheAnswer of a process that began in the middle of a scale-up": {
			trial: func(*testing.T) trial {
				s := ten()
				s.fault = crashAfter(1)
				s.ca = autoscaler.Options{Before135: true, Before136: true}
				return trial{setup: s}
			}, want: []int{10, 10, 10},
		},
		"JournalIncreases": {
			trial: restartBeforeTheIncrease, want: []int{10, 10, 10}, without: []int{30, 0, 0},
			take: func(s *setup) { s.sidecar.Journal = forgetful{} },
		},
		"PauseOnErrors": {
			trial: cloudDown, want: []int{10, 10, 10}, without: []int{30, 0, 0},
			take: func(s *setup) { s.between = func(f *front) cloudprovider.Provider { return unpaused{f} } },
		},
		"NoOptions": {
			trial: slowlyReady, want: []int{3}, without: []int{6},
			take: func(s *setup) { s.between = func(f *front) cloudprovider.Provider { return echoing{f} } },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, w := tt.trial(t).run(t)
			if !slices.Equal(sorted(got), sorted(tt.want)) {
				t.Errorf("sizes %v, want %v\n%s", got, tt.want, w.log())
			}
			if tt.take == nil {
				return
			}
			bare := tt.trial(t)
			tt.take(&bare.setup)
			got, w = bare.run(t)
			switch {
			case tt.without == nil && total(got) <= total(tt.want):
				t.Errorf("without the rule sizes %v, want more than %v\n%s", got, tt.want, w.log())
			case tt.without != nil && !slices.Equal(sorted(got), sorted(tt.without)):
				t.Errorf("without the rule sizes %v, want %v\n%s", got, tt.without, w.log())
			}
		})
	}
}

// unnoticed keeps from the sidecar what tells it of a new process of Cluster Autoscaler.
type unnoticed struct{ *front }

func (unnoticed) GPULabel(context.Context) (string, error) { return "", nil }

// unpaused keeps from Cluster Autoscaler that the cloud could not be read.
type unpaused struct{ *front }

func (u unpaused) Refresh(ctx context.Context) error {
	_ = u.front.Refresh(ctx)
	return nil
}

// echoing answers with the options it is asked with.
type echoing struct{ *front }

func (echoing) Options(_ context.Context, _ string, defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
	return defaults, nil
}

// forgetful is a journal that keeps nothing.
type forgetful struct{}

func (forgetful) Load(context.Context) ([]byte, error) { return nil, nil }
func (forgetful) Save(context.Context, []byte) error   { return nil }

func (x trial) run(t *testing.T) ([]int, *harness) {
	t.Helper()
	w := newHarness(t, x.setup)
	if x.prepare != nil {
		x.prepare(w)
	}
	state := w.settle(time.Hour)
	if state.Pending > 0 {
		t.Errorf("%d pods pending\n%s", state.Pending, w.log())
	}
	return state.Sizes(), w
}

// failsInFlight: 15 nodes are on their way when six more are needed and b refuses.
func failsInFlight(*testing.T) trial {
	groups := zones(0, 0, 0)
	for i := range groups {
		groups[i].BootTime = 5 * time.Minute
	}
	return trial{setup: setup{seed: 1,
		cloud: fake.Config{Groups: groups, StockOuts: []v1alpha1.StockOut{{
			Groups: []string{"b"}, FaultWindow: during(time.Minute, 10*time.Minute),
		}}},
		batches: []batch{{At: 3 * time.Second, Pods: podsOf("web", 15, 1)}, {At: time.Minute, Pods: podsOf("api", 6, 1)}},
	}}
}

// twelveGroups are four sets of three, and pods of which the nodes take three, two, two and one. 56
// pods fill 28 nodes of the second set to the last core and 19 of the first not quite; of the 36
// that are left after ten nodes both can be filled.
func twelveGroups(t *testing.T) trial {
	groups := slow(zones(make([]int, 12)...))
	for i, cores := range []string{"6", "4", "5", "3"} {
		for _, g := range groups[3*i : 3*i+3] {
			g.Template.Node.Labels[v1.LabelInstanceTypeStable] = "m" + cores
			g.Template.Node.Status.Capacity[v1.ResourceCPU] = resource.MustParse(cores)
			g.Template.Node.Status.Allocatable[v1.ResourceCPU] = resource.MustParse(cores)
		}
	}
	chain, err := expander.New([]string{"least-waste"}, expander.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return trial{setup: setup{seed: 1, cloud: fake.Config{Groups: groups}, batches: []batch{{Pods: podsOf("p", 56, 2)}},
		sidecar: sidecar.Options{Options: steering.Options{Chain: chain}}}}
}

// nearItsMaximum: of the second set of twelveGroups the member it was chosen for refuses, and the
// next has room for one node, so that its option holds few pods.
func nearItsMaximum(t *testing.T) trial {
	x := twelveGroups(t)
	x.cloud.Groups[4].MaxSize = 1
	x.cloud.StockOuts = []v1alpha1.StockOut{{Groups: []string{"d"}}}
	return x
}

// restartWhenAllIsOrdered restarts Cluster Autoscaler while the nodes of all groups are on their
// way, and the pods they are for are replaced by others: a question for these alone does not tell
// that nodes are forgotten. The groups have so many nodes already that none looks unhealthy.
func restartWhenAllIsOrdered(*testing.T) trial {
	s := setup{seed: 1, cloud: fake.Config{Groups: slow(zones(40, 40, 40))}, batches: []batch{
		{Pods: podsOf("p", 30, 1), Life: 20 * time.Second}, {At: 20 * time.Second, Pods: podsOf("q", 30, 1)},
	}}
	increases, crashed := 0, false
	s.fault = func(_ *harness, c caCall) callFault {
		if c.Method == fake.MethodIncreaseSize {
			increases++
		}
		if c.Method != fake.MethodRefresh || increases < 3 || crashed {
			return callFault{}
		}
		crashed = true
		return callFault{Crash: true}
	}
	return trial{setup: s}
}

// restartBeforeTheIncrease restarts the sidecar between the answer of the expander and the
// increase.
func restartBeforeTheIncrease(*testing.T) trial {
	s, done := ten(), false
	s.fault = func(w *harness, c caCall) callFault {
		if c.Method == fake.MethodIncreaseSize && !done {
			done = true
			w.restartSidecar()
		}
		return callFault{}
	}
	return trial{setup: s}
}

// cloudDown: the cloud does not answer for a while after the first grant.
func cloudDown(*testing.T) trial {
	return trial{setup: ten(), prepare: func(w *harness) {
		w.startSidecar(&tapped{Cloud: w.cloud, down: func() bool {
			at := w.clock.Since(start)
			return at > 10*time.Second+150*time.Millisecond && at < 40*time.Second
		}})
	}}
}

// slowlyReady: nodes that are registered and not ready for a minute.
func slowlyReady(*testing.T) trial {
	groups := zones(0)
	groups[0].BootTime, groups[0].ReadyDelay = 5*time.Second, time.Minute
	return trial{setup: setup{seed: 1, cloud: fake.Config{Groups: groups}, batches: []batch{{At: 3 * time.Second, Pods: podsOf("p", 3, 1)}}}}
}

// A decrease takes back all that was asked for, also what was never granted and what has come
// since. The cloud refuses that, and goes on waiting.
func TestRuleClampDecreases(t *testing.T) {
	w := newHarness(t, setup{cloud: fake.Config{Groups: zones(0), StockOuts: []v1alpha1.StockOut{{Mode: v1alpha1.StockOutSilent, Left: 4}}}})
	ctx := t.Context()
	if err := w.cloud.IncreaseSize(ctx, "a", 10); err != nil {
		t.Fatal(err)
	}
	if err := w.front.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.cloud.DecreaseTargetSize(ctx, "a", -26); err == nil {
		t.Error("the cloud takes back more than it was asked for")
	}
	if err := w.front.DecreaseTargetSize(ctx, "a", -26); err != nil {
		t.Error(err)
	}
	if got, _ := w.cloud.TargetSize(ctx, "a"); got != 4 {
		t.Errorf("target size %d, want 4", got)
	}
	if shown, _ := w.front.TargetSize(ctx, "a"); shown != 4 {
		t.Errorf("shown target size %d, want 4", shown)
	}
}

// With --expander=random nobody asks which member to grow. Any part of an increase would be asked
// for again, and go to any member.
func TestRulePassThroughWhenUnasked(t *testing.T) {
	s := ten()
	w := newHarness(t, s)
	w.connect(s, w.unasked)
	state := w.settle(time.Hour)
	if state.Ordered() != 30 || state.Increases != 1 {
		t.Errorf("sizes %v in %d plans\n%s", state.Sizes(), state.Increases, w.log())
	}
}

// Free and pinned pods together are not exact with any stock Cluster Autoscaler: in its simulation, and
// with the scheduler, free pods may go to nodes that pinned ones need, which then need more. There are at
// most as many nodes too many as there are free pods, all of them in the zone of the pinned ones.
func TestFreeAndPinnedPodsHaveABound(t *testing.T) {
	const free, pinned = 6, 3
	for seed := range uint64(20) {
		x := freeAndPinned(seed, time.Minute)
		x.ca.Balance = seed%2 == 0
		w := newHarness(t, x)
		state := w.settle(time.Hour)
		if sizes := state.Sizes(); sizes[1] > free+pinned || sizes[0] > free/2 || sizes[2] > free/2 || state.Pending > 0 {
			t.Errorf("seed %d: sizes %v, %d pods pending\n%s", seed, sizes, state.Pending, w.log())
		}
	}
}

// freeAndPinned are six pods that run anywhere and three that run in zone b only.
func freeAndPinned(seed uint64, boot time.Duration) setup {
	s := setup{seed: seed, cloud: fake.Config{Groups: zones(0, 0, 0)}, batches: []batch{{
		At: 3 * time.Second, Pods: slices.Concat(podsOf("free", 6, 1), pinned(podsOf("pinned", 3, 1), "b")),
	}}}
	for i := range s.cloud.Groups {
		s.cloud.Groups[i].BootTime = boot
	}
	return s
}

// Free and pinned pods together run as soon as with Cluster Autoscaler alone, but for a loop per
// member, on average: which pod gets which node is luck.
func TestFreeAndPinnedPodsRunAsSoonAsAlone(t *testing.T) {
	const worlds = 20
	for _, boot := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		for _, balance := range []bool{false, true} {
			var with, alone time.Duration
			nodes, nodesAlone := 0, 0
			for seed := range uint64(worlds) {
				s := freeAndPinned(seed, boot)
				s.ca.Balance = balance
				a, b := newHarness(t, s).observe(15*time.Minute), s.alone(t).observe(15*time.Minute)
				if a.running == 0 {
					t.Errorf("seed %d: %s\n%s", seed, a, a.w.log())
				}
				with, alone = with+a.running/worlds, alone+b.running/worlds
				nodes, nodesAlone = nodes+total(a.sizes), nodesAlone+total(b.sizes)
			}
			t.Logf("boots of %s: %s and %.1f nodes, alone %s and %.1f", boot, with, float64(nodes)/worlds, alone, float64(nodesAlone)/worlds)
			if with > alone+3*aLoop {
				t.Errorf("boots of %s: all run after %s on average, alone after %s", boot, with, alone)
			}
		}
	}
}

// Nothing is granted beyond what is asked, so a limit over all nodes that Cluster Autoscaler was given holds.
func TestALimitOverAllNodesHolds(t *testing.T) {
	for _, limit := range []int{9, 10, 11, 12} {
		for seed := range uint64(10) {
			s := freeAndPinned(seed, time.Minute)
			s.ca.MaxNodesTotal = limit
			w := newHarness(t, s)
			if state := w.settle(time.Hour); state.Ordered() > limit {
				t.Errorf("seed %d, at most %d nodes: sizes %v\n%s", seed, limit, state.Sizes(), w.log())
			}
		}
	}
}

// Pods that are pinned to several members, of which at most one is the group the strategies have
// chosen.
func TestPodsPinnedToSeveralZones(t *testing.T) {
	pods := podsOf("free", 6, 1)
	for _, zone := range []string{"a", "b", "c"} {
		for _, pod := range podsOf("pinned-"+zone, 2, 1) {
			pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone}
			pods = append(pods, pod)
		}
	}
	w := newHarness(t, setup{seed: 1, cloud: fake.Config{Groups: slow(zones(0, 0, 0))}, batches: []batch{{Pods: pods}}})
	if state := w.settle(time.Hour); state.Pending > 0 || state.Ordered() > 12+6 {
		t.Errorf("sizes %v, %d pods pending\n%s", state.Sizes(), state.Pending, w.log())
	}
}
