package workloadspread

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/admission"
)

// The annotations of pods.
const (
	// AnnotationSpread says to which WorkloadSpread and subset a pod belongs.
	AnnotationSpread = "evenkeel.dev/workload-spread"
	// AnnotationCost is the deletion cost that the controller of ReplicaSets reads.
	AnnotationCost = "controller.kubernetes.io/pod-deletion-cost"
)

// Assignment is the value of AnnotationSpread.
type Assignment struct {
	// Name of the WorkloadSpread.
	Name string `json:"name"`
	// Subset is empty if no subset had room for the pod.
	Subset string `json:"subset"`
	// ID is the key of the pod in creatingPods if it is not the name.
	ID string `json:"id,omitempty"`
}

func (a Assignment) String() string {
	text, err := json.Marshal(a)
	if err != nil {
		return "" // three strings can always be marshalled
	}
	return string(text)
}

// AssignmentOf returns to what a pod belongs. It is false if there is no such annotation, or one that
// cannot be read.
func AssignmentOf(pod *v1.Pod) (Assignment, bool) {
	var a Assignment
	text, ok := pod.Annotations[AnnotationSpread]
	if !ok || json.Unmarshal([]byte(text), &a) != nil {
		return Assignment{}, false
	}
	return a, true
}

// Inject returns the pod with the rules of its subset, which is nil if no subset has room for it.
// Tolerations and preferred terms are appended; the required term is added to every term that the
// pod has, since those are alternatives; then the patch is merged. The selector is that of the
// workload: no patch takes a pod out of it. If it is nil, it is not known, and the patch may have no labels.
//
// The error says why the patch is refused: it breaks the pod, or changes what a patch must not.
func Inject(pod *v1.Pod, subset *v1alpha1.WorkloadSubset, a Assignment, selector labels.Selector) (*v1.Pod, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	return injectInto(fields, subset, a, selector)
}

// Injected is a pod with the rules of a subset.
type Injected struct {
	Pod *v1.Pod
	// Fields are those of the pod, with the ones that were sent and that only newer versions of
	// Kubernetes know.
	Fields map[string]any
}

// InjectNew injects the rules of a subset of a WorkloadSpread, whose status is that which was stored last,
// into the fields of a new pod, which stay as they are. A patch that is refused is left out if pods do
// without it then.
func InjectNew(fields map[string]any, o *v1alpha1.WorkloadSpread, i int, a Assignment, selector labels.Selector) (Injected, error) {
	var s v1alpha1.WorkloadSubset // no rules
	if i >= 0 {
		s = o.Spec.Subsets[i]
	}
	optional := s.Patch != nil && o.Spec.WhenPatchFails == v1alpha1.WhenPatchFailsAdmit
	if optional && refused(o, s.Name) {
		s.Patch = nil
	}
	for {
		out := Injected{Fields: runtime.DeepCopyJSON(fields)}
		var err error
		if out.Pod, err = injectInto(out.Fields, &s, a, selector); err == nil || s.Patch == nil || !optional {
			return out, err
		}
		s.Patch = nil
	}
}

// refused reports whether the API server refuses pods with the patch of a subset.
func refused(o *v1alpha1.WorkloadSpread, subset string) bool {
	return slices.ContainsFunc(o.Status.SubsetStatuses, func(s v1alpha1.WorkloadSubsetStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPatchFits)
		return s.Name == subset && c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == o.Generation
	})
}

func injectInto(fields map[string]any, s *v1alpha1.WorkloadSubset, a Assignment, selector labels.Selector) (*v1.Pod, error) {
	if err := unstructured.SetNestedField(fields, a.String(), "metadata", "annotations", AnnotationSpread); err != nil {
		return nil, err
	}
	var patch []byte
	if s != nil {
		if err := constrain(fields, s); err != nil {
			return nil, err
		}
		if s.Patch != nil {
			patch = s.Patch.Raw
		}
	}
	if patch == nil {
		return podOf(fields)
	}
	pod, err := merge(fields, patch, selector, true)
	if err != nil {
		return nil, fmt.Errorf("the patch of subset %s: %w", s.Name, err)
	}
	return pod, nil
}

// constrain adds the node selectors and tolerations of a subset.
func constrain(pod map[string]any, s *v1alpha1.WorkloadSubset) error {
	nodes := []string{"spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"}
	if err := errors.Join(extend(pod, s.Tolerations, "spec", "tolerations"), extend(pod, s.PreferredNodeSelector, nodes...)); err != nil ||
		s.RequiredNodeSelector == nil {
		return err
	}
	at := append(nodes[:3:3], "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	terms, _, err := unstructured.NestedSlice(pod, at...)
	if err != nil || len(terms) == 0 {
		return errors.Join(err, extend(pod, []v1.NodeSelectorTerm{*s.RequiredNodeSelector}, at...))
	}
	for i := range terms {
		term, _ := terms[i].(map[string]any)
		if len(term) == 0 {
			continue // an empty term matches no node, and is to match none
		}
		if err := errors.Join(extend(term, s.RequiredNodeSelector.MatchExpressions, "matchExpressions"),
			extend(term, s.RequiredNodeSelector.MatchFields, "matchFields")); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(pod, terms, at...)
}

// extend appends to a list.
func extend[T any](fields map[string]any, more []T, at ...string) error {
	if len(more) == 0 {
		return nil
	}
	list, _, err := unstructured.NestedSlice(fields, at...)
	for i := range more {
		one, problem := runtime.DefaultUnstructuredConverter.ToUnstructured(&more[i])
		list, err = append(list, one), errors.Join(err, problem)
	}
	return errors.Join(err, unstructured.SetNestedSlice(fields, list, at...))
}

// merge merges a patch into a pod. The selector is how its workload finds it; if that is nil, the patch has no
// labels. A pod that is not whole stands for one that is not known.
func merge(fields map[string]any, text []byte, selector labels.Selector, whole bool) (*v1.Pod, error) {
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("cannot be merged: %w", err)
	}
	forbidden := onlyPatchable("", "", patch)
	before := unstructured.Unstructured{Object: fields}
	was := metadata{before.GetLabels(), before.GetAnnotations()}
	class, _, _ := unstructured.NestedString(fields, "spec", "priorityClassName") // there is none in anything else
	if _, err := strategicpatch.StrategicMergeMapPatch(fields, patch, &v1.Pod{}); err != nil {
		return nil, fmt.Errorf("cannot be merged: %w", err)
	}
	pod, err := podOf(fields)
	switch {
	case err != nil:
		return nil, fmt.Errorf("breaks the pod: %w", err)
	case forbidden != nil:
		return nil, forbidden
	}
	if err := was.mayBecome(pod, selector); err != nil {
		return nil, err
	}
	if errs := intact(pod); whole && len(errs) > 0 {
		return nil, fmt.Errorf("breaks the pod: %w", errs.ToAggregate())
	}
	if pod.Spec.PriorityClassName != class { // admission resolves the class again
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = nil, nil
		unstructured.RemoveNestedField(fields, "spec", "priority")
		unstructured.RemoveNestedField(fields, "spec", "preemptionPolicy")
	}
	return pod, nil
}

func podOf(fields map[string]any) (*v1.Pod, error) {
	pod := &v1.Pod{}
	return pod, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, pod)
}

// intact checks what every pod needs.
func intact(pod *v1.Pod) field.ErrorList {
	at := field.NewPath("spec")
	errs := admission.PodSpec(at, &pod.Spec)
	errs = append(errs, admission.Labels(field.NewPath("metadata", "labels"), pod.Labels)...)
	names := map[string]bool{}
	for i := range pod.Spec.Containers {
		c, at := &pod.Spec.Containers[i], at.Child("containers").Index(i)
		if c.Name == "" || names[c.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, "must be unique and not empty"))
		}
		names[c.Name] = true
		if c.Image == "" {
			errs = append(errs, field.Required(at.Child("image"), "a container needs an image"))
		}
	}
	return errs
}
