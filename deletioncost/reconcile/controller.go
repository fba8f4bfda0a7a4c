package reconcile

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
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
	// byNode is the index of pods by their node.
	byNode = "deletioncost.node"
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
	return &Controller{options: o}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// SetupWithManager registers the controller and what it watches.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	o := c.options
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	for _, kind := range []client.Object{&v1.Pod{}, metadata("ReplicaSet")} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), kind, byOwner, ownerOf); err != nil {
			return fmt.Errorf("indexing objects by their controllers: %w", err)
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1.Pod{}, byNode, nodeOf); err != nil {
		return fmt.Errorf("indexing pods by their nodes: %w", err)
	}
	informed := []client.Object{&v1.Pod{}, metadata("ReplicaSet"), metadata("Deployment")}
	if !o.PerNamespace {
		informed = append(informed, metadata("Namespace"))
	}
	if err := passes.Inform(mgr, informed...); err != nil {
		return err
	}
	r := newReconciler(mgr.GetClient(), passes.Recorder{EventRecorder: mgr.GetEventRecorder("evenkeel-" + Name), Action: "OrderDeletion"}, o)
	on := &triggers{r}
	b := builder.ControllerManagedBy(mgr).Named(Name).
		Watches(metadata("ReplicaSet"), on.sets()).
		Watches(metadata("Deployment"), on.workloads()).
		Watches(&v1.Pod{}, on.pods())
	if !o.PerNamespace {
		b = b.Watches(metadata("Namespace"), on.namespaces())
	}
	running, err := b.WithOptions(passes.Retrying()).Build(r)
	if err != nil {
		return err
	}
	staying := predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}
	r.watchNodes = func() error {
		return running.Watch(source.Kind[client.Object](mgr.GetCache(), &v1.Node{}, on.nodes(), staying))
	}
	return nil
}

// metadata is an object of a kind of which only the metadata is read.
func metadata(kind string) *metav1.PartialObjectMetadata {
	group := appsv1.SchemeGroupVersion
	if kind == "Namespace" {
		group = v1.SchemeGroupVersion
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(group.WithKind(kind))
	return o
}

// ownerOf are the values of the index.
func ownerOf(o client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

func nodeOf(o client.Object) []string {
	if pod, ok := o.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// Trim is a transform for a cache of ReplicaSets, Deployments and namespaces. Of metadata it keeps
// what this package reads; other objects lose their managed fields only.
func Trim(object any) (any, error) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return cache.TransformStripManagedFields()(object)
	}
	out := &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, OwnerReferences: o.OwnerReferences,
	}}
	if value, asks := o.Annotations[deletioncost.Annotation]; asks {
		out.Annotations = map[string]string{deletioncost.Annotation: value}
	}
	return out, nil
}
