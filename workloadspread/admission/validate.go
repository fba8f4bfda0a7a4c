package admission

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// validateSpread refuses a WorkloadSpread that is invalid. A change of other things than the spec is
// not looked at, so that an object that was stored before can be labelled and deleted.
func (s *Server) validateSpread(ctx context.Context, r *admissionv1.AdmissionRequest) ([]byte, error) {
	if r.SubResource != "" || r.Operation != admissionv1.Create && r.Operation != admissionv1.Update {
		return nil, nil
	}
	object, old := &v1alpha1.WorkloadSpread{}, &v1alpha1.WorkloadSpread{}
	if err := json.Unmarshal(r.Object.Raw, object); err != nil {
		return nil, fmt.Errorf("reading the WorkloadSpread: %w", err)
	}
	object.Namespace = r.Namespace
	if r.Operation == admissionv1.Update {
		if err := json.Unmarshal(r.OldObject.Raw, old); err != nil {
			return nil, fmt.Errorf("reading the old WorkloadSpread: %w", err)
		}
		if object.DeletionTimestamp != nil || equality.Semantic.DeepEqual(object.Spec, old.Spec) {
			return nil, nil
		}
	}
	errs, err := s.problems(ctx, object, r.Operation == admissionv1.Create)
	if err != nil {
		return nil, err
	}
	if len(errs) == 0 {
		if r.Operation == admissionv1.Create && !dryRun(r) && s.o.Cover != nil {
			return nil, s.o.Cover(ctx, r.Namespace)
		}
		return nil, nil
	}
	s.o.Metrics.refusals.WithLabelValues(reasonSpec).Inc()
	return nil, &refusal{apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.Group, Kind: v1alpha1.KindWorkloadSpread}, object.Name,
		errs).ErrStatus}
}

func (s *Server) problems(ctx context.Context, object *v1alpha1.WorkloadSpread, isNew bool) (field.ErrorList, error) {
	errs, err := s.unknown(object)
	if err != nil || len(errs) > 0 {
		return errs, err
	}
	workload, _, err := workloads.Get(ctx, s.live, s.live.RESTMapper(), object)
	if err != nil && !apierrors.IsForbidden(err) { // what may not be read is not known
		return nil, err
	}
	errs = workloadspread.Validate(&object.Spec, workloads.TemplateOf(workload))
	if len(errs) == 0 {
		problems := workloads.Problems(ctx, s.live, object, workload)
		for i := range object.Spec.Subsets {
			if problem := problems[object.Spec.Subsets[i].Name]; problem != "" {
				errs = append(errs, field.Invalid(field.NewPath("spec", "subsets").Index(i).Child("patch"), "", problem))
			}
		}
	}
	if isNew { // the schema keeps a target from being changed
		others := &v1alpha1.WorkloadSpreadList{}
		if err := s.live.List(ctx, others, client.InNamespace(object.Namespace)); err != nil {
			return nil, fmt.Errorf("listing the WorkloadSpreads of namespace %s: %w", object.Namespace, err)
		}
		errs = append(errs, workloadspread.ValidateTarget(object, others.Items)...)
	}
	return errs, nil
}

// unknown refuses a target of a kind or version that the API server does not serve.
func (s *Server) unknown(object *v1alpha1.WorkloadSpread) (field.ErrorList, error) {
	ref := object.Spec.TargetRef
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	_, err := s.live.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case err == nil:
		return nil, nil
	case meta.IsNoMatchError(err):
		return field.ErrorList{field.Invalid(field.NewPath("spec", "targetRef"), ref.APIVersion+" "+ref.Kind,
			"is not served: there is no such kind, or not in this version")}, nil
	}
	return nil, fmt.Errorf("looking up the kind %s: %w", ref.Kind, err)
}
