package workloadspread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	text, ok := pod.Annotations[AnnotationSpread]
	if !ok {
		return Assignment{}, false
	}
	a, ok := plain(text)
	if !ok && json.Unmarshal([]byte(text), &a) != nil {
		return Assignment{}, false
	}
	return a, true
}

// plain reads what String writes, as fast as all pods need it in every pass. It is false for any other
// text.
func plain(text string) (a Assignment, ok bool) {
	if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == '\\' || c > '~' }) {
		return Assignment{}, false
	}
	rest, begins := strings.CutPrefix(text, `{"name":"`)
	name, rest, named := strings.Cut(rest, `","subset":"`)
	subset, id, identified := strings.Cut(strings.TrimSuffix(rest, `"}`), `","id":"`)
	if !begins || !named || !strings.HasSuffix(rest, `"}`) || strings.Contains(name, `"`) || strings.Contains(subset, `"`) || strings.Contains(id, `"`) || identified && id == "" {
		return Assignment{}, false
	}
	return Assignment{Name: name, Subset: subset, ID: id}, true
}

// Inject returns the pod with the rules of its subset, which is nil if no subset has room for it.
// Tolerations and preferred terms are appended; the required term is added to every term that the
// pod has, since those are alternatives; then the patch is merged. The selector is that of the
// workload: no patch takes a pod out of it. If it is nil, it is not known, and the patch may have no labels.
//
// The error says why the patch is refused: it breaks the pod, or changes what a patch must not.
func Inject(pod *v1.Pod, subset *v1alpha1.WorkloadSubset, a Assignment, selector labels.Selector) (*v1.Pod, error) {
	out := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, AnnotationSpread, a.String())
	if subset == nil {
		return out, nil
	}
	out.Spec.Tolerations = append(out.Spec.Tolerations, subset.DeepCopy().Tolerations...)
	prefer(out, subset.DeepCopy().PreferredNodeSelector)
	if subset.RequiredNodeSelector != nil {
		require(out, subset.RequiredNodeSelector)
	}
	if subset.Patch == nil {
		return out, nil
	}
	merged, err := patched(out, subset.Patch.Raw, selector, true)
	if err != nil {
		return nil, fmt.Errorf("the patch of subset %s: %w", subset.Name, err)
	}
	return merged, nil
}

func nodeAffinity(pod *v1.Pod) *v1.NodeAffinity {
	pod.Spec.Affinity = cmp.Or(pod.Spec.Affinity, &v1.Affinity{})
	pod.Spec.Affinity.NodeAffinity = cmp.Or(pod.Spec.Affinity.NodeAffinity, &v1.NodeAffinity{})
	return pod.Spec.Affinity.NodeAffinity
}

func prefer(pod *v1.Pod, terms []v1.PreferredSchedulingTerm) {
	if len(terms) > 0 {
		a := nodeAffinity(pod)
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, terms...)
	}
}

func require(pod *v1.Pod, term *v1.NodeSelectorTerm) {
	a := nodeAffinity(pod)
	required := a.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{*term.DeepCopy()}}
		return
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
			continue // an empty term matches no node, and is to match none
		}
		t.MatchExpressions = append(t.MatchExpressions, term.DeepCopy().MatchExpressions...)
		t.MatchFields = append(t.MatchFields, term.DeepCopy().MatchFields...)
	}
}

// patched is the pod with a patch merged. The selector is how its workload finds it; if that is nil, the patch has
// no labels. A pod that is not whole stands for one that is not known.
func patched(pod *v1.Pod, patch []byte, selector labels.Selector, whole bool) (*v1.Pod, error) {
	before, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &v1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("cannot be merged: %w", err)
	}
	out := &v1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		return nil, fmt.Errorf("breaks the pod: %w", err)
	}
	if err := onlyPatchable(before, after); err != nil {
		return nil, err
	}
	if err := keepsMetadata(pod, out, selector); err != nil {
		return nil, err
	}
	if whole {
		if errs := intact(out); len(errs) > 0 {
			return nil, fmt.Errorf("breaks the pod: %w", errs.ToAggregate())
		}
	}
	if out.Spec.PriorityClassName != pod.Spec.PriorityClassName {
		out.Spec.Priority, out.Spec.PreemptionPolicy = nil, nil // admission resolves the class again
	}
	return out, nil
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

// changesNothing reports whether a pod has all that a patch says already.
func changesNothing(pod *v1.Pod, patch []byte) bool {
	out, err := patched(pod, patch, labels.Everything(), false)
	return err == nil && equality.Semantic.DeepEqual(pod, out)
}
