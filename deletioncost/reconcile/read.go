package reconcile

import (
	"context"
	"fmt"
	"slices"

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

// asked returns what is asked for a ReplicaSet, and the workload to which it belongs: its Deployment,
// or else the ReplicaSet itself. The annotations of a Deployment hold instead of those that it once
// copied to its ReplicaSets.
func (r *reconciler) asked(ctx context.Context,
	rs *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, deletioncost.Request, error) {
	workload := rs
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil && ref.Kind == kindDeployment {
		if d, err := r.metadata(ctx, ref.Kind, rs.Namespace, ref.Name); err == nil && d.UID == ref.UID {
			workload = d
		}
	}
	var of map[string]string
	if !r.options.PerNamespace {
		if n, err := r.metadata(ctx, kindNamespace, "", rs.Namespace); err == nil {
			of = n.Annotations
		}
	}
	asked, err := deletioncost.Resolve(workload.Annotations, of, r.options.Cluster)
	return workload, asked, err
}

// ownedBy selects the objects that have another one as their controller.
func ownedBy(o client.Object) []client.ListOption {
	return []client.ListOption{client.InNamespace(o.GetNamespace()), client.MatchingFields{byOwner: string(o.GetUID())}}
}

// input is what a decision about a ReplicaSet rests on, and which pods of others it counts.
func (r *reconciler) input(ctx context.Context, rs *metav1.PartialObjectMetadata, asked deletioncost.Request,
	pods []*v1.Pod) (in *deletioncost.Input, counts func(*v1.Pod) bool, err error) {
	in = &deletioncost.Input{Request: asked, Pods: pods}
	if in.Nodes, err = r.nodes(ctx); err != nil || len(pods) == 0 {
		return in, nil, err
	}
	if counts = deletioncost.Counts(pods[0]); counts == nil {
		return in, nil, nil
	}
	own := map[types.UID]bool{rs.UID: true}
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
		for _, revision := range r.sets(ctx, client.InNamespace(rs.Namespace), client.MatchingFields{byOwner: string(ref.UID)}) {
			own[revision.UID] = true
		}
	}
	all, err := r.pods(ctx, client.InNamespace(rs.Namespace))
	in.Others = slices.DeleteFunc(all, func(p *v1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(p)
		return ref != nil && own[ref.UID] || !counts(p)
	})
	return in, counts, err
}

// pods reads pods. They are shared and must not be changed.
func (r *reconciler) pods(ctx context.Context, options ...client.ListOption) ([]*v1.Pod, error) {
	var list v1.PodList
	if err := r.cached.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("reading pods: %w", err)
	}
	return pointers(list.Items), nil
}

// nodes reads all nodes, which are watched from the first call on.
func (r *reconciler) nodes(ctx context.Context) ([]*v1.Node, error) {
	var list v1.NodeList
	if err := r.cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	return pointers(list.Items), nil
}

func pointers[T any](all []T) []*T {
	out := make([]*T, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

func (r *reconciler) sets(ctx context.Context, options ...client.ListOption) []metav1.PartialObjectMetadata {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(metadata(kindReplicaSet).GroupVersionKind())
	if err := r.cached.List(ctx, list, options...); err != nil {
		return nil // the cache has not started or has stopped: there are no passes then
	}
	return list.Items
}
