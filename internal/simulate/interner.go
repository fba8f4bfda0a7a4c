package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
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
	out := &v1.Pod{ObjectMeta: plainMeta(&p.ObjectMeta), Spec: *i.sharedSpec(&p.Spec), Status: v1.PodStatus{Phase: status.Phase}}
	out.Namespace, out.UID = orDefault(p.Namespace), cmp.Or(p.UID, types.UID(p.Namespace+"/"+p.Name))
	out.Labels = intern(i.labels, fmt.Sprint(labels), labels) // printed in order of their keys
	if node == "" {                                           // the condition set by the scheduler
		out.Status.NominatedNodeName, out.Status.Conditions = status.NominatedNodeName, status.Conditions
	} else {
		out.Status = running(p)
	}
	out.Spec.NodeName = node
	return out
}

// running is what a simulation uses of the status of a pod on a node: since when it runs, whether it is
// not ready, and what it holds while it is resized in place.
func running(p *v1.Pod) v1.PodStatus {
	out := v1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status != v1.ConditionTrue || c.Type == v1.PodResizePending {
			out.Conditions = append(out.Conditions, v1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	held := resource.PodRequests(p, resource.PodResourcesOptions{UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true})
	if equality.Semantic.DeepEqual(held, resource.PodRequests(p, resource.PodResourcesOptions{})) {
		return out // almost always
	}
	out.ContainerStatuses, out.InitContainerStatuses = requestsIn(p.Status.ContainerStatuses), requestsIn(p.Status.InitContainerStatuses)
	out.Resources, out.AllocatedResources = p.Status.Resources, p.Status.AllocatedResources
	return out
}

// requestsIn returns statuses of containers with what they request and were given.
func requestsIn(all []v1.ContainerStatus) (out []v1.ContainerStatus) {
	for _, s := range all {
		kept := v1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources}
		if s.Resources != nil {
			kept.Resources = &v1.ResourceRequirements{Requests: s.Resources.Requests}
		}
		out = append(out, kept)
	}
	return out
}

func (i *interner) sharedSpec(spec *v1.PodSpec) *v1.PodSpec {
	unbound := *spec
	unbound.NodeName = ""
	key, err := unbound.Marshal()
	if err != nil {
		return spec // cannot be encoded, and is not shared
	}
	return intern(i.specs, string(key), &unbound)
}

// intern returns what is known by a key already, or else makes the value known.
func intern[T any](known map[string]T, key string, value T) T {
	if shared, ok := known[key]; ok {
		return shared
	}
	known[key] = value
	return value
}
