package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

const (
	// watchPatience is how long a watch may fail before Ready fails. A rollout of API servers takes
	// less time.
	watchPatience = 3 * time.Minute
	// watchQuiet is how long after its last failure a watch counts as working again. A failed watch
	// is retried at least every minute, and there is no notification when it succeeds.
	watchQuiet = 2 * time.Minute
)

// watches holds which watches of the cache fail. A cache that was filled once keeps returning what
// it has.
type watches struct {
	clock           clock.PassiveClock
	patience, quiet time.Duration

	mu      sync.Mutex
	failing map[*toolscache.Reflector]*failure
}

// failure is a watch that keeps failing.
type failure struct {
	since, last time.Time
	err         error
}

func newWatches() *watches {
	return &watches{clock: clock.RealClock{}, patience: watchPatience, quiet: watchQuiet, failing: map[*toolscache.Reflector]*failure{}}
}

// failed is a toolscache.WatchErrorHandlerWithContext.
func (w *watches) failed(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	f := w.failing[r]
	if f == nil || now.Sub(f.last) > w.quiet {
		f = &failure{since: now}
		w.failing[r] = f
	}
	f.last, f.err = now, err
}

// problem returns an error that names the watches that have been failing for at least the patience.
func (w *watches) problem(patience time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	var problems []error
	for r, f := range w.failing {
		if now.Sub(f.last) <= w.quiet && f.last.Sub(f.since) >= patience {
			problems = append(problems, fmt.Errorf("the watch of %s has failed for %s: %w", r.TypeDescription(),
				now.Sub(f.since).Truncate(time.Second), f.err))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}
