package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindNodeGroupPolicies is the kind of a configuration file that declares sets of node groups.
const KindNodeGroupPolicies = "NodeGroupPolicies"

// NodeGroupPolicies declare which node groups are one set, and how a set shares its nodes. Groups of
// no declared set are compared, and similar ones share nodes evenly.
type NodeGroupPolicies struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec NodeGroupPoliciesSpec `json:"spec"`
}

// NodeGroupPoliciesSpec is the content of NodeGroupPolicies.
type NodeGroupPoliciesSpec struct {
	// Sets are the declared sets. No group is in two of them.
	Sets []NodeGroupSetPolicy `json:"sets"`
}

// NodeGroupMeasure is what nodes are counted by.
type NodeGroupMeasure string

// The measures.
const (
	// MeasureNodes counts nodes. It is the default.
	MeasureNodes NodeGroupMeasure = "Nodes"
	// MeasureCPU adds up the capacity in cores, MeasureMemory that in memory.
	MeasureCPU    NodeGroupMeasure = "CPU"
	MeasureMemory NodeGroupMeasure = "Memory"
)

// NodeGroupSetPolicy declares a set.
type NodeGroupSetPolicy struct {
	// Name is not empty and unique among the sets.
	Name string `json:"name"`
	// Policy is Even, Proportional or Priority; empty means Even.
	Policy NodeGroupSplitPolicy `json:"policy,omitempty"`
	// Measure is Nodes, CPU or Memory; empty means Nodes.
	Measure NodeGroupMeasure `json:"measure,omitempty"`
	// StartupDeadline is how long ordered nodes may take to become ready nodes, 1s or more. What has
	// not come by then is given up if other groups of the set can take its share, and the group is
	// left alone for a while. Nil: the maximum node provision time is the only limit.
	StartupDeadline *metav1.Duration `json:"startupDeadline,omitempty"`
	// NodeGroupSelection selects the groups of a set of policy Even.
	NodeGroupSelection `json:",inline"`
	// Portions are what the other policies share between, in the order of their priority.
	Portions []NodeGroupPortion `json:"portions,omitempty"`
}

// NodeGroupSelection selects node groups: those that it names and those whose nodes have labels.
type NodeGroupSelection struct {
	// Groups are names of node groups.
	Groups []string `json:"groups,omitempty"`
	// Selector matches the labels of a group's template.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NodeGroupPortion is a part of a set: spot groups in all zones, for example. Its nodes are levelled
// over its groups.
type NodeGroupPortion struct {
	// Name is not empty and unique within the set.
	Name string `json:"name"`
	// NodeGroupSelection selects the groups of the portion.
	NodeGroupSelection `json:",inline"`
	// Weight is the share with Proportional, 0..2147483647; nil means 1.
	Weight *int64 `json:"weight,omitempty"`
	// Base is what the portion has before the policy applies: a number of nodes, or with another
	// measure an amount of cores or memory.
	Base *resource.Quantity `json:"base,omitempty"`
}
