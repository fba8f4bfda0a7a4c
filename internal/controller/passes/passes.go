// Package passes has what controllers share that make passes over objects: how a cache is followed, what
// requests a pass and when the next one is, how a pass is measured, and how events about its object are
// recorded.
//
// It decides nothing, and knows no kind.
package passes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// FirstRetry and LastRetry bound the time until a pass is repeated that failed; it doubles each time.
const FirstRetry, LastRetry = 200 * time.Millisecond, time.Minute

// Retrying are the options of a controller whose passes are repeated if they fail.
func Retrying() controller.Options {
	return controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, LastRetry)}
}

// At has the next pass made at the first of some times at the latest. A zero time is none.
func At(now time.Time, times ...time.Time) (result reconcile.Result) {
	for _, at := range times {
		if after := max(at.Sub(now), time.Millisecond); !at.IsZero() && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
			result.RequeueAfter = after
		}
	}
	return result
}

// Inform has objects watched from the start: otherwise a manager would be ready before it has them.
func Inform(mgr manager.Manager, objects ...client.Object) error {
	for _, o := range objects {
		if _, err := mgr.GetCache().GetInformer(context.Background(), o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", o, err)
		}
	}
	return nil
}

// Stopwatch returns a function that takes the time since its last call as that of a phase.
func Stopwatch(c clock.PassiveClock, phases prometheus.ObserverVec) func(phase string) {
	last := c.Now()
	return func(phase string) {
		now := c.Now()
		phases.WithLabelValues(phase).Observe(now.Sub(last).Seconds())
		last = now
	}
}

// The results of writes and passes.
const Succeeded, Conflicted, Failed = "success", "conflict", "failure"

// Results are all of them.
var Results = []string{Succeeded, Conflicted, Failed}

// ResultOf is the result of what returned an error.
func ResultOf(err error) string {
	switch {
	case err == nil:
		return Succeeded
	case apierrors.IsConflict(err):
		return Conflicted
	}
	return Failed
}

// longestNote is the maximum length of the text of an event that the API server accepts.
const longestNote = 1024

// Recorder records the events of a controller.
type Recorder struct {
	events.EventRecorder
	// Action is that of all events.
	Action string
}

// Record records an event about an object, and about another one that is related if it is not nil. The
// recorder counts events with the same reason and objects as one and keeps only the first text.
func (r Recorder) Record(about, related runtime.Object, kind, reason, text string) {
	if len(text) > longestNote {
		text = strings.ToValidUTF8(text[:longestNote], "")
	}
	r.Eventf(about, related, kind, reason, r.Action, "%s", text)
}
