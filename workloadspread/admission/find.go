package admission

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// targetIndex is the index of WorkloadSpreads by their target.
const targetIndex = "admission-target"

func targetOf(object client.Object) []string {
	o, ok := object.(*v1alpha1.WorkloadSpread)
	if !ok {
		return nil
	}
	ref := o.Spec.TargetRef
	version, _ := schema.ParseGroupVersion(ref.APIVersion) // an invalid one has no group
	return []string{indexed(schema.GroupKind{Group: version.Group, Kind: ref.Kind}, ref.Name)}
}

func indexed(kind schema.GroupKind, name string) string {
	return kind.Group + "/" + kind.Kind + "/" + name
}

// find returns the WorkloadSpread of a new pod, or nil: the first by name whose target is one of the
// controllers above the pod, whose filter selects the pod, and whose spec is valid. Those that are being
// deleted, or whose workload another one has, have no pods: the controller does not count them.
func (s *Server) find(ctx context.Context, pod *v1.Pod) (*v1alpha1.WorkloadSpread, error) {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return nil, nil
	}
	some, err := s.spreads(ctx, pod.Namespace, client.Limit(1))
	if err != nil || len(some) == 0 {
		return nil, err
	}
	above, err := s.owners.Of(ctx, pod.Namespace, controller)
	if apierrors.IsNotFound(err) {
		s.o.Metrics.refused(reasonOwner)
		return nil, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "metadata.ownerReferences: %s %s with UID %s or a controller above it does not exist", controller.Kind, controller.Name, controller.UID)
	}
	if err != nil {
		return nil, err
	}
	var found []v1alpha1.WorkloadSpread
	for i := range above {
		all, err := s.spreads(ctx, pod.Namespace, client.MatchingFields{targetIndex: indexed(above[i].GroupKind, above[i].Name)})
		if err != nil {
			return nil, err
		}
		found = append(found, all...)
	}
	slices.SortFunc(found, func(a, b v1alpha1.WorkloadSpread) int { return cmp.Compare(a.Name, b.Name) })
	for i := range found {
		if o := &found[i]; o.DeletionTimestamp == nil && s.valid(o) && workloadspread.Refused(o, found) == "" && selects(o, pod) {
			return &found[i], nil
		}
	}
	return nil, nil
}

// spreads are WorkloadSpreads of the cache, which must not be changed.
func (s *Server) spreads(ctx context.Context, namespace string, which client.ListOption) ([]v1alpha1.WorkloadSpread, error) {
	list := &v1alpha1.WorkloadSpreadList{}
	if err := s.cached.List(ctx, list, client.InNamespace(namespace), which, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the WorkloadSpreads of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

func selects(o *v1alpha1.WorkloadSpread, pod *v1.Pod) bool {
	selector, err := workloadspread.FilterOf(&o.Spec)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// check is whether a spec is valid.
type check struct {
	generation int64
	valid      bool
}

// valid reports whether the spec is valid; the pods of others must not suffer from one that is not.
func (s *Server) valid(o *v1alpha1.WorkloadSpread) bool {
	s.mu.Lock()
	known, ok := s.checked[o.UID]
	s.mu.Unlock()
	if !ok || known.generation != o.Generation {
		errs := workloadspread.Validate(&o.Spec, nil)
		known = check{o.Generation, len(errs) == 0}
		if !known.valid {
			s.o.Log.Info("Pods are created without this WorkloadSpread, whose spec is invalid", "namespace", o.Namespace, "name", o.Name, "problem", errs.ToAggregate().Error())
		}
		s.mu.Lock()
		s.checked[o.UID] = known
		s.mu.Unlock()
	}
	return known.valid
}
