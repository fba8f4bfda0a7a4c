package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "federation"

const (
	// settle is the delay of a pass after a change in a member: changes seldom come alone.
	settle = 100 * time.Millisecond
	// firstRetry and lastRetry bound the time until a pass is repeated that failed; it doubles each
	// time.
	firstRetry, lastRetry = 200 * time.Millisecond, time.Minute
)

// Options of a Controller. The zero value works.
type Options struct {
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// Controller reconciles every FederatedReplicaSet of a manager, whose scheme must know v1alpha1.
type Controller struct {
	members *members.Members
	options Options

	mu    sync.Mutex
	ctx   context.Context // of the writes
	queue queue           // nil until the controller starts
	start time.Time
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// New returns a Controller for the clusters of members, whose controller must run beside it.
func New(m *members.Members, o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics == nil {
		o.Metrics, _ = NewMetrics(nil) // nothing is registered, so nothing can be registered twice
	}
	return &Controller{members: m, options: o}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// SetupWithManager registers the controller and what it watches.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder("evenkeel-" + Name),
		members: c.members, metrics: c.options.Metrics, clock: c.options.Clock,
		sent: newOutbox(), enqueue: c.soon, background: c.background, begun: c.begun,
	}
	c.members.Handle(c.handler(mgr.GetClient()))
	return builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.FederatedReplicaSet{}, builder.WithPredicates(changed())).
		WatchesRawSource(source.Func(c.attach)).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// changed lets changes of an object through that matter, not those of its status.
func changed() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// handler requests passes: over every object when a cluster changes, and a moment later over the one
// whose local object or pods change.
func (c *Controller) handler(reader client.Reader) members.Handler {
	local := func(_ string, l members.Local) {
		c.soon(types.NamespacedName{Namespace: l.Namespace, Name: l.Name}, settle)
	}
	return members.Handler{
		Cluster: func(name string) {
			if c.members.Get(name) == nil {
				c.options.Metrics.forgetCluster(name)
			}
			c.all(reader)
		},
		Local: local, Pods: local,
	}
}

// attach sets the queue for changes in the members, and how long writes may go on.
func (c *Controller) attach(ctx context.Context, q queue) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.queue, c.start = ctx, q, c.options.Clock.Now()
	return nil
}

// begun is when the controller started.
func (c *Controller) begun() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start
}

// background is the context of the writes.
func (c *Controller) background() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx
}

// soon requests a pass over an object after a delay. Of several requests the earliest counts.
func (c *Controller) soon(key types.NamespacedName, delay time.Duration) {
	c.mu.Lock()
	q := c.queue
	c.mu.Unlock()
	if q != nil {
		q.AddAfter(reconcile.Request{NamespacedName: key}, delay)
	}
}

// all requests a pass over every object.
func (c *Controller) all(reader client.Reader) {
	var list v1alpha1.FederatedReplicaSetList
	if c.background() == nil || reader.List(c.background(), &list, client.UnsafeDisableDeepCopy) != nil {
		return // the cache has not started or has stopped: there are no passes then
	}
	for i := range list.Items {
		c.soon(client.ObjectKeyFromObject(&list.Items[i]), 0)
	}
}
