package reconcile

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/internal/provisioning/live"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "workloadspread"

// byOwner is the index of pods by the UID of their controller, and of substitutes by that of their
// WorkloadSpread.
const byOwner = "metadata.ownerReferences.uid"

// Autoscaler says what the cluster autoscaler does about pods.
type Autoscaler interface {
	// ScaleUps has no entry for a pod of which nothing is known. Its entries count also if there is an
	// error.
	ScaleUps(ctx context.Context, pods []*v1.Pod) (map[types.UID]workloadspread.ScaleUp, error)
}

// Options of a Controller. The zero value works.
type Options struct {
	// Store returns what stores the status; it is called once, when the controller is set up. Admission
	// in the same process must use the same one. Nil means one of its own.
	Store func(manager.Manager) (*store.Store, error)
	// Autoscaler says what it does about pods that cannot be scheduled. Nil means that the API server is
	// asked.
	Autoscaler Autoscaler
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
	// PerNamespace watches workloads namespace by namespace, for a manager that may not watch all
	// namespaces at once.
	PerNamespace bool
	// PollInterval is how often workloads that cannot be watched are read; 0 means
	// scale.DefaultPollInterval.
	PollInterval time.Duration
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// Controller reconciles every WorkloadSpread of a manager, whose scheme has to know v1alpha1 and the
// core kinds.
type Controller struct{ options Options }

// New returns a Controller. It does nothing until it is set up and its manager runs.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Controller{options: o}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// SetupWithManager registers the controller and what it watches.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	o := c.options
	if o.Metrics == nil {
		o.Metrics, _ = NewMetrics(nil) // nothing is registered, so nothing can be registered twice
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1.Pod{}, byOwner, ownerOf); err != nil {
		return fmt.Errorf("indexing pods by their owners: %w", err)
	}
	for _, kind := range []client.Object{&v1alpha1.WorkloadSpread{}, &v1.Node{}} { // from the start, so that the manager is not ready before it has them
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	on := &triggers{cached: mgr.GetClient(), owners: owners.New(mgr.GetAPIReader(), o.Clock), pods: &seen{}, clock: o.Clock}
	watcher, err := scale.NewWatcher(mgr.GetConfig(), scale.WatcherOptions{
		Changed: on.workload, PerNamespace: o.PerNamespace, PollInterval: o.PollInterval, Log: mgr.GetLogger(),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(watcher); err != nil {
		return fmt.Errorf("adding the watcher of workloads: %w", err)
	}
	status, autoscaler := o.Store, o.Autoscaler
	if status == nil {
		direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
		if err != nil {
			return fmt.Errorf("building a client for the status: %w", err)
		}
		status = func(manager.Manager) (*store.Store, error) {
			return store.New(mgr.GetClient(), direct, store.Options{}), nil
		}
	}
	stored, err := status(mgr)
	if err != nil {
		return err
	}
	if autoscaler == nil {
		autoscaler = live.New(mgr.GetAPIReader(), live.Options{Clock: o.Clock})
	}
	r := newReconciler(access{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), store: stored, autoscaler: autoscaler, mapper: mgr.GetRESTMapper(), watcher: watcher, owners: on.owners, seen: on.pods,
		events: mgr.GetEventRecorder("evenkeel-" + Name),
	}, o.Metrics, o.Clock)
	return builder.ControllerManagedBy(mgr).Named(Name).
		Watches(&v1alpha1.WorkloadSpread{}, on.spreads()).
		Watches(&v1.Pod{}, on.changes()).
		WatchesRawSource(source.Func(on.attach)).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// ownerOf are the values of the index.
func ownerOf(o client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.Kind != v1alpha1.KindWorkloadSpread {
		return []string{string(ref.UID)}
	}
	if ref := spreadOf(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// spreadOf is the reference of a substitute to its WorkloadSpread; nil if the pod is none.
func spreadOf(o client.Object) *metav1.OwnerReference {
	if _, ok := o.GetAnnotations()[workloadspread.AnnotationSubstitute]; !ok {
		return nil
	}
	refs := o.GetOwnerReferences()
	for i := range refs {
		if refs[i].Kind == v1alpha1.KindWorkloadSpread {
			return &refs[i]
		}
	}
	return nil
}
