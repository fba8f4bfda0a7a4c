package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// action is the action of all events.
const action = "Spread"

// reconciler makes the passes. The queue makes sure that there is never more than one pass over a
// WorkloadSpread at a time.
type reconciler struct {
	// client reads from the cache and writes; live reads from the API server.
	client     client.Client
	live       client.Reader
	store      *store.Store
	autoscaler Autoscaler // nil if there is none
	mapper     meta.RESTMapper
	watcher    *scale.Watcher
	reader     *workloads.Reader
	events     passes.Recorder
	metrics    *Metrics
	clock      clock.PassiveClock
	tried      sync.Map // trial by types.NamespacedName
}

// errReplaced is the error of a decision about a WorkloadSpread that was replaced meanwhile.
var errReplaced = errors.New("another WorkloadSpread has its name now")

// Reconcile makes one pass over a WorkloadSpread. A write that fails because something changed
// meanwhile is repeated by the next pass, soon; after other failures the pass is repeated after a time
// that doubles. A failure of one write does not stop the others.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var s v1alpha1.WorkloadSpread
	err := r.client.Get(ctx, request.NamespacedName, &s)
	if apierrors.IsNotFound(err) || err == nil && s.DeletionTimestamp != nil {
		r.metrics.set.ForgetObject(request.NamespacedName)
		r.store.Forget(request.NamespacedName)
		r.tried.Delete(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the WorkloadSpread: %w", err)
	}
	lap := passes.Stopwatch(r.clock, r.metrics.phases)
	found, err := r.observe(ctx, &s)
	if err != nil {
		return reconcile.Result{}, err
	}
	lap(phaseRead)

	var d workloadspread.Decision
	stored, err := r.store.Update(ctx, request.NamespacedName,
		func(now *v1alpha1.WorkloadSpread, _ *store.Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
			if now.UID != s.UID {
				return nil, false, errReplaced
			}
			in, err := r.input(ctx, now, found)
			if err != nil {
				return nil, false, err
			}
			d = workloadspread.Decide(in)
			return d.Status, d.Changed, nil
		})
	lap(phaseStore)
	switch {
	case apierrors.IsConflict(err) || errors.Is(err, errReplaced):
		return reconcile.Result{RequeueAfter: passes.FirstRetry}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err) // its deletion is the next event
	}
	for _, e := range d.Events {
		r.event(stored, e)
	}
	overtaken, err := r.do(ctx, stored, &d)
	lap(phaseWrite)
	r.metrics.see(request.NamespacedName, &d)
	if err != nil {
		return reconcile.Result{}, err
	}
	now, next := r.clock.Now(), []time.Time{d.Next} // a pass may be needed even if nothing happens before
	if found.poll > 0 {
		next = append(next, now.Add(found.poll))
	}
	if overtaken {
		next = append(next, now.Add(passes.FirstRetry))
	}
	return passes.At(now, next...), nil
}

func (r *reconciler) event(s *v1alpha1.WorkloadSpread, e podhealth.Event) {
	r.metrics.moves.WithLabelValues(e.Reason).Inc()
	var related runtime.Object
	if e.About != "" {
		related = &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: e.About}
	}
	r.events.Record(s, related, e.Type, e.Reason, e.Message)
}
