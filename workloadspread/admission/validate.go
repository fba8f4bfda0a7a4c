package admission

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
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
	errs, err := s.problems(ctx, r, object, old)
	if err != nil {
		return nil, err
	}
	if len(errs) == 0 {
		if r.Operation == admissionv1.Create && !dryRun(r) && s.o.Cover != nil {
			return nil, s.o.Cover(ctx, r.Namespace)
		}
		return nil, nil
	}
	s.o.Metrics.refused(reasonSpec)
	return nil, &refusal{apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.Group, Kind: v1alpha1.KindWorkloadSpread}, object.Name, errs).ErrStatus}
}

func (s *Server) problems(ctx context.Context, r *admissionv1.AdmissionRequest, object, old *v1alpha1.WorkloadSpread) (field.ErrorList, error) {
	errs, err := s.unknown(object)
	if err != nil || len(errs) > 0 {
		return errs, err
	}
	workload, err := targetObject(ctx, s.live, object)
	if err != nil && !apierrors.IsForbidden(err) { // what may not be read is not known
		return nil, err
	}
	template, selector := templateOf(workload)
	errs = workloadspread.Validate(&object.Spec, template)
	if len(errs) == 0 && template != nil {
		errs = append(errs, fitting(object, template, selector)...)
	}
	if r.Operation == admissionv1.Update {
		errs = append(errs, workloadspread.ValidateUpdate(&object.Spec, &old.Spec)...)
	} else {
		others := &v1alpha1.WorkloadSpreadList{}
		if err := s.live.List(ctx, others, client.InNamespace(object.Namespace)); err != nil {
			return nil, fmt.Errorf("listing the WorkloadSpreads of namespace %s: %w", object.Namespace, err)
		}
		errs = append(errs, workloadspread.ValidateTarget(object, others.Items)...)
	}
	return errs, nil
}

// templateOf is the template of the pods of a workload, and how it finds them; nil if it does not have
// one.
func templateOf(workload *unstructured.Unstructured) (*v1.PodTemplateSpec, labels.Selector) {
	if workload == nil {
		return nil, nil
	}
	found, ok, _ := unstructured.NestedMap(workload.Object, "spec", "template") // another type is none
	template := &v1.PodTemplateSpec{}
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(found, template) != nil || len(template.Spec.Containers) == 0 {
		return nil, nil
	}
	return template, workloadspread.SelectorOf(workload.Object)
}

// fitting checks the patches against how the workload finds its pods.
func fitting(object *v1alpha1.WorkloadSpread, template *v1.PodTemplateSpec, selector labels.Selector) (errs field.ErrorList) {
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	for i := range object.Spec.Subsets {
		subset := &object.Spec.Subsets[i]
		if _, err := workloadspread.Inject(pod, subset, workloadspread.Assignment{}, selector); err != nil {
			errs = append(errs, field.Invalid(patchOf(i), "", err.Error()))
		}
	}
	return errs
}

func patchOf(i int) *field.Path { return field.NewPath("spec", "subsets").Index(i).Child("patch") }

// unknown refuses a target of a kind or version that the API server does not serve.
func (s *Server) unknown(object *v1alpha1.WorkloadSpread) (field.ErrorList, error) {
	ref := object.Spec.TargetRef
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	_, err := s.live.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case err == nil:
		return nil, nil
	case meta.IsNoMatchError(err):
		return field.ErrorList{field.Invalid(field.NewPath("spec", "targetRef"), ref.APIVersion+" "+ref.Kind, "is not served: there is no such kind, or not in this version")}, nil
	}
	return nil, fmt.Errorf("looking up the kind %s: %w", ref.Kind, err)
}
