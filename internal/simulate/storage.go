package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/predicates"
)

// storageKinds are the kinds of objects for storage, and of the owners of pods that the scheduler spreads by default.
var storageKinds = []string{
	"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment",
	"StatefulSet",
	"ReplicaSet", "ReplicationController", "Service", "Namespace",
}

func isStorage(object any) bool { return slices.Contains(storageKinds, kindOf(object)) }

// storage are the objects of these kinds, in a stable order.
func (l *loader) storage() []runtime.Object {
	return slices.DeleteFunc(all[runtime.Object](l.objects), func(o runtime.Object) bool { return !isStorage(o) })
}

// readStorage adds the files of storageFrom and the classes of the document, and makes the claims
// that StatefulSets of the files would make for their pods.
func (l *loader) readStorage() error {
	for i := range l.spec.StorageFrom {
		name, at := l.spec.StorageFrom[i].File, specPath.Child("storageFrom").Index(i).Child("file")
		taken, problems := false, len(l.problems)
		if err := objects(l, name, at, func(o any) { taken = taken || isStorage(o) }); err != nil {
			return err
		}
		if !taken && len(l.problems) == problems {
			l.add(field.Invalid(at, name, "holds no "+spelling.Or(storageKinds)))
		}
	}
	for i := range l.spec.StorageClasses {
		l.objects.add(l.spec.StorageClasses[i].DeepCopy())
	}
	var made []string
	for _, p := range l.setup.Pods {
		made = append(made, l.claimsOfStatefulSet(p)...)
	}
	if len(made) > 0 {
		l.note(fmt.Sprintf("the files lack %s that StatefulSets make for their pods, so the zones of the volumes are unknown: %s; add what "+
			"this prints to a file of storageFrom: %s", spelling.Count(len(made), "persistent volume claim"), spelling.List(made, 3),
			readStorageCommand))
	}
	class := defaultClass(l.storage())
	for _, claim := range all[*v1.PersistentVolumeClaim](l.objects) {
		if claim.Spec.VolumeName == "" {
			complete(claim, class)
		}
	}
	return nil
}

// claimsOfStatefulSet makes the claims of a pod that its StatefulSet would have made and that no
// file has, and returns their names.
func (l *loader) claimsOfStatefulSet(p *v1.Pod) (made []string) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "StatefulSet" {
		return nil
	}
	set := find[*appsv1.StatefulSet](l.objects, p.Namespace, owner.Name)
	if set == nil {
		return nil
	}
	for i := range set.Spec.VolumeClaimTemplates {
		claim := ownClaim(p, &set.Spec.VolumeClaimTemplates[i])
		if find[*v1.PersistentVolumeClaim](l.objects, claim.Namespace, claim.Name) == nil {
			l.objects.add(claim)
			made = append(made, claim.Namespace+"/"+claim.Name)
		}
	}
	return made
}

// ownClaim is the claim that a StatefulSet makes from a template for one of its pods.
func ownClaim(p *v1.Pod, template *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: template.Name + "-" + p.Name, Labels: template.Labels,
			Annotations: template.Annotations},
		Spec:   *template.Spec.DeepCopy(),
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}

// defaultClass is the storage class of claims that name none; nil if there is none.
func defaultClass(objects []runtime.Object) (found *storagev1.StorageClass) {
	for _, o := range objects {
		c, ok := o.(*storagev1.StorageClass)
		if !ok || c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" &&
			c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&c.CreationTimestamp) {
			found = c // the youngest if there are several, as in the API server
		}
	}
	return found
}

// complete gives a claim the default class, if there is one, where it names none.
func complete(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) {
	if class != nil && claim.Spec.StorageClassName == nil {
		claim.Spec.StorageClassName = &class.Name
	}
}

// limitVolumes sets the volume limits of every group's nodes: from the CSINodes of its nodes, else
// from nodes of the same machine type, else from the machine in the document.
func (l *loader) limitVolumes() {
	limited := map[string]bool{}
	for _, n := range all[*storagev1.CSINode](l.objects) {
		limited[n.Name] = true
	}
	ofType := map[string]string{} // a node with a CSINode, by machine type
	learn := func(nodes []*v1.Node) (first string) {
		for _, n := range nodes {
			if !limited[n.Name] {
				continue
			}
			first = cmp.Or(first, n.Name)
			if machine := n.Labels[v1.LabelInstanceTypeStable]; machine != "" && (ofType[machine] == "" || n.Name < ofType[machine]) {
				ofType[machine] = n.Name
			}
		}
		return first
	}
	learn(l.setup.Nodes)
	like := make([]string, len(l.setup.Cloud.Groups))
	for i := range l.setup.Cloud.Groups {
		g := &l.setup.Cloud.Groups[i]
		like[i] = learn(nodesOf(g))
	}
	declared := l.declaredLimits()
	for i := range l.setup.Cloud.Groups {
		g := &l.setup.Cloud.Groups[i]
		name := cmp.Or(like[i], ofType[g.Template.Node.Labels[v1.LabelInstanceTypeStable]], declared[g.ID])
		if name == "" {
			continue
		}
		node := g.Template.Node.DeepCopy()
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, predicates.CSINodeAnnotation, name)
		g.Template.Node = node
	}
}

// declaredLimits adds a CSINode for every machine with volume limits, and returns their names by
// group.
func (l *loader) declaredLimits() map[string]string {
	of := map[string]string{}
	for i := range l.spec.Machines {
		m := &l.spec.Machines[i]
		if len(m.VolumeLimits) == 0 {
			continue
		}
		object := machineCSINode(m)
		l.setup.Storage = append(l.setup.Storage, object)
		for j := range l.spec.NodeGroups {
			if g := &l.spec.NodeGroups[j]; cmp.Or(g.RegistersAs, g.Machine) == m.Name {
				of[g.Name] = object.Name
			}
		}
	}
	return of
}

func machineCSINode(m *v1alpha1.ScenarioMachine) *storagev1.CSINode {
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "machine/" + m.Name}} // not a valid name of a node
	for _, driver := range slices.Sorted(maps.Keys(m.VolumeLimits)) {
		count := m.VolumeLimits[driver]
		object.Spec.Drivers = append(object.Spec.Drivers,
			storagev1.CSINodeDriver{Name: driver, Allocatable: &storagev1.VolumeNodeResources{Count: &count}})
	}
	return object
}
