package reconcile

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

const (
	// delay is that of a pass after a change of a pod: pods seldom change alone. Costs are to stand
	// before the set is scaled down.
	delay = 500 * time.Millisecond
	// vacated is the delay after a pod has gone: a set that is scaled down is looked at when that is done,
	// and a pod that is replaced leaves its level to the next one.
	vacated = 2 * time.Second
)

// askedBy requests passes over the ReplicaSets of an object whose annotation changed.
func (r *reconciler) askedBy(sets func(client.Object) []client.ListOption) handler.EventHandler {
	return passes.When(asksElse, func(ctx context.Context, o client.Object, q passes.Queue) {
		for _, rs := range r.sets(ctx, sets(o)...) {
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

// podChanged requests passes over the ReplicaSet of a pod, and over those that count it.
func (r *reconciler) podChanged(ctx context.Context, pod *v1.Pod, q passes.Queue) {
	own := types.NamespacedName{Namespace: pod.Namespace}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == kindReplicaSet {
		own.Name = ref.Name
		after := delay
		if pod.DeletionTimestamp != nil {
			after = vacated
		}
		if pod.Annotations[deletioncost.AnnotationWritten] != "" || r.asks(ctx, own) {
			q.AddAfter(reconcile.Request{NamespacedName: own}, after)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, k := range r.known {
		if key.Namespace == pod.Namespace && key != own && k.counts != nil && k.counts(pod) {
			q.AddAfter(reconcile.Request{NamespacedName: key}, delay)
		}
	}
}

// asks reports whether anything is asked for a ReplicaSet.
func (r *reconciler) asks(ctx context.Context, key types.NamespacedName) bool {
	rs, err := r.metadata(ctx, kindReplicaSet, key.Namespace, key.Name)
	if err != nil {
		return false // its own event leads to a pass
	}
	_, asked, _ := r.asked(ctx, rs)
	return asked != deletioncost.None
}
