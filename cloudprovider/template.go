package cloudprovider

import v1 "k8s.io/api/core/v1"

// Template describes the nodes a node group would create: one node as it
// registers and the pods that come with it.
type Template struct {
	Node *v1.Node  // labels, taints, capacity, allocatable; its name is not meaningful
	Pods []*v1.Pod // daemon set and static pods that run on every such node
}

// DeepCopy returns a template that shares nothing with t.
func (t Template) DeepCopy() Template {
	out := Template{Node: t.Node.DeepCopy()}
	if t.Pods != nil {
		out.Pods = make([]*v1.Pod, len(t.Pods))
		for i, pod := range t.Pods {
			out.Pods[i] = pod.DeepCopy()
		}
	}
	return out
}
