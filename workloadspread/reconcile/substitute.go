package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// safeToEvict lets Cluster Autoscaler remove a node with a pod that has no controller.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// longestStem leaves room in the name of a pod, which is a host name too, for a hash.
const longestStem = 63 - 1 - 8

// owning is what is read of the ReplicaSet of a pod.
type owning struct {
	Spec struct {
		Selector *metav1.LabelSelector `json:"selector"`
		Template v1.PodTemplateSpec    `json:"template"`
	} `json:"spec"`
}

// substitute creates a pod that runs in place of one that waits.
func (w *writes) substitute(ctx context.Context, s workloadspread.Substitute) {
	pod, err := w.build(ctx, s)
	if err == nil {
		err = w.client.Create(ctx, pod)
	}
	if apierrors.IsAlreadyExists(err) {
		err = apierrors.NewConflict(v1.Resource("pods"), s.For.Name, err) // the cache does not have it yet
	}
	w.metrics.wrote(opSubstitute, err)
	if w.note(err, "creating a substitute of", key(s.For)) {
		logr.FromContextOrDiscard(ctx).Info("Created a substitute", "pod", s.For.Name, "substitute", pod.Name, "subset", s.Subset)
		w.announceOf(w.spread, w.decision, workloadspread.ReasonSubstituted, s.For.Name)
	}
}

// build is the substitute of a pod: one of the same template with the rules of a later subset.
//
// It has the labels of the template, so that it gets its share of the work, except that of the
// revision: without it the ReplicaSet does not adopt it. If the selector of the ReplicaSet selects it
// still, the WorkloadSpread controls it. Otherwise nothing does, since disruption budgets
// count the pods of controllers that they know.
func (w *writes) build(ctx context.Context, s workloadspread.Substitute) (*v1.Pod, error) {
	ref := metav1.GetControllerOf(s.For)
	if ref == nil {
		return nil, fmt.Errorf("pod %s has no controller", key(s.For))
	}
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	if err := w.live.Get(ctx, types.NamespacedName{Namespace: s.For.Namespace, Name: ref.Name}, object); err != nil {
		return nil, err
	}
	var of owning
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &of); err != nil {
		return nil, fmt.Errorf("reading the template of %s %s: %w", ref.Kind, ref.Name, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(of.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of %s %s: %w", ref.Kind, ref.Name, err)
	}
	i := slices.IndexFunc(w.spread.Spec.Subsets, func(o v1alpha1.WorkloadSubset) bool { return o.Name == s.Subset })
	if i < 0 {
		return nil, fmt.Errorf("there is no subset %s any more", s.Subset)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.For.Namespace, Labels: maps.Clone(of.Spec.Template.Labels), Annotations: maps.Clone(of.Spec.Template.Annotations),
	}, Spec: of.Spec.Template.Spec}
	delete(pod.Labels, "pod-template-hash")
	pod, err = workloadspread.Inject(pod, &w.spread.Spec.Subsets[i], workloadspread.Assignment{}, labels.Everything())
	if err != nil {
		return nil, err
	}
	delete(pod.Annotations, workloadspread.AnnotationSpread) // it is not counted
	pod.Annotations[workloadspread.AnnotationSubstitute] = string(s.For.UID)
	pod.Annotations[safeToEvict] = "true"
	pod.Name = substituteName(s.For)
	owner := metav1.OwnerReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindWorkloadSpread, Name: w.spread.Name, UID: w.spread.UID}
	if selector.Matches(labels.Set(pod.Labels)) {
		owner.Controller = new(true)
	}
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	return pod, nil
}

// substituteName is the only name that the substitute of a pod has, so that there is never more than
// one.
func substituteName(pod *v1.Pod) string {
	sum := sha256.Sum256([]byte(pod.UID))
	return strings.TrimRight(pod.Name[:min(len(pod.Name), longestStem)], "-.") + "-" + hex.EncodeToString(sum[:4])
}
