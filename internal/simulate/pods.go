package simulate

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/evenkeel/evenkeel/internal/document"
)

// Labels that binding puts on a pod.
var bindingLabels = []string{v1.LabelTopologyZone, v1.LabelTopologyRegion}

// ownPart returns the pod with parts that it shares with equal ones, and without the fields that a simulation does not use: most
// of the status, and managed fields.
func ownPart(p *v1.Pod, unbind bool, shared *document.Interner) *v1.Pod {
	node, status := p.Spec.NodeName, p.Status
	labels := maps.Clone(p.Labels)
	if unbind && node != "" {
		maps.DeleteFunc(labels, func(key, _ string) bool { return slices.Contains(bindingLabels, key) })
		node, status = "", v1.PodStatus{Phase: v1.PodPending}
	}
	out := &v1.Pod{ObjectMeta: plainMeta(&p.ObjectMeta), Spec: *shared.Spec(&p.Spec), Status: v1.PodStatus{Phase: status.Phase}}
	out.Namespace, out.UID = orDefault(p.Namespace), cmp.Or(p.UID, types.UID(p.Namespace+"/"+p.Name))
	out.Labels = shared.Labels(labels)
	if node == "" { // the condition set by the scheduler
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
