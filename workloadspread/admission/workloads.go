package admission

import (
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
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// facts are what the decisions of a round rest on besides the WorkloadSpread.
type facts struct {
	workloadspread.Workload
	err     error // why the workload cannot be read
	counted bool  // the status has been recounted
}

// facts reads the workload, once in a round: pods that come at the same time share the read.
func (s *Server) facts(round *store.Round, o *v1alpha1.WorkloadSpread) (*facts, error) {
	known, ok := round.Facts.(*facts)
	if ok {
		return known, known.err
	}
	known = &facts{}
	round.Facts = known
	object, err := targetObject(round.Context, s.live, o)
	if err == nil && object != nil {
		if known.Workload, err = workloadspread.Observe(&o.Spec, object.Object); err != nil {
			err = fmt.Errorf("reading the replicas of %s %s: %w", o.Spec.TargetRef.Kind, o.Spec.TargetRef.Name, err)
		}
	}
	known.err = err
	return known, err
}

// podsOf reads the pods of the workload that belong to the WorkloadSpread. A pod with a controller that
// is not below the workload does not, whatever its annotation says.
func (s *Server) podsOf(ctx context.Context, o *v1alpha1.WorkloadSpread, known *facts) ([]*v1.Pod, error) {
	list, selector := &v1.PodList{}, known.Selector
	if selector == nil {
		selector = labels.Everything()
	}
	if err := s.live.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing the pods of %s %s: %w", o.Spec.TargetRef.Kind, o.Spec.TargetRef.Name, err)
	}
	target, out, below := targetOf(o)[0], []*v1.Pod{}, map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil || !selects(o, pod) {
			continue
		}
		if _, seen := below[ref.UID]; !seen {
			above, err := s.owners.Of(ctx, o.Namespace, ref)
			if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			below[ref.UID] = slices.ContainsFunc(above, func(a owners.Owner) bool { return indexed(a.GroupKind, a.Name) == target })
		}
		if below[ref.UID] {
			out = append(out, pod)
		}
	}
	return out, nil
}

// targetObject is the target of a WorkloadSpread, in another version if its own is not served any more;
// nil if it does not exist.
func targetObject(ctx context.Context, live client.Client, o *v1alpha1.WorkloadSpread) (*unstructured.Unstructured, error) {
	ref, object := o.Spec.TargetRef, &unstructured.Unstructured{}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := live.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = live.RESTMapper().RESTMapping(kind.GroupKind())
	}
	if err == nil {
		object.SetGroupVersionKind(mapping.GroupVersionKind)
		err = live.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: ref.Name}, object)
	}
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return object, nil
}
