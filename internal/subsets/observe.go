package subsets

import (
	"cmp"
	"fmt"
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

// object finds a workload of a dump.
func (d *Dump) object(kind, namespace, name string) metav1.Object {
	for i := range d.Objects {
		if o, ok := d.Objects[i].Object.(metav1.Object); ok && d.Objects[i].Kind == kind && o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return nil
}

// workloadOf is what is known of the target. If it is not in the dump, the status has its replicas.
func (d *Dump) workloadOf(s *v1alpha1.WorkloadSpread) (w workloadspread.Workload, note string, err error) {
	ref := s.Spec.TargetRef
	object := d.object(ref.Kind, s.Namespace, ref.Name)
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
	for i := range d.Objects {
		set, ok := d.Objects[i].Object.(*appsv1.ReplicaSet)
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

// podsOf are the pods whose owner is the target, or a ReplicaSet of it, by name. A ReplicaSet
// that is not in the dump is recognized by its name.
func (d *Dump) podsOf(s *v1alpha1.WorkloadSpread) []*v1.Pod {
	ref := &s.Spec.TargetRef
	var out []*v1.Pod
	for _, pod := range d.pods[s.Namespace] {
		if owns(ref, pod) || d.throughReplicaSet(ref, pod) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (d *Dump) throughReplicaSet(ref *v1alpha1.WorkloadReference, pod *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return false
	}
	if set := d.object("ReplicaSet", pod.Namespace, owner.Name); set != nil {
		return owns(ref, set)
	}
	name, hash := strings.CutSuffix(owner.Name, "-"+pod.Labels["pod-template-hash"])
	return hash && ref.Kind == "Deployment" && name == ref.Name
}
