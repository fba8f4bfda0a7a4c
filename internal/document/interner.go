package document

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Interner holds what is equal of pods and nodes once: a cluster may have a million pods of some thousand workloads.
type Interner struct {
	pods   map[string]*v1.Pod
	specs  map[string]*v1.PodSpec
	labels map[string]map[string]string
	lists  map[string]v1.ResourceList
}

// NewInterner returns an Interner that has nothing yet.
func NewInterner() *Interner {
	return &Interner{map[string]*v1.Pod{}, map[string]*v1.PodSpec{}, map[string]map[string]string{}, map[string]v1.ResourceList{}}
}

// OnNode returns one pod without a name or a node for all that count alike on their nodes, as most of a workload do, and reports
// whether it is the first of them. It is nil for pods that stand for themselves: those with volumes may have claims that are named
// after them.
func (i *Interner) OnNode(p *v1.Pod) (like *v1.Pod, first bool) {
	if len(p.Spec.ResourceClaims) > 0 || slices.ContainsFunc(p.Spec.Volumes, isStorage) {
		return nil, false
	}
	like = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Labels: p.Labels, OwnerReferences: p.OwnerReferences,
		DeletionTimestamp: p.DeletionTimestamp}, Spec: p.Spec, Status: p.Status}
	like.Spec.NodeName, like.Spec.Hostname, like.Spec.Volumes = "", "", nil
	like.Status.StartTime, like.Status.PodIP, like.Status.PodIPs, like.Status.HostIP, like.Status.HostIPs = nil, "", nil, "", nil
	like.Status.Conditions = nil
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodResizePending { // decides what the pod takes
			like.Status.Conditions = append(like.Status.Conditions, v1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	key, err := like.Marshal()
	if err != nil {
		return nil, false
	}
	shared := intern(i.pods, string(key), like)
	return shared, shared == like
}

// isStorage tells a volume that the scheduler looks at from those that every node can offer.
func isStorage(v v1.Volume) bool {
	return v.Projected == nil && v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.HostPath == nil
}

// Spec returns one specification without a node for all that are equal.
func (i *Interner) Spec(spec *v1.PodSpec) *v1.PodSpec {
	unbound := *spec
	unbound.NodeName = ""
	key, err := unbound.Marshal()
	if err != nil {
		return spec // cannot be encoded, and is not shared
	}
	return intern(i.specs, string(key), &unbound)
}

// Labels returns one map for all that are equal.
func (i *Interner) Labels(labels map[string]string) map[string]string {
	return intern(i.labels, fmt.Sprint(labels), labels) // printed in order of their keys
}

// Node has a node share its lists of resources with nodes of the same machine type. They must not be changed.
func (i *Interner) Node(n *v1.Node) {
	for _, list := range []*v1.ResourceList{&n.Status.Capacity, &n.Status.Allocatable} {
		if key, err := (&v1.ResourceRequirements{Limits: *list}).Marshal(); err == nil && *list != nil {
			*list = intern(i.lists, string(key), *list)
		}
	}
}

// intern returns what is known by a key already, or else makes the value known.
func intern[T any](known map[string]T, key string, value T) T {
	if shared, ok := known[key]; ok {
		return shared
	}
	known[key] = value
	return value
}
