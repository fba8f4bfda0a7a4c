package autoscaler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// sixtyPods are 30 nodes of pods.
func sixtyPods() clusterConfig {
	return clusterConfig{batches: []batch{{At: 3 * time.Second, Pods: podsOf("web", 60, "2")}}}
}

func wantSizes(t *testing.T, x *trial, got clusterState, want ...int) {
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
			x.stepUntil(t, func(s clusterState) bool { return s.Increases == grants })
			x.Restart()
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
		fault callFault
		want  []int
	}{
		"answer lost":        {callFault{Lost: true}, []int{10, 15, 15}},
		"autoscaler crashes": {callFault{Crash: true}, []int{10, 15, 15}},
		"call lost":          {callFault{Unsent: true}, []int{0, 15, 15}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := newTrial(t, steering, fake.Config{Groups: three([3]int{}, time.Minute)}, sixtyPods())
			x.fault = func(c caCall) (f callFault) {
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
	cloud := fake.Config{Groups: three([3]int{}, time.Minute), StockOuts: []v1alpha1.StockOut{{
		Groups: []string{"b"}, FaultWindow: during(0, 2*time.Minute),
	}}}
	x := newTrial(t, steering, cloud, sixtyPods())
	wantSizes(t, x, x.settle(t, 30*time.Minute), 15, 0, 15)
}

// An error hides the nodes that are on their way in the group: 15 nodes are, and b refuses its
// share of 6 more. The same error kept from Cluster Autoscaler hides nothing.
func TestSteeringAndAMemberThatFailsWithNodesInFlight(t *testing.T) {
	for name, want := range map[string][]int{"shown": {11, 5, 10}, "hidden": {8, 5, 8}} {
		t.Run(name, func(t *testing.T) {
			cloud := fake.Config{Groups: three([3]int{}, 5*time.Minute), StockOuts: []v1alpha1.StockOut{{
				Groups: []string{"b"}, FaultWindow: during(time.Minute, 10*time.Minute),
			}}}
			x := newTrial(t, steering, cloud, clusterConfig{batches: []batch{
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
			x := newTrial(t, all, fake.Config{Groups: []fake.Group{a}}, clusterConfig{
				batches: []batch{{At: 3 * time.Second, Pods: podsOf("web", 3, "3")}},
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
			late := v1alpha1.StockOut{Groups: []string{"a"}, Mode: v1alpha1.StockOutSilent, FaultWindow: during(0, 20*time.Second)}
			x := newTrial(t, steering, fake.Config{Groups: groups, StockOuts: []v1alpha1.StockOut{late}}, clusterConfig{
				batches: []batch{{At: 3 * time.Second, Pods: podsOf("web", 26, "3")}},
				ca:      autoscaler.Options{Before136: test.before},
			})
			x.stepUntil(t, func(s clusterState) bool { return slices.Equal(s.Sizes(), []int{10, 8, 8}) })
			x.Run(17 * time.Minute)
			var decreased, deleted caCall
			for _, c := range x.changes {
				switch {
				case c.Method == fake.MethodDecreaseTargetSize && decreased.Delta == 0:
					decreased = c
				case c.Method == fake.MethodDeleteNodes && len(deleted.Nodes) == 0:
					deleted = c
				}
			}
			after := deleted.At.Sub(decreased.At)
			if decreased.Delta != test.want || deleted.Group != "a" || len(deleted.Nodes) != 10 || !test.before &&
				(after < 0 || after > 30*time.Second) {
				t.Errorf("%v\n%v", decreased, deleted)
				x.dump(t)
			}
		})
	}
}

// Instances that fail while being created back the group off at once, and are deleted as fake
// nodes.
func TestInstancesThatFail(t *testing.T) {
	cloud := fake.Config{Groups: three([3]int{}, time.Minute), StockOuts: []v1alpha1.StockOut{{
		Groups: []string{"b"}, Mode: v1alpha1.StockOutFail, Left: 4, FailAfter: after(20 * time.Second),
	}}}
	x := newTrial(t, steering, cloud, sixtyPods())
	got := x.settle(t, 30*time.Minute)
	var deleted int
	var failed time.Time
	for _, c := range x.changes {
		if c.Method == fake.MethodDeleteNodes {
			deleted, failed = deleted+len(c.Nodes), c.At
		}
	}
	seen, err := x.Survey()
	if err != nil {
		t.Fatal(err)
	}
	// The six that failed are ordered again, and so are the four that are healthy: b is backed off, for the first time.
	until := seen.Groups[1].BackedOffUntil
	if deleted != 6 || got.Ordered() != 34 || got.Groups[1].Size != 4 || until.Before(x.clock.Now()) ||
		until.After(failed.Add(5*time.Minute)) {
		t.Errorf("%d deleted, backed off until %s, %+v", deleted, until, got)
		x.dump(t)
	}
}

func TestReleasesBefore136SeeEveryNode(t *testing.T) {
	config := sixtyPods()
	config.ca.Before136 = true
	x := newTrial(t, diversion, fake.Config{Groups: three([3]int{}, time.Minute)}, config)
	wantSizes(t, x, x.settle(t, 30*time.Minute), 10, 10, 10)
}

// Each error of Refresh skips a loop, and nothing is forgotten meanwhile.
func TestRefreshErrorsPause(t *testing.T) {
	x := newTrial(t, steering, fake.Config{Groups: three([3]int{}, time.Minute)}, sixtyPods())
	n := 0
	x.fault = func(c caCall) callFault {
		if c.Method == fake.MethodRefresh {
			n++
		}
		return callFault{Unsent: c.Method == fake.MethodRefresh && n%2 == 0}
	}
	wantSizes(t, x, x.settle(t, 30*time.Minute), 10, 10, 10)
}

// An expander that fails leaves the choice to chance, which the seed decides; one that vetoes stops
// the scale-up.
func TestExpandersThatDoNotChoose(t *testing.T) {
	run := func(seed uint64, fault callFault) []int {
		config := sixtyPods()
		config.seed = seed
		x := newTrial(t, all, fake.Config{Groups: three([3]int{}, time.Minute)}, config)
		x.fault = func(c caCall) callFault {
			if c.Method == autoscaler.MethodBestOptions {
				return fault
			}
			return callFault{}
		}
		return x.settle(t, 5*time.Minute).Sizes()
	}
	seen := map[string]bool{}
	for seed := range uint64(20) {
		sizes := run(seed, callFault{Unsent: true})
		if again := run(seed, callFault{Unsent: true}); !slices.Equal(sizes, again) {
			t.Errorf("seed %d: %v, then %v", seed, sizes, again)
		}
		seen[fmt.Sprint(sizes)] = true
	}
	if len(seen) != 3 {
		t.Errorf("outcomes %v, want 30 nodes in each of the three groups", seen)
	}
}

// after is a time of a fault; nil for none.
func after(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

// during is when a fault lasts; until 0 is forever.
func during(from, until time.Duration) v1alpha1.FaultWindow {
	return v1alpha1.FaultWindow{From: metav1.Duration{Duration: from}, Until: after(until)}
}
