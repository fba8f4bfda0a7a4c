// Package passes has what controllers share that make passes over objects: how a cache is followed, what
// requests a pass and when the next one is, how a pass is measured, how metadata is written, and how events
// about its object are recorded.
//
// It decides nothing, and knows no kind.
package passes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// ChangeDelay is the delay of a pass after a change that seldom comes alone, as those of pods do.
const ChangeDelay = 100 * time.Millisecond

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

// IndexByController indexes objects by the UIDs of their controllers.
func IndexByController(mgr manager.Manager, field string, objects ...client.Object) error {
	for _, o := range objects {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), o, field, func(o client.Object) []string {
			if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
				return []string{string(ref.UID)}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("indexing %T by controllers: %w", o, err)
		}
	}
	return nil
}

// PatchMetadata writes labels and annotations of an object, and removes annotations that are nil. The API server
// refuses that for another object of the same name.
func PatchMetadata(ctx context.Context, c client.Writer, o client.Object, labels map[string]string, annotations map[string]*string) error {
	var patch struct {
		Metadata struct {
			UID         types.UID          `json:"uid"`
			Labels      map[string]string  `json:"labels,omitempty"`
			Annotations map[string]*string `json:"annotations,omitempty"`
		} `json:"metadata"`
	}
	patch.Metadata.UID, patch.Metadata.Labels, patch.Metadata.Annotations = o.GetUID(), labels, annotations
	text, err := json.Marshal(&patch)
	if err != nil {
		return err
	}
	answer, _ := o.DeepCopyObject().(client.Object) // the given one is of a cache
	return c.Patch(ctx, answer, client.RawPatch(types.MergePatchType, text))
}

// IfUnchanged is a patch that the API server refuses if the object has changed since it was read as before.
func IfUnchanged(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// StoreStatus stores the status of an object if it differs from the one that the object has, unless the object has
// changed since it was read.
func StoreStatus[S any](ctx context.Context, c client.Client, o client.Object, of *S, status S) error {
	if apiequality.Semantic.DeepEqual(*of, status) {
		return nil
	}
	before := o.DeepCopyObject().(client.Object)
	*of = status
	if err := c.Status().Patch(ctx, o, IfUnchanged(before)); err != nil {
		return fmt.Errorf("storing the status: %w", err)
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
