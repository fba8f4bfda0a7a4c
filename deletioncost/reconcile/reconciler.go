package reconcile

import (
	"context"
	"encoding/json"
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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// mostSeconds is for how long a pass writes. What is left is found by the next one.
const mostSeconds = 20

// reconciler makes the passes.
type reconciler struct {
	cached     client.Client // reads from the cache, writes to the API server
	events     passes.Recorder
	options    Options
	limit      *rate.Limiter
	most       int // writes of a pass
	state      *state
	watchNodes func() error

	mu       sync.Mutex
	watching bool // nodes
}

func newReconciler(c client.Client, recorder passes.Recorder, o Options) *reconciler {
	return &reconciler{
		cached: c, events: recorder, options: o, state: newState(o.Metrics), most: max(1, int(o.WritesPerSecond*mostSeconds)),
		limit: rate.NewLimiter(rate.Limit(o.WritesPerSecond), max(1, int(o.WritesPerSecond*burst))),
	}
}

// Reconcile makes a pass over a ReplicaSet.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rs, err := r.metadata(ctx, "ReplicaSet", req.Namespace, req.Name)
	if apierrors.IsNotFound(err) {
		r.state.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	workload, asked, invalid := r.asked(ctx, rs)
	pods, err := r.podsOf(ctx, rs.Namespace, rs.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	if invalid != nil {
		r.say(req.NamespacedName, workload, v1.EventTypeWarning, "InvalidRequest", invalid.Error())
	}
	if asked == deletioncost.None {
		return r.release(ctx, req.NamespacedName, pods, invalid != nil)
	}
	return r.order(ctx, req.NamespacedName, asked, workload, pods)
}

// release removes the costs of a ReplicaSet that does not ask for them, or no longer.
func (r *reconciler) release(ctx context.Context, key types.NamespacedName, pods []*v1.Pod, said bool) (reconcile.Result, error) {
	r.state.mu.Lock()
	k := r.state.sets[key]
	if k != nil {
		k.counts = nil
		r.state.show(k, shown{})
	}
	r.state.mu.Unlock()
	if k != nil {
		pods = k.latest(pods)
	}
	writes := deletioncost.Release(pods)
	if len(writes) > 0 {
		return r.write(ctx, key, writes)
	}
	if !said {
		r.state.forget(key)
	}
	return reconcile.Result{}, nil
}

// order writes the costs of a ReplicaSet that asks for them.
func (r *reconciler) order(ctx context.Context, key types.NamespacedName, asked deletioncost.Request, workload client.Object, pods []*v1.Pod) (reconcile.Result, error) {
	in := &deletioncost.Input{Request: asked, Pods: r.state.of(key).latest(pods)}
	var counts func(*v1.Pod) bool
	if len(pods) > 0 {
		counts = deletioncost.Counts(pods[0])
	}
	var err error
	if in.Nodes, err = r.nodes(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if counts != nil {
		if in.Others, err = r.others(ctx, key, workload, counts); err != nil {
			return reconcile.Result{}, err
		}
	}
	began := clock.RealClock{}.Now()
	d, err := deletioncost.Decide(in)
	if err != nil {
		r.say(key, workload, v1.EventTypeWarning, "InvalidConstraint", err.Error())
		return reconcile.Result{}, nil // a change of the pods leads to the next pass
	}
	took := clock.RealClock{}.Since(began)
	r.options.Metrics.decisions.Observe(took.Seconds())
	r.state.decided(key, &d, took, counts)
	switch d.Reason {
	case deletioncost.Wrong:
		r.say(key, workload, v1.EventTypeNormal, "DeletionCosts", d.Message())
	case deletioncost.WorkloadSpread:
		r.say(key, workload, v1.EventTypeNormal, "LeftToWorkloadSpread", d.Message())
	case deletioncost.Right, deletioncost.Unconstrained:
	}
	return r.write(ctx, key, d.Writes)
}

// say records an event if it differs in reason from the last one of the ReplicaSet.
func (r *reconciler) say(key types.NamespacedName, about client.Object, kind, reason, message string) {
	k := r.state.of(key)
	r.state.mu.Lock()
	same := k.said == reason
	k.said = reason
	r.state.mu.Unlock()
	if !same {
		r.events.Record(about, nil, kind, reason, "ReplicaSet "+key.Name+": "+message)
	}
}

// write writes costs, those of the pods first that are deleted first.
func (r *reconciler) write(ctx context.Context, key types.NamespacedName, writes []deletioncost.Write) (reconcile.Result, error) {
	again := len(writes) > r.most
	if again {
		writes = writes[:r.most]
	}
	var problems []error
	for i, w := range writes {
		if err := r.limit.Wait(ctx); err != nil {
			again = true // the context ends too soon
			break
		}
		err := r.patch(ctx, key, w)
		r.options.Metrics.wrote(w, err)
		if err != nil && !gone(err) {
			problems = append(problems, fmt.Errorf("writing the deletion cost of pod %s/%s: %w", w.Pod.Namespace, w.Pod.Name, err))
			if apierrors.IsForbidden(err) && i == 0 {
				break // the others fail alike
			}
		}
	}
	if len(writes) > 0 {
		logr.FromContextOrDiscard(ctx).V(1).Info("Wrote deletion costs", "replicaSet", key, "pods", len(writes)-len(problems))
	}
	if err := errors.Join(problems...); err != nil {
		return reconcile.Result{}, err
	}
	if again {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	return reconcile.Result{}, nil
}

// gone reports whether a write was refused because the pod does not exist any more, or another one
// has its name. A pass follows.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

func (r *reconciler) patch(ctx context.Context, key types.NamespacedName, w deletioncost.Write) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": w.Pod.UID, "annotations": w.Annotations()}})
	if err != nil {
		return err
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Pod.Namespace, Name: w.Pod.Name}}
	if err := r.cached.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	r.state.of(key).wrote[pod.UID] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: pod.ResourceVersion, Annotations: pod.Annotations}}
	return nil
}
