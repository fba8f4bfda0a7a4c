package simulate

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// inlineObjects represents spec.objects among the files.
const inlineObjects = "spec.objects"

// takeObjects makes the objects of the document readable as a file that is named in all lists of
// files.
func (l *loader) takeObjects() {
	if len(l.spec.Objects) == 0 && l.files.Objects == nil {
		return
	}
	var list bytes.Buffer
	list.WriteString(`{"apiVersion":"v1","kind":"List","items":[`)
	for i, raw := range l.spec.Objects {
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(raw)
	}
	list.WriteString("]}")
	open := l.files.Open
	l.files.Open = func(name string) (io.ReadCloser, error) {
		if name == inlineObjects {
			return inMemory{bytes.NewReader(list.Bytes())}, nil
		}
		return open(name)
	}
	spec, source := *l.spec, v1alpha1.FileSource{File: inlineObjects}
	spec.NodesFrom = append(slices.Clip(spec.NodesFrom), source)
	spec.PodsFrom = append(slices.Clip(spec.PodsFrom), v1alpha1.PodsSource{FileSource: source})
	spec.DaemonSetsFrom = append(slices.Clip(spec.DaemonSetsFrom), source)
	l.spec = &spec
}

// inMemory is a file in memory.
type inMemory struct{ *bytes.Reader }

// Close implements io.Closer.
func (inMemory) Close() error { return nil }

// objectStore has the objects of files, whatever they are read for, by kind, namespace and name. Others refer to them, or they exist
// at the start. Of an object that several files have the last one counts.
type objectStore map[string]metav1.Object

// clusterKinds are the kinds of objects that have no namespace.
var clusterKinds = []string{
	"Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment", "PriorityClass", "CapacityQuota",
}

// add adds an object. Nodes, pods and daemon sets are read one by one.
func (s objectStore) add(object any) {
	switch object.(type) {
	case *v1.Node, *v1.Pod, *v1.Event, *appsv1.DaemonSet:
		return
	}
	o, ok := object.(metav1.Object)
	if !ok {
		return
	}
	if !slices.Contains(clusterKinds, kindOf(o)) {
		o.SetNamespace(orDefault(o.GetNamespace()))
	}
	o.SetManagedFields(nil)
	s[keyOf(kindOf(o), o.GetNamespace(), o.GetName())] = o
}

func keyOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// all returns the objects of a type, by namespace and name.
func all[T any](s objectStore) []T {
	var out []T
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if o, ok := s[key].(T); ok {
			out = append(out, o)
		}
	}
	return out
}

// find returns the object of a type with this name; nil if there is none.
func find[T metav1.Object](s objectStore, namespace, name string) (found T) {
	found, _ = s[keyOf(kindOf(found), namespace, name)].(T)
	return found
}

// kindOf is the kind of an object, by its type.
func kindOf(object any) string {
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// podsOf is what a workload says of its pods, and by which version it owns them; nil for other objects. A number that is
// not given is 1.
func podsOf(object any) (template *v1.PodTemplateSpec, replicas *int32, version string) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template, o.Spec.Replicas, "apps/v1"
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, o.Spec.Replicas, "apps/v1"
	case *appsv1.StatefulSet:
		return &o.Spec.Template, o.Spec.Replicas, "apps/v1"
	case *batchv1.Job:
		return &o.Spec.Template, o.Spec.Parallelism, "batch/v1"
	}
	return nil, nil, ""
}
