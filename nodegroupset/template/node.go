package template

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the taints that Cluster Autoscaler puts on a node it removes, and on a node it may
// remove, which the scheduler then avoids.
const (
	ToBeDeletedTaint       = "ToBeDeletedByClusterAutoscaler"
	DeletionCandidateTaint = "DeletionCandidateOfClusterAutoscaler"
)

// conditionSuspended is set on nodes whose machines sleep.
const conditionSuspended v1.NodeConditionType = "Suspended"

// IsReady reports whether the node says that it is ready. One that says nothing is not.
func IsReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// IsHealthy reports whether Cluster Autoscaler takes the node for ready: it looks at the conditions and their
// taints together. A node that is cordoned or cannot be reached is healthy until its condition says
// otherwise.
func IsHealthy(n *v1.Node) bool {
	says := false
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case v1.NodeReady:
			if c.Status == v1.ConditionFalse || c.Status == v1.ConditionUnknown {
				return false
			}
			says = true
		case v1.NodeDiskPressure, v1.NodeNetworkUnavailable, conditionSuspended:
			if c.Status == v1.ConditionTrue {
				return false
			}
		}
	}
	return says && !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
		return t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeDiskPressure || t.Key == v1.TaintNodeNetworkUnavailable
	})
}

// IsLeaving reports whether the node is about to go: it is deleted, or has the taint
// ToBeDeletedTaint.
func IsLeaving(n *v1.Node) bool {
	return n.DeletionTimestamp != nil ||
		slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == ToBeDeletedTaint })
}

// IsUsable reports whether the node can stand for its group: it is ready, schedulable and not
// leaving.
func IsUsable(n *v1.Node) bool { return IsReady(n) && !n.Spec.Unschedulable && !IsLeaving(n) }

// Compare orders the nodes of a group by how well they stand for it: usable nodes first, then by
// name.
func Compare(a, b *v1.Node) int {
	if usable := IsUsable(a); usable != IsUsable(b) {
		if usable {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// RunsOnEveryNode reports whether the pod is one of a daemon set or a static pod, and so comes and
// goes with its node.
func RunsOnEveryNode(pod *v1.Pod) bool {
	if _, static := pod.Annotations[v1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}
