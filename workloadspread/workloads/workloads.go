// Package workloads reads what decisions about WorkloadSpreads are made from: their workloads, and the pods that
// belong to each. It also asks the API server whether it would create the pods of a workload with the patches of
// a WorkloadSpread: its validation, Pod Security, limits and policies answer. Nothing is created.
//
// The package knows neither webhooks nor statuses.
package workloads

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Get reads the workload of a WorkloadSpread, in another version if its own is not served any more. The
// object is nil if there is none, the resource empty if there is no such kind.
func Get(ctx context.Context, live client.Reader, mapper meta.RESTMapper,
	o *v1alpha1.WorkloadSpread) (*unstructured.Unstructured, schema.GroupVersionResource, error) {
	ref, object := o.Spec.TargetRef, &unstructured.Unstructured{}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = mapper.RESTMapping(kind.GroupKind())
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, schema.GroupVersionResource{}, nil
	case err != nil:
		return nil, schema.GroupVersionResource{}, fmt.Errorf("finding the resource of %s: %w", ref.Kind, err)
	}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	err = live.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: ref.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, mapping.Resource, nil
	case err != nil:
		return nil, mapping.Resource, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return object, mapping.Resource, nil
}

// Among reports whether the workload of a WorkloadSpread is among the controllers of a pod.
func Among(o *v1alpha1.WorkloadSpread, above []owners.Owner) bool {
	kind := schema.FromAPIVersionAndKind(o.Spec.TargetRef.APIVersion, o.Spec.TargetRef.Kind).GroupKind()
	return slices.ContainsFunc(above, func(a owners.Owner) bool { return a.Name == o.Spec.TargetRef.Name && a.GroupKind == kind })
}

// Claimants are the WorkloadSpreads, of all of a namespace, that pods below some controllers may belong to, in the order of their
// names. Those that are invalid or being deleted, or whose workload another one has, have no pods.
func Claimants(all []v1alpha1.WorkloadSpread, above []owners.Owner) (found []*v1alpha1.WorkloadSpread) {
	for i := range all {
		if o := &all[i]; o.DeletionTimestamp == nil && Among(o, above) && workloadspread.Refused(o, all) == "" &&
			len(workloadspread.Validate(&o.Spec, nil)) == 0 {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b *v1alpha1.WorkloadSpread) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// First is the WorkloadSpread that a pod belongs to: the first whose filter selects it; nil if there is none.
func First(claimants []*v1alpha1.WorkloadSpread, pod *v1.Pod) *v1alpha1.WorkloadSpread {
	for _, o := range claimants {
		if selector, err := workloadspread.FilterOf(&o.Spec); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			return o
		}
	}
	return nil
}

// Reader finds pods and the WorkloadSpreads that they belong to. What a cache answers is shared with it, and
// must not be changed.
type Reader struct {
	// Spreads has the WorkloadSpreads, Pods the pods.
	Spreads, Pods client.Reader
	Owners        *owners.Owners
}

// SpreadsIn are the WorkloadSpreads of a namespace.
func (r *Reader) SpreadsIn(ctx context.Context, namespace string) ([]v1alpha1.WorkloadSpread, error) {
	var list v1alpha1.WorkloadSpreadList
	if err := r.Spreads.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the WorkloadSpreads of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// PodsOf are the pods that belong to a WorkloadSpread, and the names of those that have others of the pods that
// it selects. The selector is how the workload finds its pods; nil if that is not known. A pod with a controller
// that is not below the workload does not count, whatever its annotation says.
func (r *Reader) PodsOf(ctx context.Context, o *v1alpha1.WorkloadSpread,
	selector labels.Selector) (pods []*v1.Pod, ahead []string, err error) {
	all, err := r.SpreadsIn(ctx, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	if selector == nil {
		selector = labels.Everything()
	}
	var list v1.PodList
	if err := r.Pods.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the pods of %s %s: %w", o.Spec.TargetRef.Kind, o.Spec.TargetRef.Name, err)
	}
	type reference struct {
		apiVersion, kind, name string
		uid                    types.UID
	}
	claims := map[reference][]*v1alpha1.WorkloadSpread{} // of its pods; the last one is this one
	for i := range list.Items {
		pod := &list.Items[i]
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			continue
		}
		key := reference{ref.APIVersion, ref.Kind, ref.Name, ref.UID}
		claimants, known := claims[key]
		if !known {
			above, err := r.Owners.Of(ctx, o.Namespace, ref)
			if client.IgnoreNotFound(err) != nil {
				return nil, nil, err
			}
			if Among(o, above) {
				claimants = slices.DeleteFunc(Claimants(all, above), func(c *v1alpha1.WorkloadSpread) bool { return c.Name >= o.Name })
				claimants = append(claimants, o)
			}
			claims[key] = claimants
		}
		switch owner := First(claimants, pod); {
		case owner == o:
			pods = append(pods, pod)
		case owner != nil && First([]*v1alpha1.WorkloadSpread{o}, pod) != nil && !slices.Contains(ahead, owner.Name):
			ahead = append(ahead, owner.Name)
		}
	}
	return pods, ahead, nil
}
