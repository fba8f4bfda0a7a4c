package cloudprovider

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FakeNodeReasonAnnotation marks a node that represents an instance without a node object. Its
// value is one of the FakeNode reasons.
const FakeNodeReasonAnnotation = "k8s.io/cluster-autoscaler/fake-node-reason"

// The reasons why a fake node represents an instance.
const (
	FakeNodeUnregistered = "unregistered" // the instance has not registered (yet)
	FakeNodeCreateError  = "create-error" // the instance could not be created
)

// FakeNode returns the node Cluster Autoscaler uses to name an instance that has
// no node object: name and provider id are both the instance's id, and it has
// neither labels nor resources.
func FakeNode(instanceID, reason string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        instanceID,
			Annotations: map[string]string{FakeNodeReasonAnnotation: reason},
		},
		Spec: v1.NodeSpec{ProviderID: instanceID},
	}
}

// IsFakeNode reports whether the node represents an instance without a node object.
func IsFakeNode(node *v1.Node) bool {
	_, fake := node.Annotations[FakeNodeReasonAnnotation]
	return fake
}
