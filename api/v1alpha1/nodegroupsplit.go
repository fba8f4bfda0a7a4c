package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeGroupSplit asks how a number of new nodes is split over similar node groups.
type NodeGroupSplit struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   NodeGroupSplitSpec    `json:"spec"`
	Status *NodeGroupSplitStatus `json:"status,omitempty"`
}

// NodeGroupSplitPolicy is how nodes are split.
type NodeGroupSplitPolicy string

// The policies of a NodeGroupSplit.
const (
	// SplitEven levels the final sizes. It is the default.
	SplitEven NodeGroupSplitPolicy = "Even"
	// SplitProportional makes the final sizes follow the weights, by largest remainder, with the
	// present sizes as lower bounds.
	SplitProportional NodeGroupSplitPolicy = "Proportional"
	// SplitPriority fills the groups in list order, each up to its max.
	SplitPriority NodeGroupSplitPolicy = "Priority"
)

// NodeGroupSplitSpec is the question.
type NodeGroupSplitSpec struct {
	// Nodes is how many nodes to add, 0..2147483647. Required.
	Nodes *int64 `json:"nodes"`
	// Policy is Even, Proportional or Priority; empty means Even.
	Policy NodeGroupSplitPolicy `json:"policy,omitempty"`
	// Chosen names the group that the expander chose. It comes first among equals. Optional.
	Chosen string `json:"chosen,omitempty"`
	// Groups are the groups to split over, at least one. Their order matters under policy Priority
	// only.
	Groups []SplitGroup `json:"groups"`
	// Portions are what the policy shares between, each of several groups, in the order of their
	// priority. Every group is in one of them. Without any, each group is a portion of its own.
	Portions []SplitPortion `json:"portions,omitempty"`
	// NodeCapacity is what one of Nodes stands for, in the unit of the groups' capacity: as much
	// capacity is added, or up to a node more. Without it the new nodes are counted.
	NodeCapacity *int64 `json:"nodeCapacity,omitempty"`
}

// SplitPortion is groups whose nodes are shared evenly among them.
type SplitPortion struct {
	// Name is not empty and unique among the portions.
	Name string `json:"name"`
	// Groups are the names of its groups.
	Groups []string `json:"groups"`
	// Weight is the share under policy Proportional, 0..2^63-1; nil means 1.
	Weight *int64 `json:"weight,omitempty"`
	// Base is what the portion has before the policy applies: nodes, or units of capacity.
	Base *int64 `json:"base,omitempty"`
}

// SplitGroup is one group of a NodeGroupSplit.
type SplitGroup struct {
	// Name is not empty and unique among the groups.
	Name string `json:"name"`
	// Size is the target size before the split, 0..2147483647. Required.
	Size *int64 `json:"size"`
	// Min is the size that the group has at least, 0..Max; nil means 0.
	Min *int64 `json:"min,omitempty"`
	// Max is the size that the group has at most, 0..2147483647. A group that is above it keeps its
	// size. Required.
	Max *int64 `json:"max"`
	// Weight is the share under policy Proportional, 0..2^63-1; nil means 1. Portions have their own.
	Weight *int64 `json:"weight,omitempty"`
	// Base is what the group has before the policy applies, and does not count as share: nodes, or
	// units of capacity. nil means 0. Portions have their own.
	Base *int64 `json:"base,omitempty"`
	// Capacity is what a node of the group counts for, 1..2147483647. With it, the policy shares
	// capacity, not nodes. All groups have one, or none.
	Capacity *int64 `json:"capacity,omitempty"`
}

// SplitReason is the bound that holds a group at its new size: max, overMax if the group was above
// its max before, or min if it was raised to its min and no further. It is empty if no bound does.
type SplitReason string

// NodeGroupSplitStatus is the answer.
type NodeGroupSplitStatus struct {
	// Groups has one entry for every group of the spec, in the same order.
	Groups []SplitGroupStatus `json:"groups"`
	// Unplaced is how many nodes no group has room for.
	Unplaced int64 `json:"unplaced"`
}

// SplitGroupStatus is what one group gets. Sizes are numbers of nodes.
type SplitGroupStatus struct {
	Name    string      `json:"name"`
	Size    int64       `json:"size"`
	NewSize int64       `json:"newSize"`
	Reason  SplitReason `json:"reason,omitempty"`
}
