package podfit

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Rules are what a pod asks of the labels and taints of a node.
type Rules struct {
	tolerations []v1.Toleration
	any         bool // of labels
	affinity    nodeaffinity.RequiredNodeAffinity
}

// RulesOf are the rules of a pod.
func RulesOf(pod *v1.Pod) Rules {
	a := pod.Spec.Affinity
	r := Rules{tolerations: pod.Spec.Tolerations, any: len(pod.Spec.NodeSelector) == 0 && (a == nil || a.NodeAffinity == nil)}
	if !r.any {
		r.affinity = nodeaffinity.GetRequiredNodeAffinity(pod)
	}
	return r
}

// Select reports whether the node selector and the required node affinity match a node.
func (r Rules) Select(node *v1.Node) bool {
	if r.any {
		return true
	}
	match, err := r.affinity.Match(node)
	return match && err == nil
}

// Untolerated returns the first taint that keeps the pod off a node.
func (r Rules) Untolerated(node *v1.Node) (taint v1.Taint, found bool) {
	return corev1.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, r.tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}, false)
}

// Admit reports whether a node with these labels and taints takes the pod, however full it is.
func (r Rules) Admit(node *v1.Node) bool {
	if !r.Select(node) {
		return false
	}
	_, untolerated := r.Untolerated(node)
	return !untolerated
}
