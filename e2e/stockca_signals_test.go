package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// absences are reasons why the autoscaler leaves a healthy group out, or counts less in it than is on
// its way, for machines that boot that fast.
func absences(boot time.Duration) []comparison {
	fleet := func(late time.Duration, sizes ...int64) trial {
		return trial{groups: zones("m", 30, sizes...), demands: []demand{{machine: "m", perNode: 1}}, boot: boot, late: late}
	}
	unready := fleet(0, 3, 3, 3)
	unready.name = "a zone turns unready and nine more pods come"
	unready.outages = []v1alpha1.Outage{{
		Zones: []string{"zone-b"}, Mode: v1alpha1.OutageUnready, FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: time.Minute}},
	}}
	booting := fleet(0, 1, 1, 1)
	booting.name = "a zone turns unready when nodes have booted and nine more pods come"
	booting.outages = []v1alpha1.Outage{{
		Zones: []string{"zone-b"}, Mode: v1alpha1.OutageUnready,
		FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: time.Minute + boot}},
	}}
	late := fleet(30*time.Second, 0, 0, 0)
	late.name = "instances are listed 30 s late from zero"
	never := fleet(0, 0, 0, 0)
	never.name, never.dead, never.provision = "machines boot and never join", []string{"m-b"}, boot+time.Minute
	refusing := fleet(0, 0, 0, 0)
	refusing.name = "a zone refuses with nodes of it on their way"
	half := 50*time.Second + boot/2
	refusing.faults.StockOuts = []v1alpha1.StockOut{{Groups: []string{"m-b"},
		FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: half - 2*time.Second}}}}
	back := fleet(0, 0, 0, 0)
	back.name = "a zone comes back from its backoff"
	back.faults.StockOuts = []v1alpha1.StockOut{{Groups: []string{"m-b"},
		FaultWindow: v1alpha1.FaultWindow{Until: &metav1.Duration{Duration: 2 * time.Minute}}}}
	paused := fleet(0, 0, 0, 0)
	paused.name = "the provider is unavailable for 30 s of a scale-up"
	paused.faults.Calls = []v1alpha1.CallFault{{Methods: []string{"Refresh"}, Error: "Unavailable", FaultWindow: v1alpha1.FaultWindow{
		From: metav1.Duration{Duration: 51 * time.Second}, Until: &metav1.Duration{Duration: 81 * time.Second},
	}}}
	return []comparison{
		{trial: unready, waves: []wave{{pods: 9, after: 80 * time.Second}}},
		{trial: booting, waves: []wave{{pods: 6, after: 50 * time.Second}, {pods: 9, after: 75*time.Second + boot}}},
		{trial: late, waves: []wave{{pods: 9}}},
		{trial: never, waves: []wave{{pods: 9}, {pods: 9}}},
		{trial: refusing, waves: []wave{{pods: 15, after: 50 * time.Second}, {pods: 6, after: half}}, check: ends(8, 5, 8)},
		{trial: back, waves: []wave{{pods: 12}, {pods: 9, after: 8 * time.Minute, settled: true}}, check: ends(7, 7, 7)},
		{trial: paused, waves: []wave{{pods: 9, after: 50 * time.Second}}, check: ends(3, 3, 3)},
	}
}

// ends compares what was ordered in all with sizes in the order of the groups.
func ends(sizes ...int64) func(context.Context, *testing.T, *trialRun) {
	return func(_ context.Context, t *testing.T, w *trialRun) {
		t.Helper()
		for i, g := range w.groups {
			if got := w.targets()[g.name]; got != sizes[i] {
				t.Errorf("ordered were %d nodes of %s, want %d", got, g.name, sizes[i])
			}
		}
	}
}

// bootTimes are those of fast and of slow machines.
var bootTimes = []time.Duration{20 * time.Second, 2 * time.Minute}

// boots returns a comparison for each time in which machines boot.
func boots(c comparison) []comparison {
	var out []comparison
	for _, boot := range bootTimes {
		c := c
		c.boot, c.name = boot, fmt.Sprint(c.name, " with boots of ", boot)
		out = append(out, c)
	}
	return out
}

// Pods wait no longer with the sidecar than without, whatever the reason why the autoscaler leaves a
// group out.
func TestStockAutoscalerLeavesGroupsOut(t *testing.T) {
	autoscaler.Binary(t)
	for _, boot := range bootTimes {
		for _, c := range absences(boot) {
			t.Run(fmt.Sprint(c.name, " with boots of ", boot), func(t *testing.T) { t.Parallel(); c.neverLater(t) })
		}
	}
}

// freeAndPinned are pods of any zone and pods of one. The scheduler may put the former on nodes that the
// latter need, so more nodes may be ordered than they need together, at most as many as there are pods
// of the one zone.
func freeAndPinned(free, pinned int) comparison {
	return comparison{
		trial: trial{
			name: fmt.Sprintf("%d pods of any zone and %d of one", free, pinned), groups: zones("m", 20, 0, 0, 0),
			demands: []demand{{machine: "m", pods: free, perNode: 1}}, pinned: int32(pinned),
		},
		check: func(_ context.Context, t *testing.T, w *trialRun) {
			t.Helper()
			ordered := int64(0)
			for _, target := range w.targets() {
				ordered += target
			}
			if least := int64(free + pinned); ordered < least || ordered > least+int64(pinned) {
				t.Errorf("%d nodes were ordered, want %d and at most %d more", ordered, least, pinned)
			}
		},
	}
}

// Whatever else happens, pods run as soon with the sidecar as without, but for one loop per member, and
// the sizes come out exact where the autoscaler hears the answers to its increases.
func TestStockAutoscalerIsNotFasterAlone(t *testing.T) {
	autoscaler.Binary(t)
	all := []comparison{freeAndPinned(6, 3)}
	for _, one := range trials {
		c := comparison{trial: one}
		if !one.unheard {
			c.check = func(ctx context.Context, t *testing.T, w *trialRun) { t.Helper(); w.check(ctx, t) }
		}
		all = append(all, c)
	}
	for _, one := range all {
		for _, c := range boots(one) {
			t.Run(c.name, func(t *testing.T) { t.Parallel(); c.neverLater(t) })
		}
	}
}
