package reconcile

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/podcache"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

// Name is the name of the controller in flags, logs and metrics.
const Name = "deletioncost"

const (
	// DefaultWritesPerSecond is how many pods are written per second, over all ReplicaSets.
	DefaultWritesPerSecond = 50
	// burst is for how many seconds writes that were not made are saved up.
	burst = 4

	// byOwner is the index of pods and of ReplicaSets by the UID of their controller.
	byOwner = "deletioncost.controller.uid"

	kindReplicaSet, kindDeployment, kindNamespace = "ReplicaSet", "Deployment", "Namespace"
)

// Options of a Controller. The zero value works.
type Options struct {
	// Cluster holds where neither a workload nor its namespace says otherwise. Empty means None.
	Cluster deletioncost.Request
	// WritesPerSecond is how many pods are written per second; 0 means DefaultWritesPerSecond.
	WritesPerSecond float64
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
	// PerNamespace leaves annotations of namespaces unread, for a manager that may not watch all of
	// them.
	PerNamespace bool
}

// Controller writes deletion costs for the ReplicaSets of a manager.
type Controller struct{ options Options }

// New returns a Controller. It does nothing until it is set up and its manager runs.
func New(o Options) *Controller {
	o.WritesPerSecond = cmp.Or(o.WritesPerSecond, DefaultWritesPerSecond)
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	return &Controller{options: o}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// SetupWithManager registers the controller and what it watches.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	r := newReconciler(mgr.GetClient(), passes.Recorder{EventRecorder: mgr.GetEventRecorder("evenkeel-" + Name), Action: "OrderDeletion"},
		c.options)
	informed := []client.Object{&v1.Pod{}, metadata(kindReplicaSet), metadata(kindDeployment)}
	b := builder.ControllerManagedBy(mgr).Named(Name).WithOptions(passes.Retrying()).
		Watches(informed[0], passes.When(podcache.Differ, r.podChanged)).
		Watches(informed[1], passes.When(asksElse, func(_ context.Context, o client.Object, q passes.Queue) { q.Add(passes.Request(o)) })).
		Watches(informed[2], r.askedBy(ownedBy))
	if !c.options.PerNamespace {
		informed = append(informed, metadata(kindNamespace))
		b = b.Watches(informed[3],
			r.askedBy(func(o client.Object) []client.ListOption { return []client.ListOption{client.InNamespace(o.GetName())} }))
	}
	if err := passes.IndexByController(mgr, byOwner, &v1.Pod{}, metadata(kindReplicaSet)); err != nil {
		return err
	}
	if err := passes.Inform(mgr, informed...); err != nil {
		return err
	}
	return b.Complete(r)
}

// metadata is an object of a kind of which only the metadata is read.
func metadata(kind string) *metav1.PartialObjectMetadata {
	group := appsv1.SchemeGroupVersion
	if kind == kindNamespace {
		group = v1.SchemeGroupVersion
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(group.WithKind(kind))
	return o
}

// Trim is a transform for a cache of ReplicaSets, Deployments and namespaces. Of metadata it keeps
// what this package reads; other objects lose their managed fields only.
func Trim(object any) (any, error) {
	if o, ok := object.(*metav1.PartialObjectMetadata); ok {
		value, asks := o.Annotations[deletioncost.Annotation]
		o.Labels, o.Annotations, o.Finalizers = nil, nil, nil
		if asks {
			o.Annotations = map[string]string{deletioncost.Annotation: value}
		}
	}
	return cache.TransformStripManagedFields()(object)
}
