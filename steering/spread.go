package steering

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// spreads reports whether a pod has a hard topology spread over domains of several nodes. Cluster
// Autoscaler then asks for nodes bit by bit: as many as fit in one domain before another must grow.
// That a group has no option for the pod says nothing of the group, and that the pod is still
// pending says nothing of nodes on their way: another pod has taken the room.
func spreads(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.DoNotSchedule && c.TopologyKey != v1.LabelHostname
	})
}
