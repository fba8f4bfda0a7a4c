package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SpreadSplit asks in which domains new nodes are needed so that identical pods with one hard
// topology spread constraint can be scheduled.
type SpreadSplit struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   SpreadSplitSpec    `json:"spec"`
	Status *SpreadSplitStatus `json:"status,omitempty"`
}

// SpreadSplitSpec is the question. All numbers are at most 2147483647.
type SpreadSplitSpec struct {
	// Pods is how many identical pods are pending, 0 or more. They match their own selector.
	// Required.
	Pods *int64 `json:"pods"`
	// MaxSkew is that of the constraint, at least 1. Required.
	MaxSkew *int64 `json:"maxSkew"`
	// MinDomains is that of the constraint, at least 1; nil means 1.
	MinDomains *int64 `json:"minDomains,omitempty"`
	// PodsPerNode is how many of the pods fit on a new node, at least 1. Required.
	PodsPerNode *int64 `json:"podsPerNode"`
	// Domains are the values of the topology key, such as zones, at least one.
	Domains []SpreadDomain `json:"domains"`
	// Groups are the node groups that can grow. A domain may have none or several.
	Groups []SpreadGroup `json:"groups"`
	// ExtraNodes is how many nodes to add beyond those that the pods need; nil means 0.
	ExtraNodes *int64 `json:"extraNodes,omitempty"`
}

// SpreadDomain is one domain of a SpreadSplit.
type SpreadDomain struct {
	// Name is not empty and unique among the domains.
	Name string `json:"name"`
	// MatchingPods is how many pods the constraint counts there; nil means 0.
	MatchingPods *int64 `json:"matchingPods,omitempty"`
	// FreeSlots is how many of the pods fit on nodes that exist or are ordered; nil means 0.
	FreeSlots *int64 `json:"freeSlots,omitempty"`
	// Active is set if at least one eligible node exists already, so that the domain counts for the
	// skew. A domain that is not active has neither matching pods nor free slots.
	Active bool `json:"active,omitempty"`
}

// SpreadGroup is one node group of a SpreadSplit.
type SpreadGroup struct {
	// Name is not empty and unique among the groups.
	Name string `json:"name"`
	// Domain is the name of the domain that its nodes are in. Required.
	Domain string `json:"domain"`
	// Size is the target size. Required.
	Size *int64 `json:"size"`
	// Max is the size that the group has at most. A group that is above it keeps its size. Required.
	Max *int64 `json:"max"`
}

// SpreadSplitStatus is the answer.
type SpreadSplitStatus struct {
	// Groups has one entry for every group of the spec, in the same order.
	Groups []SpreadGroupStatus `json:"groups"`
	// Placed is how many of the pods can be scheduled.
	Placed int64 `json:"placed"`
	// Unplaced is how many of the pods cannot be scheduled, however many nodes are added.
	Unplaced int64 `json:"unplaced"`
	// Binding are the domains, by name, in which one more slot would let one more pod be scheduled.
	Binding []string `json:"binding"`
}

// SpreadGroupStatus is what one group gets. Sizes are numbers of nodes.
type SpreadGroupStatus struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	NewSize int64  `json:"newSize"`
}
