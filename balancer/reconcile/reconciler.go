package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

const action = "Balance"

// reasonMalformed is the reason of the event about a Balancer that does not parse.
const reasonMalformed = "Malformed"

// access is how a reconciler reaches the cluster.
type access struct {
	// client reads from the cache and writes; live reads from the API server.
	client    client.Client
	live      client.Reader
	balancers *balancers
	scales    *scale.Client
	watcher   *scale.Watcher
	events    passes.Recorder
}

// reconciler makes the passes. The queue makes sure that there is never more than one pass over a
// Balancer at a time.
type reconciler struct {
	access
	metrics *Metrics
	clock   clock.PassiveClock
	retries workqueue.TypedRateLimiter[types.NamespacedName]
	known   sync.Map // *memory by key
	polls   polls    // the Balancers that are polled
}

// memory is what is remembered of a Balancer between passes, which alone use it.
type memory struct {
	unstored map[string]int32 // the sizes that were written to targets, or may have been, and may not be in the status
	sizes    sizes            // those of the targets, by name; none are known after a start of the controller
}

func (r *reconciler) memory(key types.NamespacedName) *memory {
	known, _ := r.known.LoadOrStore(key, &memory{unstored: map[string]int32{}, sizes: sizes{}})
	return known.(*memory)
}

func newReconciler(a access, m *Metrics, c clock.PassiveClock) *reconciler {
	return &reconciler{
		access: a, metrics: m, clock: c,
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](passes.FirstRetry, passes.LastRetry),
	}
}

// Reconcile makes one pass over a Balancer. A failure on a target is recorded in the status, and
// the pass is repeated after a time that doubles. If something changed meanwhile, there is another
// pass soon, however often that happens. An error means that the pass made no decision or could not
// store the status.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	u := untyped()
	err := r.live.Get(ctx, request.NamespacedName, u)
	if apierrors.IsNotFound(err) || err == nil && u.GetDeletionTimestamp() != nil {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the Balancer: %w", err)
	}
	b, err := parse(u)
	if err != nil { // until it is changed; other Balancers are not affected
		logr.FromContextOrDiscard(ctx).Error(err, "The Balancer does not parse and is left alone")
		r.events.Record(u, nil, v1.EventTypeWarning, reasonMalformed, "the Balancer does not parse; apply its definition and correct it: "+
			err.Error())
		r.forget(request.NamespacedName)
		r.metrics.malformed.WithLabelValues(request.Namespace, request.Name).Set(1)
		return reconcile.Result{}, nil
	}
	r.metrics.malformed.DeleteLabelValues(request.Namespace, request.Name)
	return r.pass(ctx, request.NamespacedName, b)
}

func (r *reconciler) pass(ctx context.Context, key types.NamespacedName, b *v1alpha1.Balancer) (reconcile.Result, error) {
	lap := passes.Stopwatch(r.clock, r.metrics.phases)
	found, err := r.observe(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	lap(phaseRead)

	d, err := balancer.Decide(found.input)
	if err != nil {
		return reconcile.Result{}, err
	}
	lap(phaseDecide)

	var done outcomes
	failures := r.announce(ctx, b, &d)
	if failures == nil {
		done = r.write(ctx, &found, d.Writes)
		r.recordWrites(ctx, b, done)
	}
	status := done.correct(&found.input, d.Status, r.clock.Now())
	lap(phaseWrite)

	refused := slices.ContainsFunc(done, outcome.refused)
	if failures == nil {
		done.noteIn(r.memory(key).unstored)
		failures = r.store(ctx, b, status, d.Adopt)
	}
	if failures == nil {
		clear(r.memory(key).unstored)
		r.record(b, d.Events)
		if text := notWritten(status); refused && text != notWritten(found.input.Status) {
			r.event(b, "", v1.EventTypeWarning, reasonNotWritten, text)
		}
		r.metrics.gauges.See(key, status)
	}
	lap(phaseStore)
	if failures != nil && !apierrors.IsConflict(failures) {
		return reconcile.Result{}, failures
	}
	found.timer.Now = r.clock.Now()
	if found.failed || refused {
		found.soon(found.retryAfter(r.retries.When(key)))
	} else {
		r.retries.Forget(key)
	}
	if failures != nil || slices.ContainsFunc(done, outcome.overtaken) {
		found.soon(passes.FirstRetry) // a change meanwhile is not a reason to wait longer
	}
	return passes.At(found.timer.Now, d.Next, found.timer.Next), nil
}

// announce stores moves before they are made. They count even if the status cannot be stored
// afterwards, for as long as if they were made at the end of the pass.
func (r *reconciler) announce(ctx context.Context, b *v1alpha1.Balancer, d *balancer.Decision) error {
	if !slices.ContainsFunc(d.Writes, func(w balancer.Write) bool { return w.Moves > 0 }) || d.Status.Moves == nil {
		return nil
	}
	moves := d.Status.Moves
	if end, ok := ctx.Deadline(); ok {
		moves = replica.MovesUntil(end, moves.Count)
	}
	return passes.StoreStatus(ctx, r.client, b, &b.Status.Moves, moves)
}

// store stores the status, if it has changed, and the number of replicas to adopt, if there is one.
// The API server refuses it if the Balancer has changed since it was read.
func (r *reconciler) store(ctx context.Context, b *v1alpha1.Balancer, status v1alpha1.BalancerStatus, adopt *int32) error {
	if err := passes.StoreStatus(ctx, r.client, b, &b.Status, status); err != nil || adopt == nil {
		return err
	}
	before := b.DeepCopy()
	b.Spec.Replicas = adopt
	if err := r.client.Patch(ctx, b, passes.IfUnchanged(before)); err != nil {
		return fmt.Errorf("storing the number of replicas: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("Adopted the number of replicas found", "replicas", *adopt)
	return nil
}

// record records the events of a decision once its status is stored, so that they are not repeated.
// Events about writes are recorded when the writes are made.
func (r *reconciler) record(b *v1alpha1.Balancer, all podhealth.Events) {
	for _, e := range all {
		if e.Reason != balancer.ReasonRescaled {
			r.event(b, e.About, e.Type, e.Reason, e.Message)
		}
	}
}

// event records an event about a target, or about the Balancer itself if target is empty.
func (r *reconciler) event(b *v1alpha1.Balancer, target, kind, reason, text string) {
	var related runtime.Object
	if i := slices.IndexFunc(b.Spec.Targets, func(t v1alpha1.BalancerTarget) bool { return t.Name == target }); i >= 0 {
		ref := b.Spec.Targets[i].ScaleTargetRef
		related = &v1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: b.Namespace, Name: ref.Name}
	}
	r.events.Record(b, related, kind, reason, text)
}

func (r *reconciler) forget(key types.NamespacedName) {
	r.retries.Forget(key)
	r.known.Delete(key)
	r.polls.note(key, 0)
	r.balancers.forget(key)
	r.metrics.set.ForgetObject(key)
}
