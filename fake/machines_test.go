package fake_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
)

// TestStateShowsOrdersAndMachines follows a group through a stock-out in which
// orders wait, and looks at it while every call fails.
func TestStateShowsOrdersAndMachines(t *testing.T) {
	config := abc(1, 0, 0)
	config.Groups[0].BootTime = time.Minute
	config.StockOuts = []v1alpha1.StockOut{{Mode: v1alpha1.StockOutSilent, Left: 1, FaultWindow: during(0, 10*time.Minute)}}
	config.Calls = []v1alpha1.CallFault{{FaultWindow: during(5*time.Minute, 0), Error: "boom"}}
	clock := clocktesting.NewFakeClock(epoch)
	cloud, err := fake.New(config, clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.IncreaseSize(context.Background(), "a", 1); err != nil {
		t.Fatal(err)
	}
	first := fake.Machine{Name: "a-0001", Created: epoch.Add(-time.Minute), Runs: true}
	second := fake.Machine{Name: "a-0002", Ordered: epoch, Created: epoch.Add(10 * time.Minute)}
	for _, step := range []struct {
		after time.Duration
		want  []fake.Machine
	}{
		{0, []fake.Machine{first}},
		{6 * time.Minute, []fake.Machine{first}},
		{4 * time.Minute, []fake.Machine{first, second}},
		{time.Minute, []fake.Machine{first, {Name: second.Name, Ordered: second.Ordered, Created: second.Created, Runs: true}}},
	} {
		clock.Step(step.after)
		if diff := cmp.Diff(fake.GroupState{ID: "a", Target: 2, Machines: step.want}, cloud.State()[0]); diff != "" {
			t.Errorf("at %s (-want +got):\n%s", clock.Now().Sub(epoch), diff)
		}
	}
	if calls := cloud.Calls(); len(calls) != 1 {
		t.Errorf("calls %v, want the increase alone", calls)
	}
}
