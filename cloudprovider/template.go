package cloudprovider

import v1 "k8s.io/api/core/v1"

// Template describes the nodes a node group would create: one node as it
// registers and the pods that come with it.
type Template struct {
	Node *v1.Node  // labels, taints, capacity, allocatable; its name is not meaningful
	Pods []*v1.Pod // daemon set and static pods that run on every such node
}
