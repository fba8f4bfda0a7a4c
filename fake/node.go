package fake

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// GroupAnnotation on nodes and templates names the node group they come from.
const GroupAnnotation = "fake.evenkeel.dev/node-group"

// providerID is the spec.providerID of a node the cloud made.
func providerID(group, name string) string { return "fake://" + group + "/" + name }

// providerIDOf is the provider id of a node given in the configuration: its own,
// or one in the cloud's form when it has none.
func providerIDOf(group string, node *v1.Node) string {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID
	}
	return providerID(group, node.Name)
}

// preparedTemplate copies a configured template into what the cloud answers and
// makes nodes from: nothing of the identity and state of the node it may have
// been taken from, allocatable filled in, ready.
func preparedTemplate(id string, t cloudprovider.Template) cloudprovider.Template {
	t = t.DeepCopy()
	node := t.Node
	node.ObjectMeta = metav1.ObjectMeta{Labels: node.Labels, Annotations: node.Annotations}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[GroupAnnotation] = id
	rename(node, id+"-template")
	node.Spec.ProviderID = ""
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint v1.Taint) bool {
		return taint.Key == v1.TaintNodeNotReady || taint.Key == v1.TaintNodeUnreachable
	})
	node.Status.Addresses = nil
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	setReady(node, v1.ConditionTrue, "KubeletReady", metav1.Time{})
	return t
}

// rename gives a node a name, and the hostname that goes with it.
func rename(node *v1.Node, name string) {
	node.Name = name
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[v1.LabelHostname] = name
}

// nodeObject is the instance's node as the API server would show it now.
func (in *instance) nodeObject(now time.Time, down bool) *v1.Node {
	var node *v1.Node
	if in.node != nil {
		node = in.node.DeepCopy()
	} else {
		node = in.group.Template.Node.DeepCopy()
		rename(node, in.name)
		node.CreationTimestamp = metav1.Time{Time: in.registersAt()}
		setReady(node, v1.ConditionTrue, "KubeletReady", metav1.Time{Time: in.readyAt()})
	}
	node.Spec.ProviderID = in.id
	switch {
	case down:
		setReady(node, v1.ConditionUnknown, "NodeStatusUnknown", metav1.Time{})
		taint(node, v1.TaintNodeUnreachable, v1.TaintEffectNoSchedule)
		taint(node, v1.TaintNodeUnreachable, v1.TaintEffectNoExecute)
	case in.node == nil && in.readyAt().After(now):
		setReady(node, v1.ConditionFalse, "KubeletNotReady", node.CreationTimestamp)
		taint(node, v1.TaintNodeNotReady, v1.TaintEffectNoSchedule)
	}
	return node
}

func setReady(node *v1.Node, status v1.ConditionStatus, reason string, since metav1.Time) {
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady
	})
	node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{
		Type: v1.NodeReady, Status: status, Reason: reason, LastTransitionTime: since,
	})
}

func taint(node *v1.Node, key string, effect v1.TaintEffect) {
	node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: key, Effect: effect})
}
