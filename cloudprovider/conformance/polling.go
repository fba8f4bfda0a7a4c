package conformance

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Polling implements a Harness's WaitForNodes by polling.
type Polling struct {
	Interval time.Duration // between two rounds
	Timeout  time.Duration // after which the current state is accepted
	Clock    clock.WithTicker
}

// WaitForNodes returns a function that waits until the groups have as many instances
// as their target sizes say, none being created or deleted. After the timeout it
// returns without an error: some orders are never fulfilled.
func (p Polling) WaitForNodes(provider cloudprovider.Provider, groups []string) func(context.Context) error {
	return func(ctx context.Context) error {
		deadline := p.Clock.Now().Add(p.Timeout)
		ticker := p.Clock.NewTicker(p.Interval)
		defer ticker.Stop()
		for {
			done, err := complete(ctx, provider, groups)
			if err != nil || done || !p.Clock.Now().Before(deadline) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ticker.C():
			}
		}
	}
}

func complete(ctx context.Context, provider cloudprovider.Provider, groups []string) (bool, error) {
	for _, id := range groups {
		target, err := provider.TargetSize(ctx, id)
		if err != nil {
			return false, err
		}
		instances, err := provider.Nodes(ctx, id)
		if err != nil {
			return false, err
		}
		for _, in := range instances {
			if in.State == cloudprovider.InstanceDeleting || in.State == cloudprovider.InstanceCreating && in.Error == nil {
				return false, nil
			}
		}
		if len(instances) != target {
			return false, nil
		}
	}
	return true, nil
}
