package document

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityBuffer is what is read of an object of that kind of autoscaling.x-k8s.io: room that Cluster
// Autoscaler keeps free, as if pods needed it.
type CapacityBuffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CapacityBufferSpec `json:"spec"`
}

// CapacityBufferSpec is how much room a CapacityBuffer keeps free.
type CapacityBufferSpec struct {
	// ProvisioningStrategy is ActiveCapacity, or empty; buffers of others are left alone.
	ProvisioningStrategy string `json:"provisioningStrategy,omitempty"`
	// PodTemplateRef names a PodTemplate of its namespace, ScalableRef a workload, whose pods the room
	// is for.
	PodTemplateRef *struct {
		Name string `json:"name"`
	} `json:"podTemplateRef,omitempty"`
	ScalableRef *struct {
		APIGroup string `json:"apiGroup,omitempty"`
		Kind     string `json:"kind"`
		Name     string `json:"name"`
	} `json:"scalableRef,omitempty"`
	// Replicas is for how many pods, Percentage for how many of the workload's replicas; the larger
	// one counts. Limits bound what all of them request.
	Replicas   *int32          `json:"replicas,omitempty"`
	Percentage *int32          `json:"percentage,omitempty"`
	Limits     v1.ResourceList `json:"limits,omitempty"`
}

// CapacityQuota is what is read of an object of that kind of autoscaling.x-k8s.io: limits over the nodes
// that it selects.
type CapacityQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		// Selector is of nodes; nil is all.
		Selector *metav1.LabelSelector `json:"selector,omitempty"`
		Limits   struct {
			Resources v1.ResourceList `json:"resources"`
		} `json:"limits"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

// CapacityQuotaValid is the condition that Cluster Autoscaler sets on a CapacityQuota.
const CapacityQuotaValid = "Valid"

// ActiveCapacity is the provisioning strategy that orders nodes for a buffer.
const ActiveCapacity = "buffer.x-k8s.io/active-capacity"

// ProvisioningRequest is what is read of an object of that kind of autoscaling.x-k8s.io: pods that
// Cluster Autoscaler finds room for, all or none, before they exist.
type ProvisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProvisioningRequestSpec   `json:"spec"`
	Status ProvisioningRequestStatus `json:"status,omitzero"`
}

// ProvisioningRequestSpec is which pods a ProvisioningRequest is for.
type ProvisioningRequestSpec struct {
	ProvisioningClassName string `json:"provisioningClassName"`
	// PodSets are so many pods of a PodTemplate of its namespace each.
	PodSets []struct {
		PodTemplateRef struct {
			Name string `json:"name"`
		} `json:"podTemplateRef"`
		Count int32 `json:"count"`
	} `json:"podSets,omitempty"`
}

// ProvisioningRequestStatus is what has come of a ProvisioningRequest.
type ProvisioningRequestStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
