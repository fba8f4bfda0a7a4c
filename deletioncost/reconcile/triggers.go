package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/deletioncost"
)

// settle is the delay of a pass after a change of a pod: pods seldom change alone. Costs are to stand
// before the set is scaled down.
const settle = 200 * time.Millisecond

// vacated is the delay after a pod has gone: a set that is scaled down is looked at when that is done,
// and a pod that is replaced leaves its level to the next one.
const vacated = 2 * time.Second

// queue takes requests for passes over ReplicaSets.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// triggers requests passes over the ReplicaSets that a change may matter to.
type triggers struct{ *reconciler }

func request(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

// sets requests a pass over a ReplicaSet that is new or gone, or whose annotation changed.
func (t *triggers) sets() handler.EventHandler {
	return onChange(func(_ context.Context, o client.Object, q queue) { q.Add(request(o)) })
}

// workloads requests passes over the ReplicaSets of a Deployment whose annotation changed.
func (t *triggers) workloads() handler.EventHandler {
	return onChange(func(ctx context.Context, o client.Object, q queue) {
		for _, rs := range t.setsOf(ctx, o.GetNamespace(), o.GetUID()) {
			q.Add(request(&rs))
		}
	})
}

// namespaces requests passes over the ReplicaSets of a namespace whose annotation changed.
func (t *triggers) namespaces() handler.EventHandler {
	return onChange(func(ctx context.Context, o client.Object, q queue) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(metadata("ReplicaSet").GroupVersionKind())
		if err := t.cached.List(ctx, list, client.InNamespace(o.GetName())); err != nil {
			return // the cache has not started or has stopped: there are no passes then
		}
		for i := range list.Items {
			q.Add(request(&list.Items[i]))
		}
	})
}

// onChange handles objects that are new or gone, and updates of the annotation.
func onChange(enqueue func(context.Context, client.Object, queue)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, had := e.ObjectOld.GetAnnotations()[deletioncost.Annotation]
			after, has := e.ObjectNew.GetAnnotations()[deletioncost.Annotation]
			if before != after || had != has {
				enqueue(ctx, e.ObjectNew, q)
			}
		},
	}
}

// pods requests passes over the ReplicaSet of a pod that changed, and over those that count it.
func (t *triggers) pods() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { t.pod(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { t.pod(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if matters(e) {
				t.pod(ctx, e.ObjectNew, q)
			}
		},
	}
}

func (t *triggers) pod(ctx context.Context, o client.Object, q queue) {
	pod, ok := o.(*v1.Pod)
	if !ok {
		return
	}
	own := types.NamespacedName{}
	if ref := controllerOf(pod); ref != nil {
		own = types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}
		pause := t.state.pause(own)
		if pod.DeletionTimestamp != nil {
			pause = max(pause, vacated)
		}
		if t.asks(ctx, own) || pod.Annotations[deletioncost.AnnotationWritten] != "" {
			q.AddAfter(reconcile.Request{NamespacedName: own}, pause)
		}
	}
	for _, key := range t.state.counting(pod, own) {
		q.AddAfter(reconcile.Request{NamespacedName: key}, t.state.pause(key))
	}
}

// controllerOf is the ReplicaSet of a pod; nil if it has none.
func controllerOf(pod *v1.Pod) *metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == "ReplicaSet" {
		return ref
	}
	return nil
}

// matters reports whether an update of a pod may change a decision.
func matters(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1.Pod)
	after, okay := e.ObjectNew.(*v1.Pod)
	if !ok || !okay {
		return false
	}
	return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName || before.Status.Phase != after.Status.Phase ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || readiness(before) != readiness(after) ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) || !slices.Equal(ownerOf(before), ownerOf(after))
}

func readiness(pod *v1.Pod) v1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status
		}
	}
	return ""
}

// nodes requests passes over the ReplicaSets with pods on a node that is new or has changed for them.
func (t *triggers) nodes() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { t.node(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*v1.Node)
			after, okay := e.ObjectNew.(*v1.Node)
			if ok && okay && (!maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)) {
				t.node(ctx, after, q)
			}
		},
	}
}

func (t *triggers) node(ctx context.Context, node client.Object, q queue) {
	pods, err := t.reconciler.pods(ctx, nil, client.MatchingFields{byNode: node.GetName()})
	if err != nil {
		return // the cache has not started or has stopped: there are no passes then
	}
	for _, pod := range pods {
		t.pod(ctx, pod, q)
	}
}
