package sidecar_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// reluctant is a cloud that takes its time to refuse.
type reluctant struct {
	*fake.Cloud
	takes, until time.Duration // how long a refusal takes, and until when it refuses
	began        time.Time

	mu      sync.Mutex
	asked   int // nodes, in calls that have not ended
	most    int // nodes asked for and on order, at once
	refused int
}

func (c *reluctant) IncreaseSize(ctx context.Context, id string, delta int) error {
	c.note(delta)
	defer c.note(-delta)
	if time.Since(c.began) >= c.until {
		return c.Cloud.IncreaseSize(ctx, id, delta)
	}
	timer := clock.RealClock{}.NewTimer(c.takes)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	c.refused++
	c.mu.Unlock()
	return fmt.Errorf("node group %q: %w", id, cloudprovider.ErrOutOfResources)
}

func (c *reluctant) note(delta int) {
	onOrder := 0
	for _, id := range []string{"a", "b", "c"} {
		if size, err := c.TargetSize(context.Background(), id); err == nil {
			onOrder += size
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked += delta
	c.most = max(c.most, c.asked+onOrder)
}

// All members refuse for 150 s, at once or after a while: there is never more on order than the
// pods need, and they run once the cloud delivers again.
func TestAllMembersRefuse(t *testing.T) {
	for _, takes := range []time.Duration{0, 2 * time.Second, 8 * time.Second, 40 * time.Second, 59 * time.Second} {
		for _, first := range []time.Duration{30 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprintf("after %s, backoff %s", takes, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner, err := fake.New(fake.Config{Groups: zones(0, 0, 0)}, clock.RealClock{})
					if err != nil {
						t.Fatal(err)
					}
					cloud := &reluctant{Cloud: inner, takes: takes, until: 150 * time.Second, began: time.Now()}
					front, err := sidecar.New(cloud, sidecar.Options{Journal: &memoryJournal{}, Nodes: nodesOf{inner},
						Options: steering.Options{Backoff: backoff.Options{Initial: first}}})
					if err != nil {
						t.Fatal(err)
					}
					ca := newCluster(t, clusterConfig{
						clock: clock.RealClock{}, cloud: inner, batches: []batch{{Pods: podsOf("p", 9, 1)}},
						connect: always(autoscaler.Connection{Provider: front, Expander: front}),
					})
					ca.Settle(time.Hour)
					if err := front.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if state := ca.State(); state.Pending > 0 || total(state.Sizes()) != 9 {
						t.Errorf("sizes %v, %d pods pending\n%v", state.Sizes(), state.Pending, ca.changes)
					}
					if cloud.most > 9 || cloud.refused < 3 {
						t.Errorf("%d nodes on order at once for 9, %d refusals", cloud.most, cloud.refused)
					}
				})
			})
		}
	}
}
