package e2e

import (
	"context"
	"sync"
	"testing"
)

// scenesAtATime is how many scenes of a test play at a time. They wait much more than they work.
const scenesAtATime = 12

// together plays the scenes of a test at the same time, as subtests, and reports whether all have passed. Each
// has a namespace of its own, so that they do not disturb one another. Unlike subtests that call
// testing.T.Parallel they need no turn among all tests: the programs of a test would run on meanwhile, for
// nothing.
func together(ctx context.Context, t *testing.T, scenes map[string]func(context.Context, *testing.T)) bool {
	t.Helper()
	var playing sync.WaitGroup
	turns := make(chan struct{}, scenesAtATime)
	for name, play := range scenes {
		playing.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			t.Run(name, func(t *testing.T) { play(ctx, t) })
		})
	}
	playing.Wait()
	return !t.Failed()
}

// in has scenes play in one cluster, or whatever they share.
func in[Shared any](shared Shared, scenes map[string]func(context.Context, *testing.T,
	Shared)) map[string]func(context.Context, *testing.T) {
	all := map[string]func(context.Context, *testing.T){}
	for name, play := range scenes {
		all[name] = func(ctx context.Context, t *testing.T) { play(ctx, t, shared) }
	}
	return all
}
