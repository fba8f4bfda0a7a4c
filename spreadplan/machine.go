package spreadplan

import (
	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Machine is a node, or one to come, as pods see it.
type Machine struct {
	Node   *v1.Node
	Free   Amounts   // beside the pods on it
	Usable bool      // takes pods; those on others are counted all the same
	Fresh  bool      // on its way, or planned
	Pods   []*v1.Pod // on it

	id     int             // its position among the machines
	placed map[*Kind]int64 // by the plan
}

// Admits reports whether a pod may run on the node, however full it is and however pods are spread.
func Admits(pod *v1.Pod, node *v1.Node) bool {
	if !Accepts(pod, node) {
		return false
	}
	_, untolerated := corev1.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}, false)
	return !untolerated
}

// Accepts reports whether the node affinity and selector of a pod accept a node.
func Accepts(pod *v1.Pod, node *v1.Node) bool {
	if len(pod.Spec.NodeSelector) == 0 && pod.Spec.Affinity == nil {
		return true
	}
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return ok || err != nil
}
