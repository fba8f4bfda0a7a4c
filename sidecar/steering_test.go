package sidecar_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// increased counts the increases so far; restarts are scripted after one of them.
func restartAfter(n int, restart func(*harness)) func(*harness, caCall) callFault {
	increases, done := 0, false
	return func(w *harness, c caCall) callFault {
		if increases == n && !done {
			done = true
			restart(w)
		}
		if c.Method == fake.MethodIncreaseSize {
			increases++
		}
		return callFault{}
	}
}

func TestSteering(t *testing.T) {
	slow := func(groups []fake.Group) []fake.Group {
		for i := range groups {
			groups[i].BootTime = time.Minute
		}
		return groups
	}
	tests := map[string]struct {
		groups []fake.Group
		cloud  fake.Config
		pods   []batch
		fault  func(*harness, caCall) callFault
		ca     autoscaler.Options
		want   []int
		plans  int // loops that scaled up; 0 for any
	}{
		"three empty groups": {groups: zones(0, 0, 0), pods: []batch{{Pods: podsOf("p", 9, 1)}}, want: []int{3, 3, 3}, plans: 3},
		"uneven sizes":       {groups: zones(1, 3, 6), pods: []batch{{Pods: podsOf("p", 4, 1)}}, want: []int{4, 4, 6}, plans: 2},
		"slow nodes":         {groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 60, 2)}}, want: []int{10, 10, 10}, plans: 3},
		"one refuses": {
			groups: zones(0, 0, 0), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{15, 0, 15},
			cloud: fake.Config{StockOuts: []v1alpha1.StockOut{{Groups: []string{"b"}, FaultWindow: during(0, 2*time.Minute)}}},
		},
		"one fails late": {
			groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{15, 0, 15},
			cloud: fake.Config{StockOuts: []v1alpha1.StockOut{{Groups: []string{"b"}, Mode: v1alpha1.StockOutFail,
				FailAfter: lasting(5 * time.Second)}}},
		},
		"one is silent": {
			groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{15, 0, 15},
			cloud: fake.Config{StockOuts: []v1alpha1.StockOut{{Groups: []string{"b"}, Mode: v1alpha1.StockOutSilent}}},
		},
		"autoscaler restarts after the first grant": {
			groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{10, 10, 10},
			fault: crashAfter(1),
		},
		"autoscaler restarts after the second grant": {
			groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{10, 10, 10},
			fault: crashAfter(2),
		},
		"sidecar restarts after the first grant": {
			groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{10, 10, 10},
			fault: restartAfter(1, (*harness).restartSidecar),
		},
		"sidecar restarts after the second grant": {
			groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{10, 10, 10},
			fault: restartAfter(2, (*harness).restartSidecar),
		},
		"an answer is lost": {
			groups: slow(zones(0, 0, 0)), pods: []batch{{Pods: podsOf("p", 30, 1)}}, want: []int{10, 10, 10},
			fault: lose(1),
		},
		"the autoscaler balances too": {
			groups: zones(0, 0, 0), pods: []batch{{Pods: podsOf("p", 9, 1)}}, want: []int{3, 3, 3},
			ca: autoscaler.Options{Balance: true},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.cloud.Groups = tt.groups
			w := newHarness(t, setup{cloud: tt.cloud, batches: tt.pods, seed: 1, fault: tt.fault, ca: tt.ca})
			state := w.settle(time.Hour)
			if got := state.Sizes(); !slices.Equal(sorted(got), sorted(tt.want)) || state.Pending > 0 {
				t.Errorf("sizes %v, want %v, %d pods pending\n%s", got, tt.want, state.Pending, w.log())
			}
			if tt.plans > 0 && state.Increases != tt.plans {
				t.Errorf("%d plans, want %d\n%s", state.Increases, tt.plans, w.log())
			}
		})
	}
}

// crashAfter ends Cluster Autoscaler after its nth increase.
func crashAfter(n int) func(*harness, caCall) callFault {
	increases := 0
	return func(_ *harness, c caCall) callFault {
		if c.Method != fake.MethodIncreaseSize {
			return callFault{}
		}
		increases++
		return callFault{Crash: increases == n}
	}
}

// lose keeps the answer to the nth increase from Cluster Autoscaler.
func lose(n int) func(*harness, caCall) callFault {
	increases := 0
	return func(_ *harness, c caCall) callFault {
		if c.Method != fake.MethodIncreaseSize {
			return callFault{}
		}
		increases++
		return callFault{Lost: increases == n}
	}
}

// TestEmptyGroupBesidePopulated: what the catalogue does not say of an empty group's machines is no
// difference.
func TestEmptyGroupBesidePopulated(t *testing.T) {
	groups := zones(1, 0, 0)
	for _, list := range []v1.ResourceList{groups[0].Template.Node.Status.Capacity, groups[0].Template.Node.Status.Allocatable} {
		list[v1.ResourceEphemeralStorage] = resource.MustParse("20Gi") // which a kubelet reports
	}
	groups[0].Template.Node.Labels["example.com/kernel"] = "6.12"
	w := newHarness(t, setup{cloud: fake.Config{Groups: groups}, batches: []batch{{Pods: podsOf("p", 8, 1)}}, seed: 1})
	if state := w.settle(time.Hour); !slices.Equal(state.Sizes(), []int{3, 3, 3}) {
		t.Errorf("sizes %v\n%s", state.Sizes(), w.log())
	}
}
