package subsets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// inputOf is what the controller would decide upon, as far as a dump shows it, and what is missing.
func (d *Dump) inputOf(s *v1alpha1.WorkloadSpread) (in workloadspread.Input, notes []string, err error) {
	notes = slices.Clone(d.notes)
	pods := d.podsOf(s)
	in = workloadspread.Input{
		Name: s.Name, Generation: s.Generation,
		State: workloadspread.State{Spec: &s.Spec, Status: &s.Status, Now: document.Latest(s, pods, d.at)},
		Nodes: d.nodes, Autoscaler: map[types.UID]workloadspread.ScaleUp{},
	}
	var note string
	if in.Workload, note, err = d.workloadOf(s); err != nil {
		return in, nil, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	selector := labels.Everything()
	if f := s.Spec.TargetFilter; f != nil && f.Selector != nil {
		if selector, err = f.Selector.AsSelector(); err != nil {
			return in, nil, err
		}
	}
	for _, pod := range pods {
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		in.Pods = append(in.Pods, pod)
		if scaleUp, known := provisioning.Of(pod, d.events, d.status, in.Now); known {
			in.Autoscaler[pod.UID] = scaleUp
		}
	}
	if len(in.Pods) == 0 {
		notes = append(notes, "there are no pods of the workload beside it: "+Naming.Get+" prints all")
	}
	return in, notes, nil
}

// workloadOf is what is known of the target. If it is not in the dump, the status has its replicas.
func (d *Dump) workloadOf(s *v1alpha1.WorkloadSpread) (w workloadspread.Workload, note string, err error) {
	ref := s.Spec.TargetRef
	object := d.targets[targetKey(ref.Kind, s.Namespace, ref.Name)]
	if object == nil {
		if s.Status.ObservedGeneration == 0 {
			return w, "", nil
		}
		w = workloadspread.Workload{Found: true, Replicas: s.Status.Replicas, Surge: s.Status.Surge, Revision: d.newest(s)}
		return w, fmt.Sprintf("%s %s is not among the objects: its replicas are those of the status", ref.Kind, ref.Name), nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return w, "", err
	}
	if w, err = workloadspread.Observe(&s.Spec, fields); err != nil {
		return w, "", fmt.Errorf("%s %s: %w", ref.Kind, ref.Name, err)
	}
	w.Revision = d.newest(s)
	if set, ok := object.(*appsv1.StatefulSet); ok {
		w.Revision = set.Status.UpdateRevision
	}
	return w, "", nil
}

// newest is the hash of the newest ReplicaSet of a Deployment.
func (d *Dump) newest(s *v1alpha1.WorkloadSpread) string {
	most, hash := int64(-1), ""
	for _, key := range slices.Sorted(maps.Keys(d.targets)) { // of equal revisions always the same one
		set, ok := d.targets[key].(*appsv1.ReplicaSet)
		if !ok || set.Namespace != s.Namespace || !owns(&s.Spec.TargetRef, set) {
			continue
		}
		n, err := strconv.ParseInt(set.Annotations["deployment.kubernetes.io/revision"], 10, 64)
		if own := set.Labels["pod-template-hash"]; err == nil && (n > most || n == most && own < hash) {
			most, hash = n, own
		}
	}
	return hash
}

func owns(ref *v1alpha1.WorkloadReference, o metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && owner.Kind == ref.Kind && owner.Name == ref.Name
}

// podsOf are the pods of the target by name.
func (d *Dump) podsOf(s *v1alpha1.WorkloadSpread) []*v1.Pod {
	out := slices.DeleteFunc(slices.Clone(d.pods), func(pod *v1.Pod) bool { return !d.isOf(s, pod) })
	slices.SortFunc(out, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// isOf reports whether the owner of a pod is the target, or a ReplicaSet of it. A ReplicaSet that is not in the dump is recognized
// by its name.
func (d *Dump) isOf(s *v1alpha1.WorkloadSpread, pod *v1.Pod) bool {
	ref, owner := &s.Spec.TargetRef, metav1.GetControllerOfNoCopy(pod)
	switch {
	case pod.Namespace != s.Namespace || owner == nil:
		return false
	case owns(ref, pod):
		return true
	case owner.Kind != "ReplicaSet":
		return false
	}
	if set := d.targets[targetKey("ReplicaSet", pod.Namespace, owner.Name)]; set != nil {
		return owns(ref, set)
	}
	name, hash := strings.CutSuffix(owner.Name, "-"+pod.Labels["pod-template-hash"])
	return hash && ref.Kind == "Deployment" && name == ref.Name
}
