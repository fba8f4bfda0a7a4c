package workloadspread

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	// AnnotationSubstitute is on a substitute; its value is the UID of the pod that waits.
	AnnotationSubstitute = "evenkeel.dev/substitute-for"
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
// controller that owns the pod; nil if it is not known.
//
// The error says why the patch is refused: it breaks the pod, changes what identifies it or how it
// is found, what was injected before, or what the pod may do on its node and in the cluster.
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

// patched is the pod with a patch merged. A pod that is not whole stands for one that is not known.
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
	if err := unchanged(pod, out); err != nil {
		return nil, err
	}
	if selector != nil && selector.Matches(labels.Set(pod.Labels)) && !selector.Matches(labels.Set(out.Labels)) {
		return nil, errors.New("changes labels by which the workload finds its pods")
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

// revisionLabels say which controller and which revision a pod belongs to.
var revisionLabels = []string{
	"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index",
}

// unchanged refuses what a patch must not touch.
func unchanged(before, after *v1.Pod) error {
	for _, c := range []struct {
		what string
		same bool
	}{
		{"kind", before.TypeMeta == after.TypeMeta || after.Kind == "Pod" && after.APIVersion == "v1"},
		{"metadata.name", before.Name == after.Name && before.GenerateName == after.GenerateName},
		{"metadata.namespace", before.Namespace == after.Namespace},
		{"metadata.uid", before.UID == after.UID && before.ResourceVersion == after.ResourceVersion && before.Generation == after.Generation},
		{"metadata.ownerReferences", equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)},
		{"metadata.finalizers", equality.Semantic.DeepEqual(before.Finalizers, after.Finalizers)},
		{"metadata.managedFields", equality.Semantic.DeepEqual(before.ManagedFields, after.ManagedFields)},
		{"metadata.deletionTimestamp", before.DeletionTimestamp.Equal(after.DeletionTimestamp) && before.CreationTimestamp.Equal(&after.CreationTimestamp)},
		{"status", equality.Semantic.DeepEqual(before.Status, after.Status)},
		{"spec.nodeName", before.Spec.NodeName == after.Spec.NodeName},
		{"spec.serviceAccountName", before.Spec.ServiceAccountName == after.Spec.ServiceAccountName && before.Spec.DeprecatedServiceAccount == after.Spec.DeprecatedServiceAccount},
		{"spec.automountServiceAccountToken", equality.Semantic.DeepEqual(before.Spec.AutomountServiceAccountToken, after.Spec.AutomountServiceAccountToken)},
		{"spec.hostNetwork", before.Spec.HostNetwork == after.Spec.HostNetwork},
		{"spec.hostPID", before.Spec.HostPID == after.Spec.HostPID},
		{"spec.hostIPC", before.Spec.HostIPC == after.Spec.HostIPC},
		{"spec.hostUsers", equality.Semantic.DeepEqual(before.Spec.HostUsers, after.Spec.HostUsers)},
		{"spec.securityContext", equality.Semantic.DeepEqual(before.Spec.SecurityContext, after.Spec.SecurityContext)},
		{"spec.ephemeralContainers", equality.Semantic.DeepEqual(before.Spec.EphemeralContainers, after.Spec.EphemeralContainers)},
		{"spec.resourceClaims", equality.Semantic.DeepEqual(before.Spec.ResourceClaims, after.Spec.ResourceClaims)},
	} {
		if !c.same {
			return fmt.Errorf("must not change %s", c.what)
		}
	}
	for _, key := range []string{AnnotationSpread, AnnotationSubstitute, AnnotationCost} {
		if value, ok := after.Annotations[key]; value != before.Annotations[key] || ok != has(before.Annotations, key) {
			return fmt.Errorf("must not change metadata.annotations[%s]", key)
		}
	}
	for _, key := range revisionLabels {
		if value, ok := after.Labels[key]; value != before.Labels[key] || ok != has(before.Labels, key) {
			return fmt.Errorf("must not change metadata.labels[%s]", key)
		}
	}
	if err := injected(before, after); err != nil {
		return err
	}
	if err := containers("spec.containers", before.Spec.Containers, after.Spec.Containers); err != nil {
		return err
	}
	if err := containers("spec.initContainers", before.Spec.InitContainers, after.Spec.InitContainers); err != nil {
		return err
	}
	return volumes(before.Spec.Volumes, after.Spec.Volumes)
}

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }

// injected refuses a patch that takes back what holds the pod in its subset.
func injected(before, after *v1.Pod) error {
	required := func(p *v1.Pod) *v1.NodeSelector {
		if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
			return nil
		}
		return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if !equality.Semantic.DeepEqual(required(before), required(after)) {
		return errors.New("must not change spec.affinity.nodeAffinity: use requiredNodeSelector")
	}
	for i := range before.Spec.Tolerations {
		t := &before.Spec.Tolerations[i]
		if !slices.ContainsFunc(after.Spec.Tolerations, func(o v1.Toleration) bool { return equality.Semantic.DeepEqual(*t, o) }) {
			return errors.New("must not remove spec.tolerations")
		}
	}
	return nil
}

// containers refuses new or other privileges of containers.
func containers(at string, before, after []v1.Container) error {
	for i := range after {
		c := &after[i]
		was := slices.IndexFunc(before, func(o v1.Container) bool { return o.Name == c.Name })
		var security *v1.SecurityContext
		ports := map[int32]bool{}
		if was >= 0 {
			security = before[was].SecurityContext
			for _, p := range before[was].Ports {
				ports[p.HostPort] = true
			}
		}
		if !equality.Semantic.DeepEqual(security, c.SecurityContext) {
			return fmt.Errorf("must not change %s[%s].securityContext", at, c.Name)
		}
		for _, p := range c.Ports {
			if p.HostPort != 0 && !ports[p.HostPort] {
				return fmt.Errorf("must not change %s[%s].ports.hostPort", at, c.Name)
			}
		}
	}
	return nil
}

// volumes refuses new volumes with the files of the node, with secrets or with tokens.
func volumes(before, after []v1.Volume) error {
	for i := range after {
		v := &after[i]
		was := slices.IndexFunc(before, func(o v1.Volume) bool { return o.Name == v.Name })
		if was >= 0 && equality.Semantic.DeepEqual(before[was], *v) {
			continue
		}
		if v.EmptyDir == nil && v.ConfigMap == nil && v.DownwardAPI == nil {
			return fmt.Errorf("must not change spec.volumes[%s]: only emptyDir, configMap and downwardAPI may be added", v.Name)
		}
	}
	return nil
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
	out, err := patched(pod, patch, nil, false)
	return err == nil && equality.Semantic.DeepEqual(pod, out)
}
