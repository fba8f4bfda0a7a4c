package simulate

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// interner lets equal pods share one specification, so that a list of 50,000
// pods of 200 kinds takes the memory of 200.
type interner struct {
	specs  map[string]*v1.PodSpec
	labels map[string]map[string]string
}

func newInterner() *interner {
	return &interner{specs: map[string]*v1.PodSpec{}, labels: map[string]map[string]string{}}
}

// Labels that binding puts on a pod.
var bindingLabels = []string{v1.LabelTopologyZone, v1.LabelTopologyRegion}

// pod returns the pod with shared parts and without the fields that a simulation does not use: most
// of the status, and managed fields.
func (i *interner) pod(p *v1.Pod, unbind bool) *v1.Pod {
	node, status := p.Spec.NodeName, p.Status
	labels := maps.Clone(p.Labels)
	if unbind && node != "" {
		maps.DeleteFunc(labels, func(key, _ string) bool { return slices.Contains(bindingLabels, key) })
		node, status = "", v1.PodStatus{Phase: v1.PodPending}
	}
	uid := p.UID
	if uid == "" {
		uid = types.UID(p.Namespace + "/" + p.Name)
	}
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: orDefault(p.Namespace), UID: uid, Labels: i.sharedLabels(labels),
			Annotations: p.Annotations, OwnerReferences: p.OwnerReferences,
			DeletionTimestamp: p.DeletionTimestamp, DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
			CreationTimestamp: p.CreationTimestamp,
		},
		Spec:   *i.sharedSpec(&p.Spec),
		Status: v1.PodStatus{Phase: status.Phase},
	}
	if node == "" { // the condition set by the scheduler
		out.Status.NominatedNodeName, out.Status.Conditions = status.NominatedNodeName, status.Conditions
	} else {
		out.Status.StartTime, out.Status.Conditions = status.StartTime, notReady(&status)
	}
	out.Spec.NodeName = node
	return out
}

// notReady is the condition of a pod that is not ready; budgets count the others.
func notReady(status *v1.PodStatus) []v1.PodCondition {
	for _, c := range status.Conditions {
		if c.Type == v1.PodReady && c.Status != v1.ConditionTrue {
			return []v1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return nil
}

func (i *interner) sharedSpec(spec *v1.PodSpec) *v1.PodSpec {
	unbound := *spec
	unbound.NodeName = ""
	key, err := unbound.Marshal()
	if err != nil {
		return spec // cannot be encoded, and is not shared
	}
	shared, known := i.specs[string(key)]
	if !known {
		shared = &unbound
		i.specs[string(key)] = shared
	}
	return shared
}

func (i *interner) sharedLabels(labels map[string]string) map[string]string {
	key := fmt.Sprint(labels) // sorted by key
	shared, known := i.labels[key]
	if !known {
		shared = labels
		i.labels[key] = shared
	}
	return shared
}
