package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TopologySpread asks on which nodes a pod with topology spread constraints may be, and which of
// them the scheduler prefers.
type TopologySpread struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   TopologySpreadSpec    `json:"spec"`
	Status *TopologySpreadStatus `json:"status,omitempty"`
}

// TopologySpreadSpec is the question. A pod without a namespace is in the namespace default.
type TopologySpreadSpec struct {
	// Pod is the incoming pod. Its topologySpreadConstraints are those that count: no default
	// constraints of a cluster apply.
	Pod *v1.Pod `json:"pod"`
	// Nodes are the nodes of the cluster; their names are unique. Resources are not checked on a
	// node whose status has neither allocatable nor capacity; without allocatable, the capacity is
	// allocatable, and without a number of pods it is 110.
	Nodes []v1.Node `json:"nodes"`
	// Pods are the pods on the nodes, each with its spec.nodeName. Those that have succeeded or
	// failed are ignored.
	Pods []v1.Pod `json:"pods,omitempty"`
}

// TopologySpreadStatus is the answer.
type TopologySpreadStatus struct {
	// Nodes are the nodes in the order of the input.
	Nodes []TopologySpreadNode `json:"nodes"`
}

// TopologySpreadNode is the answer for one node.
type TopologySpreadNode struct {
	Name string `json:"name"`
	// Fits says that the pod passes the scheduler's filters for cordon, node name, node selector
	// and required node affinity, taints and resource requests, and all DoNotSchedule constraints.
	Fits bool `json:"fits"`
	// Score is the scheduler's score for topology spread among the nodes that fit, 0 to 100; nil
	// where the pod does not fit or has no ScheduleAnyway constraint.
	Score *int64 `json:"score,omitempty"`
	// Reasons are each filter and each constraint that rejects the pod; empty if it fits.
	Reasons []string `json:"reasons"`
}
