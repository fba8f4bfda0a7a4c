package removal

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// Annotations by which nodes and pods are kept or let go.
const (
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	safeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	safeLocalVolumes  = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)

// replicating are the kinds of controllers that make a pod anew.
var replicating = []string{"ReplicaSet", "StatefulSet", "Job", "ReplicationController"}

// movable returns the pods that have to move when the node goes. Where one of
// them may not, it returns which and why instead.
func (o *Options) movable(n *Node) (pods []*v1.Pod, blocked, reason string) {
	if n.Node.Node.Annotations[scaleDownDisabled] == "true" {
		return nil, "", "marked " + scaleDownDisabled
	}
	for _, pod := range n.Pods {
		if template.RunsOnEveryNode(pod) || isFinished(pod) {
			continue
		}
		if reason := o.keeps(pod); reason != "" {
			return nil, pod.Namespace + "/" + pod.Name, "has a pod that " + reason
		}
		pods = append(pods, pod)
	}
	return pods, "", ""
}

func isFinished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// keeps reports why a pod keeps its node; empty where it does not.
func (o *Options) keeps(pod *v1.Pod) string {
	safe := pod.Annotations[safeToEvict]
	if safe == "true" {
		return ""
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case safe == "on-completion":
		return "is to complete first"
	case owner == nil:
		return "has no controller"
	case !o.AllowCustomControllers && !slices.Contains(replicating, owner.Kind):
		return "has a controller of kind " + owner.Kind
	case !o.AllowSystemPods && pod.Namespace == metav1.NamespaceSystem:
		return "belongs to the system"
	case safe == "false":
		return "is not safe to evict"
	case !o.AllowLocalStorage && keepsData(pod):
		return "has local storage"
	}
	return ""
}

// keepsData reports whether the pod has data on the node that would be lost.
func keepsData(pod *v1.Pod) bool {
	safe := strings.Split(pod.Annotations[safeLocalVolumes], ",")
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume v1.Volume) bool {
		local := volume.HostPath != nil || volume.EmptyDir != nil && volume.EmptyDir.Medium != v1.StorageMediumMemory
		return local && !slices.Contains(safe, volume.Name)
	})
}
