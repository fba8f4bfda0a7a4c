package reconcile

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/deletioncost"
)

// metadata reads an object from the cache.
func (r *reconciler) metadata(ctx context.Context, kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	o := metadata(kind)
	if err := r.cached.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, o); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	return o, nil
}

// asks reports whether anything is asked for a ReplicaSet.
func (r *reconciler) asks(ctx context.Context, key types.NamespacedName) bool {
	rs, err := r.metadata(ctx, "ReplicaSet", key.Namespace, key.Name)
	if err != nil {
		return false // its own event leads to a pass
	}
	_, asked, _ := r.asked(ctx, rs)
	return asked != deletioncost.None
}

// asked returns what is asked for a ReplicaSet, and the workload to which it belongs: its Deployment,
// or else the ReplicaSet itself. The annotations of a Deployment hold instead of those that it once
// copied to its ReplicaSets.
func (r *reconciler) asked(ctx context.Context, rs *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, deletioncost.Request, error) {
	workload := rs
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil && ref.Kind == "Deployment" {
		if d, err := r.metadata(ctx, ref.Kind, rs.Namespace, ref.Name); err == nil && d.UID == ref.UID {
			workload = d
		}
	}
	var of map[string]string
	if !r.options.PerNamespace {
		if n, err := r.metadata(ctx, "Namespace", "", rs.Namespace); err == nil {
			of = n.Annotations
		}
	}
	asked, err := deletioncost.Resolve(workload.Annotations, of, r.options.Cluster)
	return workload, asked, err
}

// podsOf are the pods of a ReplicaSet. They are shared and must not be changed.
func (r *reconciler) podsOf(ctx context.Context, namespace string, uid types.UID) ([]*v1.Pod, error) {
	return r.pods(ctx, nil, client.InNamespace(namespace), client.MatchingFields{byOwner: string(uid)})
}

// others are the pods of other workloads that the constraints of a ReplicaSet count.
func (r *reconciler) others(ctx context.Context, key types.NamespacedName, workload client.Object, counts func(*v1.Pod) bool) ([]*v1.Pod, error) {
	own := map[string]bool{key.Name: true}
	for _, rs := range r.setsOf(ctx, key.Namespace, workload.GetUID()) {
		own[rs.Name] = true
	}
	return r.pods(ctx, func(p *v1.Pod) bool {
		ref := controllerOf(p)
		return (ref == nil || !own[ref.Name]) && counts(p)
	}, client.InNamespace(key.Namespace))
}

func (r *reconciler) pods(ctx context.Context, which func(*v1.Pod) bool, options ...client.ListOption) ([]*v1.Pod, error) {
	var list v1.PodList
	if err := r.cached.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("reading pods: %w", err)
	}
	var out []*v1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; which == nil || which(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// setsOf are the ReplicaSets of a Deployment.
func (r *reconciler) setsOf(ctx context.Context, namespace string, uid types.UID) []metav1.PartialObjectMetadata {
	return r.sets(ctx, client.InNamespace(namespace), client.MatchingFields{byOwner: string(uid)})
}

func (r *reconciler) sets(ctx context.Context, options ...client.ListOption) []metav1.PartialObjectMetadata {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(metadata("ReplicaSet").GroupVersionKind())
	if err := r.cached.List(ctx, list, options...); err != nil {
		return nil // the cache has not started or has stopped: there are no passes then
	}
	return list.Items
}

// nodes are all nodes, which are watched from the first call on.
func (r *reconciler) nodes(ctx context.Context) ([]*v1.Node, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.watching {
		if err := r.watchNodes(); err != nil {
			return nil, fmt.Errorf("watching nodes: %w", err)
		}
		r.watching = true
	}
	var list v1.NodeList
	if err := r.cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	out := make([]*v1.Node, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}
