package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

const (
	// mostSeconds is for how long a pass writes. What is left is found by the next one.
	mostSeconds = 20
	// mostProblems is how many writes of a pass may fail.
	mostProblems = 10
)

// reconciler makes the passes.
type reconciler struct {
	cached  client.Client // reads from the cache, writes to the API server
	events  passes.Recorder
	options Options
	limit   *rate.Limiter

	mu    sync.Mutex
	known map[types.NamespacedName]known
}

// known is what is remembered of a ReplicaSet.
type known struct {
	asks, uneven bool
	foreign      int
	counts       func(*v1.Pod) bool // pods of others; nil if none
	announced    string             // the reason of the last event
}

func newReconciler(c client.Client, recorder passes.Recorder, o Options) *reconciler {
	return &reconciler{
		cached: c, events: recorder, options: o, known: map[types.NamespacedName]known{},
		limit: rate.NewLimiter(rate.Limit(o.WritesPerSecond), max(1, int(o.WritesPerSecond*burst))),
	}
}

// note changes what is remembered of a ReplicaSet.
func (r *reconciler) note(key types.NamespacedName, change func(*known)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.known[key]
	now := before
	change(&now)
	r.options.Metrics.show(&before, &now)
	if r.known[key] = now; !now.asks && now.announced == "" {
		delete(r.known, key)
	}
}

// Reconcile makes a pass over a ReplicaSet.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rs, err := r.metadata(ctx, kindReplicaSet, req.Namespace, req.Name)
	if apierrors.IsNotFound(err) {
		r.note(req.NamespacedName, func(k *known) { *k = known{} })
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	workload, asked, invalid := r.asked(ctx, rs)
	pods, err := r.pods(ctx, ownedBy(rs)...)
	if err != nil {
		return reconcile.Result{}, err
	}
	if asked != deletioncost.None {
		return r.order(ctx, rs, workload, asked, pods)
	}
	r.note(req.NamespacedName, func(k *known) {
		if *k = (known{announced: k.announced}); invalid == nil {
			k.announced = ""
		} else {
			r.say(k, workload, v1.EventTypeWarning, "InvalidRequest", named(rs, invalid.Error()))
		}
	})
	return r.write(ctx, deletioncost.Release(pods))
}

// order writes the costs of a ReplicaSet that asks for them.
func (r *reconciler) order(ctx context.Context, rs, workload *metav1.PartialObjectMetadata, asked deletioncost.Request,
	pods []*v1.Pod) (reconcile.Result, error) {
	in, counts, err := r.input(ctx, rs, asked, pods)
	if err != nil {
		return reconcile.Result{}, err
	}
	began := clock.RealClock{}.Now()
	d, err := deletioncost.Decide(in)
	r.options.Metrics.decisions.Observe(clock.RealClock{}.Since(began).Seconds())
	r.note(client.ObjectKeyFromObject(rs), func(k *known) {
		k.asks, k.uneven, k.foreign, k.counts = true, d.Reason == deletioncost.Wrong, d.Foreign, counts
		switch {
		case err != nil: // a change of the pods leads to the next pass
			r.say(k, workload, v1.EventTypeWarning, "InvalidConstraint", named(rs, err.Error()))
		case d.Reason == deletioncost.Wrong:
			r.say(k, workload, v1.EventTypeNormal, "DeletionCosts", named(rs, d.Message()))
		case d.Reason == deletioncost.WorkloadSpread:
			r.say(k, workload, v1.EventTypeNormal, "LeftToWorkloadSpread", named(rs, d.Message()))
		}
	})
	return r.write(ctx, d.Writes)
}

// say records an event if it differs in reason from the last one of the ReplicaSet.
func (r *reconciler) say(k *known, about client.Object, kind, reason, message string) {
	if k.announced != reason {
		k.announced = reason
		r.events.Record(about, nil, kind, reason, message)
	}
}

func named(rs client.Object, message string) string {
	return "ReplicaSet " + rs.GetName() + ": " + message
}

// write writes costs, those of the pods first that are deleted first. It ends when the cache has them, so that the
// next pass knows them.
func (r *reconciler) write(ctx context.Context, writes []deletioncost.Write) (result reconcile.Result, err error) {
	if most := max(1, int(r.options.WritesPerSecond*mostSeconds)); len(writes) > most {
		writes, result.RequeueAfter = writes[:most], time.Second
	}
	var problems []error
	var last *deletioncost.Write
	for i, w := range writes {
		if r.limit.Wait(ctx) != nil { // others write too, and the time of the pass does not last for this one
			result.RequeueAfter = time.Second
			break
		}
		err := passes.PatchMetadata(ctx, r.cached, w.Pod, nil, w.Annotations())
		r.options.Metrics.wrote(w, err)
		if err == nil {
			last = &writes[i]
		} else if !gone(err) {
			problems = append(problems, fmt.Errorf("writing the deletion cost of pod %s/%s: %w", w.Pod.Namespace, w.Pod.Name, err))
		}
		if len(problems) == mostProblems {
			break
		}
	}
	if last != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("Wrote deletion costs", "pods", len(writes)-len(problems))
		written := ptr.Deref(last.Annotations()[deletioncost.AnnotationWritten], "")
		_ = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, time.Second, true, func(ctx context.Context) (bool, error) {
			var pod v1.Pod
			err := r.cached.Get(ctx, client.ObjectKeyFromObject(last.Pod), &pod)
			return err != nil || pod.Annotations[deletioncost.AnnotationWritten] == written, nil //nolint:nilerr // it is gone
		})
	}
	if err := errors.Join(problems...); err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// gone reports whether a write was refused because the pod does not exist any more, or another one
// has its name. A pass follows.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
