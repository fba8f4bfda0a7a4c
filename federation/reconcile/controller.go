package reconcile

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "federation"

// Options of a Controller. The zero value works.
type Options struct {
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
}

// Controller reconciles every FederatedReplicaSet of a manager, whose scheme must know v1alpha1.
type Controller struct {
	members  *members.Members
	options  Options
	triggers passes.Triggers
}

// New returns a Controller for the clusters of members, whose controller must run beside it.
func New(m *members.Members, o Options) *Controller {
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	return &Controller{members: m, options: o}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// SetupWithManager registers the controller and what it watches.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), events: passes.Recorder{EventRecorder: mgr.GetEventRecorder("evenkeel-" + Name),
			Action: action},
		members: c.members, metrics: c.options.Metrics, clock: clock.RealClock{},
		triggers: &c.triggers, begun: sync.OnceValue(clock.RealClock{}.Now),
	}
	// Standbys see it, too: the API server takes the finalizer away that says so a moment later.
	informer, err := mgr.GetCache().GetInformer(context.Background(), &v1alpha1.FederatedReplicaSet{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(passes.Follow(r.deletions.see))
	}
	if err != nil {
		return fmt.Errorf("watching how FederatedReplicaSets are deleted: %w", err)
	}
	c.members.Handle(c.handler(mgr.GetClient()))
	return builder.ControllerManagedBy(mgr).Named(Name).
		For(&v1alpha1.FederatedReplicaSet{}, builder.WithPredicates(changed())).
		WatchesRawSource(c.triggers.Source()).
		WithOptions(passes.Retrying()).
		Complete(r)
}

// changed lets changes of an object through that matter, not those of its status.
func changed() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// handler requests passes: over every object when a cluster changes, and a moment later over the one
// whose local object or pods change.
func (c *Controller) handler(reader client.Reader) members.Handler {
	return func(cluster string, l *members.Local) {
		switch {
		case l != nil:
			c.triggers.Pass(types.NamespacedName{Namespace: l.Namespace, Name: l.Name}, passes.ChangeDelay)
			return
		case c.members.Get(cluster) == nil:
			c.options.Metrics.forgetCluster(cluster)
		}
		c.all(reader)
	}
}

// all requests a pass over every object.
func (c *Controller) all(reader client.Reader) {
	var list v1alpha1.FederatedReplicaSetList
	ctx := c.triggers.Context()
	if ctx == nil || reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return // the cache has not started or has stopped: there are no passes then
	}
	for i := range list.Items {
		c.triggers.Pass(client.ObjectKeyFromObject(&list.Items[i]), 0)
	}
}
