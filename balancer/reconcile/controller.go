package reconcile

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "balancer"

// byTargetName is the index of the Balancers by the names of the objects that are their targets.
const byTargetName = "spec.targets.scaleTargetRef.name"

// Options of a Controller. The zero value works.
type Options struct {
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
	// PerNamespace watches targets namespace by namespace, for a manager that may not watch all
	// namespaces at once.
	PerNamespace bool
}

// Controller reconciles every Balancer of a manager, whose scheme has to know v1alpha1 and the core
// kinds.
type Controller struct{ options Options }

// New returns a Controller. It does nothing until it is set up and its manager runs.
func New(o Options) *Controller { return &Controller{options: o} }

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// SetupWithManager registers the controller and what it watches.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	scales, err := scale.New(mgr.GetConfig(), scale.Options{})
	if err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), untyped(), byTargetName, targetNames); err != nil {
		return fmt.Errorf("indexing Balancers by their targets: %w", err)
	}
	if err := passes.Inform(mgr, &v1.Pod{}); err != nil { // Balancers are, because of the index
		return err
	}
	known := &balancers{cache: mgr.GetCache()}
	on := &triggers{balancers: known}
	watcher, err := scale.NewWatcher(mgr.GetConfig(), scale.WatcherOptions{
		Changed: on.target, PerNamespace: c.options.PerNamespace, Log: mgr.GetLogger(),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(watcher); err != nil {
		return fmt.Errorf("adding the watcher of targets: %w", err)
	}
	r := newReconciler(access{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), balancers: known, scales: scales, watcher: watcher,
		events: passes.Recorder{EventRecorder: mgr.GetEventRecorder("evenkeel-" + Name), Action: action},
	}, metricset.Or(c.options.Metrics, NewMetrics), clock.RealClock{})
	return builder.ControllerManagedBy(mgr).Named(Name).
		For(untyped(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(untyped(), on.rivals(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1.Pod{}, on.pods(), builder.WithPredicates(predicate.Funcs{UpdateFunc: matters})).
		WatchesRawSource(on.Source()).
		WithOptions(passes.Retrying()).
		Complete(r)
}

// triggers requests passes over the Balancers that a change may matter to. No target is watched before the
// first pass.
type triggers struct {
	passes.Triggers
	balancers *balancers
}

// target requests a pass over each Balancer of an object that changed. An object of another kind
// with the same name costs an unnecessary pass.
func (t *triggers) target(o scale.Target) {
	list, _ := t.balancers.named(context.Background(), o.Namespace, o.Name) // while no cache runs there are no passes
	for _, b := range list {
		t.Pass(client.ObjectKeyFromObject(b), 0)
	}
}

// rivals requests passes over the Balancers that have, or had, a target in common with one that
// changed, and over those that have it as a direct or indirect target: they may form a cycle with
// it.
func (t *triggers) rivals() handler.EventHandler {
	return passes.Each(func(ctx context.Context, o client.Object, q passes.Queue) {
		b, err := parse(o)
		if err != nil {
			return // it has no targets
		}
		names := sets.New(targetNames(b)...)
		list, _ := t.balancers.list(ctx, client.InNamespace(b.Namespace)) // as in target
		above := allAbove(b.Name, list)
		for _, other := range list {
			if other.Name != b.Name && (above.Has(other.Name) || names.HasAny(targetNames(other)...)) {
				q.Add(passes.Request(other))
			}
		}
	})
}

// pods requests passes over the Balancers that select a pod that changed.
func (t *triggers) pods() handler.EventHandler {
	return passes.Each(func(ctx context.Context, pod *v1.Pod, q passes.Queue) {
		list, err := t.balancers.list(ctx, client.InNamespace(pod.Namespace))
		if err != nil {
			return // as in target
		}
		for _, b := range list {
			if selects(&b.Spec.Selector, pod.Labels) {
				q.AddAfter(passes.Request(b), passes.ChangeDelay)
			}
		}
	})
}

// matters reports whether an update of a pod may change a decision.
func matters(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1.Pod)
	after, okay := e.ObjectNew.(*v1.Pod)
	return ok && okay && (podhealth.Assess(before) != podhealth.Assess(after) || !maps.Equal(before.Labels, after.Labels))
}

func targetNames(o client.Object) []string {
	b, err := parse(o)
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range b.Spec.Targets {
		names = append(names, t.ScaleTargetRef.Name)
	}
	return names
}
