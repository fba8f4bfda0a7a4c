package reconcile

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/podcache"
)

// settle is the delay of a pass after a change of a pod: pods seldom change alone. Costs are to stand
// before the set is scaled down.
const settle = 200 * time.Millisecond

// vacated is the delay after a pod has gone: a set that is scaled down is looked at when that is done,
// and a pod that is replaced leaves its level to the next one.
const vacated = 2 * time.Second

// triggers requests passes over the ReplicaSets that a change may matter to.
type triggers struct{ *reconciler }

// sets requests a pass over a ReplicaSet that is new or gone, or whose annotation changed.
func (t *triggers) sets() handler.EventHandler {
	return passes.When(asksElse, func(_ context.Context, o client.Object, q passes.Queue) { q.Add(passes.Request(o)) })
}

// workloads requests passes over the ReplicaSets of a Deployment whose annotation changed.
func (t *triggers) workloads() handler.EventHandler {
	return passes.When(asksElse, func(ctx context.Context, o client.Object, q passes.Queue) {
		for _, rs := range t.setsOf(ctx, o.GetNamespace(), o.GetUID()) {
			q.Add(passes.Request(&rs))
		}
	})
}

// namespaces requests passes over the ReplicaSets of a namespace whose annotation changed.
func (t *triggers) namespaces() handler.EventHandler {
	return passes.When(asksElse, func(ctx context.Context, o client.Object, q passes.Queue) {
		for _, rs := range t.reconciler.sets(ctx, client.InNamespace(o.GetName())) {
			q.Add(passes.Request(&rs))
		}
	})
}

// asksElse reports whether the annotation of an object has changed.
func asksElse(before, after client.Object) bool {
	was, had := before.GetAnnotations()[deletioncost.Annotation]
	is, has := after.GetAnnotations()[deletioncost.Annotation]
	return was != is || had != has
}

// pods requests passes over the ReplicaSet of a pod that changed, and over those that count it.
func (t *triggers) pods() handler.EventHandler { return passes.When(podcache.Differ, t.pod) }

func (t *triggers) pod(ctx context.Context, pod *v1.Pod, q passes.Queue) {
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

// nodes requests passes over the ReplicaSets with pods on a node that is new or has changed for them.
func (t *triggers) nodes() handler.EventHandler {
	return passes.When(func(before, after *v1.Node) bool {
		return !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
	}, func(ctx context.Context, node *v1.Node, q passes.Queue) {
		pods, err := t.reconciler.pods(ctx, nil, client.MatchingFields{byNode: node.Name})
		if err != nil {
			return // the cache has not started or has stopped: there are no passes then
		}
		for _, pod := range pods {
			t.pod(ctx, pod, q)
		}
	})
}
