package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// readSpreads finds the workload of each WorkloadSpread: one of the scenario, or of its objects.
func (l *loader) readSpreads() {
	for i := range l.spec.WorkloadSpreads {
		object := l.spec.WorkloadSpreads[i]
		object.Namespace = orDefault(object.Namespace)
		object.Status = v1alpha1.WorkloadSpreadStatus{}
		l.setup.Spreads = append(l.setup.Spreads, Spread{Object: &object,
			Workload: l.target(&object, specPath.Child("workloadSpreads").Index(i))})
	}
}

// target is the index of the workload of a WorkloadSpread; -1 if there is none.
func (l *loader) target(object *v1alpha1.WorkloadSpread, at *field.Path) int {
	ref := object.Spec.TargetRef
	for i := range l.setup.Workloads {
		w := &l.setup.Workloads[i]
		if w.Namespace == object.Namespace && w.Name == ref.Name && w.Kind == ref.Kind && len(w.Revisions) == 0 {
			return i
		}
	}
	found := l.objects[keyOf(ref.Kind, object.Namespace, ref.Name)]
	if template, _, _ := podsOf(found); template == nil {
		l.note(fmt.Sprintf("there is no %s %s, so WorkloadSpread %s spreads nothing", ref.Kind, ref.Name, object.Name))
		return -1
	}
	w, err := l.adoptWorkload(object, found)
	if err != nil {
		l.add(field.Invalid(at.Child("spec", "targetRef", "name"), ref.Name, err.Error()))
		return -1
	}
	l.setup.Workloads = append(l.setup.Workloads, *w)
	return len(l.setup.Workloads) - 1
}

// adoptWorkload makes a workload of an object at the start.
func (l *loader) adoptWorkload(object *v1alpha1.WorkloadSpread, found metav1.Object) (*Workload, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	if err != nil {
		return nil, err
	}
	observed, err := workloadspread.Observe(&object.Spec, fields)
	if err != nil {
		return nil, err
	}
	w := &Workload{Name: found.GetName(), Namespace: object.Namespace, Kind: object.Spec.TargetRef.Kind, Start: int(observed.Start)}
	replicas := int(observed.Replicas)
	if set, ok := found.(*appsv1.StatefulSet); ok {
		w.Claims = set.Spec.VolumeClaimTemplates
	}
	if deployment, ok := found.(*appsv1.Deployment); ok {
		l.adoptDeployment(w, deployment, replicas)
	} else {
		template, _, version := podsOf(found)
		w.Revisions = []Revision{{Pod: ownPod(w, template, version), Hash: template.Labels[hashLabel], Replicas: replicas}}
	}
	w.Pod = w.Revisions[len(w.Revisions)-1].Pod
	w.Steps = []Step{{Replicas: replicas}}
	return w, nil
}

// adoptDeployment makes a revision of each ReplicaSet of a Deployment, the one with the highest number
// last. Without a ReplicaSet it has one revision, which has no pods yet.
func (l *loader) adoptDeployment(w *Workload, d *appsv1.Deployment, replicas int) {
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil {
		w.MaxSurge, w.MaxUnavailable = rolling.MaxSurge, rolling.MaxUnavailable
	}
	var owned []*appsv1.ReplicaSet
	for _, set := range all[*appsv1.ReplicaSet](l.objects) {
		if set.Namespace == w.Namespace {
			if ref := metav1.GetControllerOfNoCopy(set); ref != nil && ref.Kind == v1alpha1.WorkloadDeployment && ref.Name == d.Name {
				owned = append(owned, set)
			}
		}
	}
	revision := func(set *appsv1.ReplicaSet) int {
		n, _ := strconv.Atoi(set.Annotations["deployment.kubernetes.io/revision"]) // 0 if there is none
		return n
	}
	slices.SortFunc(owned, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(revision(a), revision(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, set := range owned {
		named := *w
		named.Name = set.Name
		w.Revisions = append(w.Revisions, Revision{
			Pod: ownPod(&named, &set.Spec.Template, "apps/v1"), Hash: set.Spec.Template.Labels[hashLabel],
			Replicas: int(ptr.Deref(set.Spec.Replicas, 1)),
		})
	}
	if len(owned) == 0 {
		w.Revisions = []Revision{{Pod: ownPod(w, &d.Spec.Template, "apps/v1"), Replicas: replicas}}
	}
}

// ownPod is a pod of a template, with the owner that creates it again after an eviction.
func ownPod(w *Workload, t *v1.PodTemplateSpec, version string) *v1.Pod {
	kind, isController := w.Kind, true
	if kind == v1alpha1.WorkloadDeployment {
		kind = v1alpha1.WorkloadReplicaSet // a Deployment's pods belong to its replica set
	}
	spec := t.Spec.DeepCopy()
	spec.SchedulerName = cmp.Or(spec.SchedulerName, v1.DefaultSchedulerName)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Labels: t.Labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: w.Name, Controller: &isController}},
		},
		Spec: *spec,
	}
}

// adoptOwned gives a pod of the start to the managed workload that owns it.
func (s *simulation) adoptOwned(p *pod) {
	owner := metav1.GetControllerOfNoCopy(p.object)
	if owner == nil {
		return
	}
	for _, m := range s.controllers.managed {
		for _, set := range m.sets {
			ref := metav1.GetControllerOfNoCopy(set.Pod)
			if len(m.Revisions) == 0 || m.Namespace != p.object.Namespace || ref.Kind != owner.Kind || ref.Name != owner.Name {
				continue
			}
			p.owner, p.set = m, set
			if a, ok := workloadspread.AssignmentOf(p.object); ok && m.spread != nil && a.Name == m.spread.object.Name {
				p.assigned = &assignment{subset: a.Subset, text: a.String(), uid: p.object.UID}
			}
		}
	}
}
