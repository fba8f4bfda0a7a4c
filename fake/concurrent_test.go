package fake_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// TestQuotaHoldsUnderConcurrentIncreases: many goroutines order one node at a
// time, others read, delete and move the clock. Exactly as many orders succeed as
// the quota allows.
func TestQuotaHoldsUnderConcurrentIncreases(t *testing.T) {
	config := abc(0, 0, 0)
	for i := range config.Groups {
		config.Groups[i].MaxSize, config.Groups[i].BootTime = 1000, time.Second
	}
	config.Quotas = []v1alpha1.ScenarioQuota{{Name: "all", Nodes: new(int64(100))}}
	cloud, clock := start(t, config)
	ctx := context.Background()
	var granted atomic.Int64
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			for range 10 {
				err := cloud.IncreaseSize(ctx, ids[i%3], 1)
				switch {
				case err == nil:
					granted.Add(1)
				case !errors.Is(err, cloudprovider.ErrQuotaExceeded):
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			for range 50 {
				clock.Step(100 * time.Millisecond)
				cloud.NextEvent()
				cloud.RegisteredNodes()
				cloud.Calls()
				if _, err := cloud.Nodes(ctx, "a"); err != nil {
					t.Error(err)
				}
				if _, err := cloud.Template(ctx, "b"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, id := range ids {
		target, err := cloud.TargetSize(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		total += target
	}
	if granted.Load() != 100 || total != 100 {
		t.Errorf("%d orders were granted and %d nodes are wanted, the quota is 100", granted.Load(), total)
	}
}

// TestConcurrentDeletionsCountOnce: the same node deleted by many is one less.
func TestConcurrentDeletionsCountOnce(t *testing.T) {
	config := abc(5, 0, 0)
	config.Groups[0].TerminationTime = time.Minute
	cloud, _ := start(t, config)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := cloud.DeleteNodes(context.Background(), "a", []*v1.Node{cloudprovider.FakeNode("fake://a/a-0003", "")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := show(t, cloud, "a"); got != "4 RRDRR 5/5" {
		t.Errorf("group is %q", got)
	}
}
