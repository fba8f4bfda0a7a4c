package autoscaler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// sixtyPods are 30 nodes of pods.
func sixtyPods() autoscaler.Config {
	return autoscaler.Config{Batches: []autoscaler.Batch{{At: 3 * time.Second, Pods: podsOf("web", 60, "2")}}}
}

func wantSizes(t *testing.T, x *trial, got autoscaler.State, want ...int) {
	t.Helper()
	if !slices.Equal(got.Sizes(), want) {
		t.Errorf("sizes %v, want %v", got.Sizes(), want)
		x.dump(t)
	}
}

// A new process does not know the requests of the last: groups with nodes on their way are
// unhealthy to it.
func TestSteeringAndARestart(t *testing.T) {
	for grants, want := range map[int][]int{1: {10, 15, 15}, 2: {10, 10, 30}} {
		t.Run(fmt.Sprintf("after grant %d", grants), func(t *testing.T) {
			x := newTrial(t, steering, fake.Config{Groups: three([3]int{}, time.Minute)}, sixtyPods())
			x.stepUntil(t, func(s autoscaler.State) bool { return s.Increases == grants })
			if err := x.Restart(); err != nil {
				t.Fatal(err)
			}
			wantSizes(t, x, x.settle(t, 30*time.Minute), want...)
		})
	}
}

// The cloud accepts, and then the sidecar is gone before it answers.
func TestSteeringAndACrashInsideTheIncrease(t *testing.T) {
	x := newTrial(t, steering, fake.Config{Groups: three([3]int{}, time.Minute)}, sixtyPods())
	x.onIncrease = func(_ string, _ int, err error) error {
		x.onIncrease = nil
		return fmt.Errorf("crash: %w", cloudprovider.ErrUnavailable)
	}
	wantSizes(t, x, x.settle(t, 30*time.Minute), 10, 15, 15)
}

// The same seen from the other side: the answer is lost on its way, or Cluster Autoscaler itself
// ends in the call.
func TestSteeringAndALostAnswer(t *testing.T) {
	tests := map[string]struct {
		fault autoscaler.Fault
		want  []int
	}{
		"answer lost":        {autoscaler.Fault{Lost: true}, []int{10, 15, 15}},
		"autoscaler crashes": {autoscaler.Fault{Crash: true}, []int{10, 15, 15}},
		"call lost":          {autoscaler.Fault{Unsent: true}, []int{0, 15, 15}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := newTrial(t, steering, fake.Config{Groups: three([3]int{}, time.Minute)}, sixtyPods())
			x.fault = func(c autoscaler.Call) (f autoscaler.Fault) {
				if c.Method == fake.MethodIncreaseSize {
					f, x.fault = test.fault, nil
				}
				return f
			}
			wantSizes(t, x, x.settle(t, 30*time.Minute), test.want...)
		})
	}
}

func TestSteeringAndAMemberThatRefuses(t *testing.T) {
	cloud := fake.Config{Groups: three([3]int{}, time.Minute), Stocks: []fake.StockOut{{
		Scope: fake.Scope{Groups: []string{"b"}}, Window: fake.Window{End: 2 * time.Minute},
	}}}
	x := newTrial(t, steering, cloud, sixtyPods())
	wantSizes(t, x, x.settle(t, 30*time.Minute), 15, 0, 15)
}

// An error hides the nodes that are on their way in the group: 15 nodes are, and b refuses its
// share of 6 more. The same error kept from Cluster Autoscaler hides nothing.
func TestSteeringAndAMemberThatFailsWithNodesInFlight(t *testing.T) {
	for name, want := range map[string][]int{"shown": {11, 5, 10}, "hidden": {8, 5, 8}} {
		t.Run(name, func(t *testing.T) {
			cloud := fake.Config{Groups: three([3]int{}, 5*time.Minute), Stocks: []fake.StockOut{{
				Scope: fake.Scope{Groups: []string{"b"}}, Window: fake.Window{Start: time.Minute, End: 10 * time.Minute},
			}}}
			x := newTrial(t, steering, cloud, autoscaler.Config{Batches: []autoscaler.Batch{
				{At: 3 * time.Second, Pods: podsOf("web", 15, "3")}, {At: time.Minute, Pods: podsOf("api", 6, "3")},
			}})
			x.hide = name == "hidden"
			wantSizes(t, x, x.settle(t, 30*time.Minute), want...)
		})
	}
}

// Options that are the defaults, but there, make nodes that are not ready yet look broken.
func TestOptionsEchoedOrderTwice(t *testing.T) {
	echo := func(defaults cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) { return defaults, nil }
	none := func(cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error) {
		return cloudprovider.GroupOptions{}, cloudprovider.ErrNotImplemented
	}
	for want, options := range map[int]func(cloudprovider.GroupOptions) (cloudprovider.GroupOptions, error){6: echo, 3: none} {
		t.Run(fmt.Sprintf("%d for 3", want), func(t *testing.T) {
			a := groupOf("a", 0, 100, 5*time.Second)
			a.ReadyDelay = time.Minute
			x := newTrial(t, all, fake.Config{Groups: []fake.Group{a}}, autoscaler.Config{
				Batches: []autoscaler.Batch{{At: 3 * time.Second, Pods: podsOf("web", 3, "3")}},
			})
			x.options = options
			wantSizes(t, x, x.settle(t, 30*time.Minute), want)
		})
	}
}

// A request that times out is taken back as a whole: 26 nodes, of which the group was granted 10.
// Then its instances are deleted one by one as well. It takes instances that were there some time
// after the request; else both are over in the same loop, and the request counts as fulfilled.
func TestATimeoutTakesBackTheWholeRequest(t *testing.T) {
	for name, test := range map[string]struct {
		before bool
		want   int
	}{"1.36": {false, -26}, "1.35": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			groups := []fake.Group{groupOf("a", 0, 30, time.Hour), groupOf("b", 0, 8, time.Minute), groupOf("c", 0, 8, time.Minute)}
			late := fake.StockOut{Scope: fake.Scope{Groups: []string{"a"}}, Mode: fake.Silent, Window: fake.Window{End: 20 * time.Second}}
			x := newTrial(t, steering, fake.Config{Groups: groups, Stocks: []fake.StockOut{late}}, autoscaler.Config{
				Batches: []autoscaler.Batch{{At: 3 * time.Second, Pods: podsOf("web", 26, "3")}},
				Options: autoscaler.Options{Before136: test.before},
			})
			x.stepUntil(t, func(s autoscaler.State) bool { return slices.Equal(s.Sizes(), []int{10, 8, 8}) })
			if err := x.Run(17 * time.Minute); err != nil {
				t.Fatal(err)
			}
			var decreased, deleted autoscaler.Event
			for _, e := range x.Events() {
				switch {
				case e.Kind == autoscaler.Decreased && decreased.N == 0:
					decreased = e
				case e.Kind == autoscaler.Deleted && deleted.N == 0:
					deleted = e
				}
			}
			after := deleted.Time.Sub(decreased.Time)
			if decreased.N != test.want || deleted.Group != "a" || deleted.N != 10 || !test.before && (after < 0 || after > 30*time.Second) {
				t.Errorf("%v\n%v", decreased, deleted)
				x.dump(t)
			}
		})
	}
}

// Instances that fail while being created back the group off at once, and are deleted as fake
// nodes.
func TestInstancesThatFail(t *testing.T) {
	cloud := fake.Config{Groups: three([3]int{}, time.Minute), Stocks: []fake.StockOut{{
		Scope: fake.Scope{Groups: []string{"b"}}, Mode: fake.Fail, Left: 4, FailAfter: 20 * time.Second,
	}}}
	x := newTrial(t, steering, cloud, sixtyPods())
	got := x.settle(t, 30*time.Minute)
	var deleted, backedOff int
	for _, e := range x.Events() {
		if e.Kind == autoscaler.Deleted {
			deleted += e.N
		}
		if e.Kind == autoscaler.BackedOff {
			backedOff++
		}
	}
	// The six that failed are ordered again, and so are the four that are healthy: b is backed off.
	if deleted != 6 || backedOff != 1 || got.Ordered() != 34 || got.Groups[1].Size != 4 || !got.Groups[1].Backoff {
		t.Errorf("%d deleted, %d backed off, %+v", deleted, backedOff, got)
		x.dump(t)
	}
}

func TestReleasesBefore136SeeEveryNode(t *testing.T) {
	config := sixtyPods()
	config.Options.Before136 = true
	x := newTrial(t, diversion, fake.Config{Groups: three([3]int{}, time.Minute)}, config)
	wantSizes(t, x, x.settle(t, 30*time.Minute), 10, 10, 10)
}

// Each error of Refresh skips a loop, and nothing is forgotten meanwhile.
func TestRefreshErrorsPause(t *testing.T) {
	x := newTrial(t, steering, fake.Config{Groups: three([3]int{}, time.Minute)}, sixtyPods())
	n := 0
	x.fault = func(c autoscaler.Call) autoscaler.Fault {
		if c.Method == fake.MethodRefresh {
			n++
		}
		return autoscaler.Fault{Unsent: c.Method == fake.MethodRefresh && n%2 == 0}
	}
	wantSizes(t, x, x.settle(t, 30*time.Minute), 10, 10, 10)
}

// An expander that fails leaves the choice to chance, which the seed decides; one that vetoes stops
// the scale-up.
func TestExpandersThatDoNotChoose(t *testing.T) {
	run := func(seed uint64, fault autoscaler.Fault) []int {
		config := sixtyPods()
		config.Seed = seed
		x := newTrial(t, all, fake.Config{Groups: three([3]int{}, time.Minute)}, config)
		x.fault = func(c autoscaler.Call) autoscaler.Fault {
			if c.Method == autoscaler.MethodBestOptions {
				return fault
			}
			return autoscaler.Fault{}
		}
		return x.settle(t, 5*time.Minute).Sizes()
	}
	seen := map[string]bool{}
	for seed := range uint64(20) {
		sizes := run(seed, autoscaler.Fault{Unsent: true})
		if again := run(seed, autoscaler.Fault{Unsent: true}); !slices.Equal(sizes, again) {
			t.Errorf("seed %d: %v, then %v", seed, sizes, again)
		}
		seen[fmt.Sprint(sizes)] = true
	}
	if len(seen) != 3 {
		t.Errorf("outcomes %v, want 30 nodes in each of the three groups", seen)
	}
}
