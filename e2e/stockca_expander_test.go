package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// A way is how the autoscaler orders nodes with evenkeel as its expander alone.
type way struct {
	bound int64 // of an increase: --max-nodes-per-scaleup
	salvo bool
}

func (w way) String() string {
	if w.salvo {
		return fmt.Sprintf("%d at a time with salvo", w.bound)
	}
	return fmt.Sprintf("%d at a time", w.bound)
}

// allWays are those of a trial whose sizes and times depend on it.
var allWays = []way{{1, false}, {1, true}, {4, false}, {4, true}}

// An expanderTrial is played with evenkeel as the expander alone in several ways, and by an autoscaler that has none and
// balances by itself.
type expanderTrial struct {
	trial
	ways []way
	// waves are more pods, as in other comparisons.
	waves []wave
	// luck says that the sizes are a matter of it: some pods run in one zone only, or nodes are there that nobody counts.
	luck bool
	// most is how many nodes the autoscaler alone orders where it is out of luck.
	most int64
	// forgotten are answers that a restart in the middle of a loop makes unknown. With --salvo-scale-up no other loop makes up for it.
	forgotten int64
	// loop is how long a loop takes; 0 is a quarter of a second. With hundreds of pending pods it is seconds.
	loop time.Duration
}

// expanderTrials are of pods as large as a node, in empty zones if nothing else is said.
func expanderTrials(t *testing.T) []expanderTrial {
	pods := func(name string, pods int) trial {
		return trial{name: name, groups: zones("m", 250, 0, 0, 0), demands: []demand{{machine: "m", pods: pods, perNode: 1}},
			boot: 20 * time.Second}
	}
	once := []way{{1, false}, {1, true}}
	spread := pods("30 pods with a zone spread", 30)
	spread.demands[0].spread = []v1.TopologySpreadConstraint{over(v1.LabelTopologyZone, 1)}
	pinned := pods("9 free and 3 pinned to zone b", 9)
	pinned.pinned = 3
	unequal := pods("4 pods on unequal groups", 4)
	unequal.groups = zones("m", 20, 1, 3, 6)
	twelve := pods("30 pods in twelve zones", 30)
	twelve.groups = zones("m", 20, make([]int64, 12)...)
	full := pods("12 pods where a group hits its maximum", 12)
	full.groups = []group{{"m-a", "m", 0, 2}, {"m-b", "m", 0, 20}, {"m-c", "m", 1, 20}}
	refuses := pods("12 pods where zone b refuses", 12)
	refuses.refusing = "m-b"
	dead := pods("12 pods where zone b delivers nothing", 12)
	dead.dead, dead.barren, dead.provision = []string{"m-b"}, []string{"m-b"}, time.Minute
	fails := pods("12 pods where instances of zone b fail after 10 s", 12)
	fails.barren = []string{"m-b"}
	fails.faults.StockOuts = []v1alpha1.StockOut{{Groups: []string{"m-b"}, Mode: v1alpha1.StockOutFail,
		FailAfter: &metav1.Duration{Duration: 10 * time.Second}}}
	silent := pods("30 pods without a status of the autoscaler", 30)
	silent.flags = []string{"--write-status-configmap=false"}
	killed := slow(pods("12 pods while the expander is killed", 12))
	killed.mishap = afterOrders(3, func(ctx context.Context, t *testing.T, w *trialRun) { restart(ctx, t, w.sidecar) })
	lost := slow(pods("12 pods while one of two replicas is killed", 12))
	lost.replica = true
	lost.mishap = afterOrders(3, func(_ context.Context, _ *testing.T, w *trialRun) {
		if w.sidecar != nil {
			w.sidecar.Kill()
		}
	})
	frozen := pods("12 pods of which the first is not answered", 12)
	frozen.question = frozenFor(t, deadline+500*time.Millisecond)
	restarted := slow(pods("12 pods while the autoscaler is killed", 12))
	restarted.mishap = afterOrders(2, func(ctx context.Context, t *testing.T, w *trialRun) { restart(ctx, t, w.autoscaler) })
	unready := failures[1]
	many, demands := sets("cdefghijklmn", 25)
	// With --salvo-scale-up the autoscaler orders nodes too many for pods with a spread, by itself too.
	large := trial{name: "300 pods on 12 sets", groups: many, demands: demands, boot: 20 * time.Second}
	return []expanderTrial{
		{trial: pods("9 pods", 9), ways: allWays}, {trial: pods("30 pods", 30), ways: allWays}, {trial: pods("120 pods", 120), ways: allWays},
		{trial: spread, ways: once}, {trial: pinned, ways: once, luck: true, most: 17}, {trial: unequal, ways: once}, {trial: twelve, ways: once},
		{trial: full, ways: once},
		{trial: refuses, ways: once}, {trial: dead, ways: once}, {trial: fails, ways: once},
		{trial: silent, ways: once}, {trial: killed, ways: once, forgotten: 3}, {trial: lost, ways: once}, {trial: frozen, ways: once[:1]},
		{trial: restarted, ways: once, luck: true}, {trial: unready.trial, waves: unready.waves, ways: once, luck: true},
		{trial: pods("600 pods", 600), ways: []way{{20, false}, {20, true}}, loop: 2 * time.Second},
		{trial: large, ways: []way{{1, false}, {4, false}}, loop: time.Second},
	}
}

// deadline is how long the autoscaler waits for the answer of its expander.
const deadline = 5 * time.Second

// slow has the cloud take half a second for each increase, so that something can happen in between.
func slow(c trial) trial {
	c.faults.Calls = []v1alpha1.CallFault{{Methods: []string{"IncreaseSize"}, Delay: &metav1.Duration{Duration: 500 * time.Millisecond}}}
	return c
}

// With evenkeel as its expander alone an unmodified autoscaler, whatever its provider, fills its sets evenly, orders no node
// more than without it, and pods run as soon, within a loop for each increase.
func TestStockAutoscalerWithTheExpanderAlone(t *testing.T) {
	salvo := autoscaler.Has(t, "salvo-scale-up") // since 1.36
	for _, e := range expanderTrials(t) {
		e.ways = slices.DeleteFunc(slices.Clone(e.ways), func(w way) bool { return w.salvo && !salvo })
		t.Run(e.name, e.play)
	}
}

func (e *expanderTrial) play(t *testing.T) {
	alone := comparison{trial: e.trial, waves: e.waves}
	var than *ending
	endings := make([]*ending, len(e.ways))
	t.Run("all", func(t *testing.T) {
		t.Run("alone", func(t *testing.T) { t.Parallel(); than = alone.play(t, false) })
		for i, way := range e.ways {
			with := comparison{trial: e.trial, waves: e.waves}
			with.expanderAlone = true
			with.flags = append(slices.Clone(e.flags), "--expander=grpc,least-waste", "--balance-similar-node-groups=false",
				"--frequent-loops-enabled",
				fmt.Sprint("--max-nodes-per-scaleup=", way.bound))
			if way.salvo {
				with.flags = append(with.flags, "--salvo-scale-up")
			}
			if !e.luck {
				apart := max(1, way.bound)
				if way.salvo {
					apart += e.forgotten
				}
				with.check = func(ctx context.Context, t *testing.T, w *trialRun) { w.level(ctx, t, apart) }
			}
			t.Run(way.String(), func(t *testing.T) { t.Parallel(); endings[i] = with.play(t, true) })
		}
	})
	if than == nil {
		return // it has not come to an end
	}
	t.Logf("| %s | alone | %s |", e.name, than)
	for i, got := range endings {
		if got != nil {
			t.Logf("| %s | %s | %s |", e.name, e.ways[i], got)
			e.compare(t, e.ways[i], got, than)
		}
	}
}

// compare fails the test if pods ran later than without the expander, or more nodes were ordered.
func (e *expanderTrial) compare(t *testing.T, w way, got, than *ending) {
	t.Helper()
	// As in other comparisons, and a loop for each increase.
	loop := cmp.Or(e.loop, 250*time.Millisecond)
	grace := 5*time.Second + time.Duration(len(e.groups))*2*time.Second + loop*time.Duration(got.total()/w.bound)
	if e.question != nil {
		grace += deadline
	}
	for i := range got.took {
		if got.took[i] == never || got.took[i] > than.took[i]+grace {
			t.Errorf("%s: wave %d runs after %s, without the expander after %s", w, i+1, got.took[i], than.took[i])
		}
	}
	if got.total() > max(than.total(), e.most) {
		t.Errorf("%s: %d nodes were ordered, without the expander %d", w, got.total(), than.total())
	}
}

// level fails the test if a set is further from every exact split than a bound.
func (w *trialRun) level(ctx context.Context, t *testing.T, bound int64) {
	t.Helper()
	sizes := w.sizes(ctx, t)
	for _, d := range w.demands {
		var got []int64
		for _, g := range w.groups {
			if g.machine == d.machine {
				got = append(got, sizes[g.name])
			}
		}
		want := w.splits(t, d)
		if !slices.ContainsFunc(want, func(exact []int64) bool { return within(got, exact, bound) }) {
			t.Errorf("sizes of machine %s are %v, want one of %v within %d", d.machine, got, want, bound)
		}
	}
}

func within(got, want []int64, bound int64) bool {
	for i := range got {
		if got[i] < want[i]-bound || got[i] > want[i]+bound {
			return false
		}
	}
	return true
}
