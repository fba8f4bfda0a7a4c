package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// told are events, by reason.
type told map[string]int

func (e told) Event(_ bool, reason, _ string) { e[reason]++ }

// at runs something once, before the nth increase, counted from 1.
func atIncrease(n int, do func(*harness)) func(*harness, caCall) callFault {
	increases := 0
	return func(w *harness, c caCall) callFault {
		if c.Method == fake.MethodIncreaseSize {
			if increases++; increases == n {
				do(w)
			}
		}
		return callFault{}
	}
}

// after runs something once, before the first call that follows the nth increase.
func after(n int, do func(*harness)) func(*harness, caCall) callFault {
	increases, done := 0, false
	return func(w *harness, c caCall) callFault {
		if increases == n && !done {
			done = true
			do(w)
		}
		if c.Method == fake.MethodIncreaseSize {
			increases++
		}
		return callFault{}
	}
}

func restart(w *harness) { w.ca.Restart() }

// TestHandled: what goes wrong around the sidecar while 30 nodes for three groups are ordered, or
// one of the ways in which it is used. A check, where there is one, looks at more than the sizes.
func TestHandled(t *testing.T) {
	journal := func(text string, err error) func(*harness) {
		return func(w *harness) {
			w.journal.err = err
			if text != "" {
				w.journal.text = []byte(text)
			}
			w.restartSidecar()
		}
	}
	broken := errors.New("no such ConfigMap")
	tests := map[string]struct {
		change  func(*setup)
		prepare func(*harness)
		want    []int
		plans   int // 0 for any
		check   func(*testing.T, *harness)
	}{
		"the sidecar restarts before the increase": {change: func(s *setup) { s.fault = atIncrease(1, (*harness).restartSidecar) },
			want: []int{10, 10, 10}, plans: 5},
		"the sidecar restarts before the second increase": {
			change: func(s *setup) { s.fault = atIncrease(2, (*harness).restartSidecar) }, want: []int{10, 10, 10},
		},
		"both restart after the first grant": {
			change: func(s *setup) {
				crash := crashAfter(1)
				s.fault = func(w *harness, c caCall) callFault {
					f := crash(w, c)
					if f.Crash {
						w.restartSidecar()
					}
					return f
				}
			}, want: []int{10, 10, 10},
		},
		"a new connection costs a loop": { // whether the last answer was heard is not known
			change: func(s *setup) { s.fault = after(1, func(w *harness) { w.front.generation++ }) }, want: []int{10, 10, 10}, plans: 4,
		},
		"the sidecar's process ends inside the increase": {
			change:  func(s *setup) { s.fault = lose(1) },
			prepare: func(w *harness) { w.startSidecar(&tapped{Cloud: w.cloud, increase: w.endInside()}) }, want: []int{10, 10, 10},
		},
		"the cloud grows and answers with an error": {
			prepare: func(w *harness) {
				w.startSidecar(&tapped{Cloud: w.cloud, increase: func(ctx context.Context, id string, delta int) error {
					if err := w.cloud.IncreaseSize(ctx, id, delta); err != nil {
						return err
					}
					return fmt.Errorf("timed out: %w", cloudprovider.ErrUnavailable)
				}})
			}, want: []int{10, 10, 10}, plans: 3, check: hidden,
		},
		"the cloud refuses one member": {
			change: func(s *setup) { s.cloud.StockOuts = []v1alpha1.StockOut{{Groups: []string{"b"}}} },
			want:   []int{15, 0, 15}, check: hidden,
		},
		"the cloud has a part of one member": {
			change: func(s *setup) {
				s.cloud.StockOuts = []v1alpha1.StockOut{{Groups: []string{"b"}, Mode: v1alpha1.StockOutFail, Left: 4,
					FailAfter: lasting(10 * time.Second)}}
			}, want: []int{13, 4, 13}, check: hidden,
		},
		"the journal cannot be read": {
			prepare: journal("", broken), want: []int{30, 0, 0}, check: func(t *testing.T, w *harness) {
				if s := w.front.Status().Journal; !strings.Contains(s, broken.Error()) {
					t.Errorf("journal: %s", s)
				}
			},
		},
		"the journal cannot be written any more": {
			change: func(s *setup) { s.fault = after(1, func(w *harness) { w.journal.err = broken }) }, want: []int{10, 20, 0},
		},
		"the journal can be written again": {
			prepare: journal("", broken),
			change: func(s *setup) {
				s.fault = after(1, func(w *harness) { w.journal.err = nil })
				s.batches = append(s.batches, late(60))
			},
			want: []int{30, 30, 30},
		},
		"the journal is garbage": {change: func(s *setup) { s.fault = after(2, journal(`{"version":`, nil)) },
			want: []int{10, 10, 10}},
		"the journal is of a later release": {change: func(s *setup) { s.fault = after(2, journal(`{"version":99}`, nil)) },
			want: []int{10, 10, 10}},
		"the journal is lost": {change: func(s *setup) {
			s.fault = after(2,
				func(w *harness) { w.journal.text = nil; w.restartSidecar() })
		}, want: []int{10, 10, 10}},
		"there is no journal": {prepare: func(w *harness) { w.options.Journal = nil; w.restartSidecar() },
			want: []int{30, 0, 0}, plans: 1},
		"readiness is inferred": {prepare: inferred, want: []int{10, 10, 10}, plans: 3},
		"readiness is inferred, and a restart": {prepare: inferred, change: func(s *setup) { s.fault = crashAfter(1) },
			want: []int{10, 10, 10}},
		"readiness is inferred, and a later restart": {prepare: inferred, change: func(s *setup) { s.fault = crashAfter(2) },
			want: []int{10, 10, 10}},
		"--balance-similar-node-groups=false": {
			change: func(s *setup) { s.sidecar.NotBalanced = true }, want: []int{30, 0, 0}, plans: 1,
			check: mode("PassThrough", "--balance-similar-node-groups=false"),
		},
		"Cluster Autoscaler balances by itself": {
			change: func(s *setup) { s.ca.Balance = true }, want: []int{10, 10, 10}, plans: 1, check: mode("Steering", ""),
		},
		"a group above its maximum": {
			change: func(s *setup) { s.cloud.Groups = slow(zones(12, 0, 0)); s.cloud.Groups[0].MaxSize = 10 }, want: []int{12, 15, 15},
		},
		"the minimum size": {
			change: func(s *setup) {
				s.batches, s.ca.EnforceMinSize = nil, true
				s.cloud.Groups[1].MinSize, s.cloud.Groups[2].MinSize = 3, 2
			},
			want: []int{0, 3, 2}, check: mode("Steering", ""),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			x := trial{setup: ten(), prepare: tt.prepare}
			if tt.change != nil {
				tt.change(&x.setup)
			}
			got, w := x.run(t)
			if !slices.Equal(sorted(got), sorted(tt.want)) {
				t.Errorf("sizes %v, want %v\n%s", got, tt.want, w.log())
			}
			if state := w.ca.State(); tt.plans > 0 && state.Increases != tt.plans {
				t.Errorf("%d plans, want %d\n%s", state.Increases, tt.plans, w.log())
			}
			if tt.check != nil {
				tt.check(t, w)
			}
		})
	}
}

// late are pods for so many nodes, when the first thirty are there.
func late(nodes int) batch {
	return batch{At: 5 * time.Minute, Pods: podsOf("late", nodes, 1)}
}

// inferred takes the watch of nodes away.
func inferred(w *harness) {
	w.options.Nodes = nil
	w.restartSidecar()
}

// hidden reports whether Cluster Autoscaler has not seen any failure.
func hidden(t *testing.T, w *harness) {
	t.Helper()
	if n := len(w.ca.changes) - w.ca.saw(fake.MethodIncreaseSize); n > 0 {
		t.Errorf("Cluster Autoscaler saw %d failures\n%s", n, w.log())
	}
}

func mode(want, why string) func(*testing.T, *harness) {
	return func(t *testing.T, w *harness) {
		t.Helper()
		if s := w.front.Status(); s.Mode != want || !strings.HasPrefix(s.ModeReason, why) {
			t.Errorf("mode %s (%s), want %s", s.Mode, s.ModeReason, want)
		}
	}
}

// endInside replaces the sidecar by a new process when the cloud has taken its first order, before
// it can answer.
func (w *harness) endInside() func(context.Context, string, int) error {
	done := false
	return func(ctx context.Context, id string, delta int) error {
		err := w.cloud.IncreaseSize(ctx, id, delta)
		if !done {
			done = true
			w.restartSidecar()
		}
		return err
	}
}

// A group that is resized to its maximum or to zero is never split, nor levelled with others. Only
// such groups have options.
func TestZeroOrMax(t *testing.T) {
	s := ten()
	s.batches = []batch{{Pods: podsOf("p", 3, 1)}}
	s.cloud.Groups[0].MaxSize = 4
	s.cloud.Groups[0].Options = &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true, MaxNodeProvisionTime: 15 * time.Minute}
	s.cloud.Groups[1].Options = &cloudprovider.GroupOptions{ScaleDownUnneededTime: time.Hour}
	s.cloud.Groups[2].MaxSize = 0
	s.cloud.Groups[2].MinSize = 0
	w := newHarness(t, s)
	state := w.settle(time.Hour)
	if got := state.Sizes(); !slices.Equal(got, []int{4, 0, 0}) && !slices.Equal(got, []int{0, 3, 0}) {
		t.Errorf("sizes %v\n%s", got, w.log())
	}
	for id, want := range map[string]error{"a": nil, "b": cloudprovider.ErrNotImplemented, "c": cloudprovider.ErrNotImplemented} {
		o, err := w.front.Options(context.Background(), id, cloudprovider.GroupOptions{ScaleDownUnneededTime: time.Minute})
		if !errors.Is(err, want) || o.ZeroOrMaxNodeScaling != (id == "a") {
			t.Errorf("options of %s: %+v, %v", id, o, err)
		}
	}
}

// Room for a ProvisioningRequest is reported as soon as an increase has succeeded, so it is Cluster Autoscaler that
// splits it, where it balances by itself.
func TestProvisioningRequests(t *testing.T) {
	for name, test := range map[string]struct {
		balance bool
		max     int
		want    []int
		pending int
		warned  int
	}{
		"Cluster Autoscaler balances by itself": {balance: true, max: 100, want: []int{10, 10, 10}},
		"no group has room for all":             {balance: true, max: 12, want: []int{10, 10, 10}},
		"it does not balance":                   {max: 100, want: []int{0, 0, 30}, warned: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, events := ten(), told{}
			s.ca.Balance, s.sidecar.Recorder = test.balance, events
			for i := range s.cloud.Groups {
				s.cloud.Groups[i].MaxSize = test.max
			}
			s.batches = []batch{{Pods: podsOf("p", 30, 1), Request: "train"}}
			w := newHarness(t, s)
			state := w.settle(time.Hour)
			if got := state.Sizes(); !slices.Equal(sorted(got), test.want) || state.Pending != test.pending || state.Increases != 1 ||
				events["ProvisioningRequestNotBalanced"] != test.warned {
				t.Errorf("sizes %v, %d pods pending in %d loops, events %v; want %v\n%s", got, state.Pending, state.Increases, events, test.want,
					w.log())
			}
		})
	}
}

// With --expander=random every increase is granted in full. When Cluster Autoscaler is started anew
// with
// --expander=grpc the sidecar steers.
func TestUnaskedAndAskedAgain(t *testing.T) {
	s := ten()
	s.batches = append(s.batches, late(60))
	w := newHarness(t, s)
	asks := false
	w.connect(s, func(process int) autoscaler.Connection {
		c := w.unasked(process)
		if asks {
			c.Expander = w.front
		}
		return c
	})
	w.ca.Run(4 * time.Minute)
	if state := w.ca.State(); state.Increases != 1 || state.Ordered() != 30 {
		t.Errorf("sizes %v in %d plans, want 30 nodes in one\n%s", state.Sizes(), state.Increases, w.log())
	}
	mode("PassThrough", "Cluster Autoscaler scales up without asking this expander: start it with --expander=grpc")(t, w)
	asks = true
	restart(w)
	if state := w.settle(time.Hour); !slices.Equal(state.Sizes(), []int{30, 30, 30}) {
		t.Errorf("sizes %v\n%s", state.Sizes(), w.log())
	}
	mode("Steering", "")(t, w)
}

// leased is a journal that only the replica that leads may use.
type leased struct {
	*memoryJournal
	leads *string
	me    string
}

func (j leased) Load(ctx context.Context) ([]byte, error) {
	if *j.leads != j.me {
		return nil, fmt.Errorf("%w: %s is", sidecar.ErrNotLeader, *j.leads)
	}
	return j.memoryJournal.Load(ctx)
}

func (j leased) Save(ctx context.Context, text []byte) error {
	if *j.leads != j.me {
		return fmt.Errorf("%w: %s is", sidecar.ErrNotLeader, *j.leads)
	}
	return j.memoryJournal.Save(ctx, text)
}

// The leading Cluster Autoscaler moves to another node, and a sidecar there goes on. The one left
// behind orders nothing.
func TestTheLeaderMoves(t *testing.T) {
	for grants, moves := range []string{"before the first grant", "after the first grant", "after the second grant"} {
		t.Run(moves, func(t *testing.T) {
			s := ten()
			leader := "one"
			journal := &memoryJournal{}
			s.sidecar.Journal = leased{journal, &leader, "one"}
			w := newHarness(t, s)
			old := w.front.Sidecar
			for w.ca.saw(fake.MethodIncreaseSize) < grants {
				w.ca.Step()
			}
			leader = "two"
			w.options.Journal = leased{journal, &leader, "two"}
			w.restartSidecar()
			restart(w)
			state := w.settle(time.Hour)
			if !slices.Equal(state.Sizes(), []int{10, 10, 10}) {
				t.Errorf("sizes %v\n%s", state.Sizes(), w.log())
			}
			ask := expander.Question{Nodes: map[string]*v1.Node{}, Pods: podsOf("more", 9, 1)}
			for _, g := range s.cloud.Groups {
				ask.Nodes[g.ID] = g.Template.Node
				ask.Options = append(ask.Options, expander.Offer{Group: g.ID, NodeCount: 9, Pods: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}})
			}
			if answer, err := old.BestOptions(context.Background(), ask); err != nil || len(answer) != 0 {
				t.Errorf("the replica that does not lead answers %v, %v", answer, err)
			}
			err := error(nil)
			for range 4 { // as if Cluster Autoscaler had not heard the answer
				err = old.IncreaseSize(context.Background(), "a", 9)
			}
			if !errors.Is(err, sidecar.ErrNotLeader) {
				t.Errorf("the replica that does not lead takes an increase: %v", err)
			}
			if now := w.sizes(); !slices.Equal(now, []int{10, 10, 10}) {
				t.Errorf("the replica that does not lead ordered nodes: sizes %v", now)
			}
		})
	}
}

// nodesOf is a watch that is never behind.
type nodesOf struct{ *fake.Cloud }

func (c nodesOf) List() (out []steering.NodeState, ok bool) {
	for _, node := range c.RegisteredNodes() {
		state := steering.NodeState{ProviderID: node.Spec.ProviderID, Name: node.Name, Created: node.CreationTimestamp.Time}
		for _, c := range node.Status.Conditions {
			state.Ready = state.Ready || c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
		}
		out = append(out, state)
	}
	return out, true
}

// A cloud that is slower than Cluster Autoscaler waits costs loops, and neither nodes nor balance.
func TestTheCloudIsSlow(t *testing.T) {
	tests := map[string]v1alpha1.CallFault{
		"increases":                  {Methods: []string{fake.MethodIncreaseSize}, Delay: lasting(8 * time.Second)},
		"increases that take effect": {Methods: []string{fake.MethodIncreaseSize}, Delay: lasting(8 * time.Second), AfterEffect: true},
		"increases that seem to fail": {Methods: []string{fake.MethodIncreaseSize}, Delay: lasting(8 * time.Second), AfterEffect: true,
			Error: "504"},
		"the first increase, and fails": {Methods: []string{fake.MethodIncreaseSize}, Groups: []string{"a"}, First: 1,
			Delay: lasting(8 * time.Second), AfterEffect: true, Error: "504"},
		"readings":              {Methods: []string{fake.MethodRefresh}, Delay: lasting(6 * time.Second)},
		"readings of one group": {Methods: []string{fake.MethodTemplate}, Groups: []string{"b"}, Delay: lasting(6 * time.Second)},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := ten()
				s.cloud.Calls = []v1alpha1.CallFault{fault}
				cloud, err := fake.New(s.cloud, clock.RealClock{})
				if err != nil {
					t.Fatal(err)
				}
				front, err := sidecar.New(cloud, sidecar.Options{Journal: &memoryJournal{}, Nodes: nodesOf{cloud}})
				if err != nil {
					t.Fatal(err)
				}
				ca := newCluster(t, clusterConfig{clock: clock.RealClock{}, cloud: cloud, batches: s.batches,
					connect: always(autoscaler.Connection{Provider: front, Expander: front})})
				ca.Settle(time.Hour)
				if err := front.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if state := ca.State(); !slices.Equal(state.Sizes(), []int{10, 10, 10}) {
					t.Errorf("sizes %v\n%v", state.Sizes(), ca.changes)
				}
			})
		})
	}
}

// Where members are equal the last nodes go where Cluster Autoscaler, which balances by itself, asks for them: it need not come back
// for one of them.
func TestLastNodesGoWhereTheyAreAskedFor(t *testing.T) {
	for seed := 0; seed < 64; seed += 3 {
		for pods := 1; pods <= 6; pods++ {
			s := setup{cloud: fake.Config{Groups: zones(seed%4, seed/4%4, seed/16)}, batches: []batch{
				{At: 3 * time.Second, Pods: podsOf("p", 9, 1)}, {At: 5 * time.Minute, Pods: podsOf("q", pods, 1)},
			}}
			s.ca.Balance = true
			w := newHarness(t, s)
			before := w.settle(4 * time.Minute)
			if after := w.settle(15 * time.Minute); after.Increases != before.Increases+1 ||
				slices.Max(after.Sizes()) > slices.Min(after.Sizes())+1 {
				t.Errorf("%d pods: from %v to %v in %d loops\n%s", pods, before.Sizes(), after.Sizes(), after.Increases-before.Increases, w.log())
			}
		}
	}
}
