package v1alpha1

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeGroupSimilarity asks which node groups are similar, and why the others are not.
type NodeGroupSimilarity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   NodeGroupSimilaritySpec    `json:"spec"`
	Status *NodeGroupSimilarityStatus `json:"status,omitempty"`
}

// NodeGroupSimilaritySpec is the question.
type NodeGroupSimilaritySpec struct {
	// Options are what counts as similar; by default the same as for Cluster Autoscaler.
	Options SimilarityOptions `json:"options,omitzero"`
	// AllDifferences reports every pair of sets, not only pairs that differ in at most three
	// fields.
	AllDifferences bool `json:"allDifferences,omitempty"`
	// Groups are the groups to compare, at least one.
	Groups []SimilarityGroup `json:"groups"`
}

// SimilarityOptions have the names and the defaults of Cluster Autoscaler's flags. Ratios are
// decimal numbers between 0 and 1, kept as they are written, because they are never converted to
// floating point.
type SimilarityOptions struct {
	// BalancingIgnoreLabels are label keys to ignore in addition to those of the label packs.
	BalancingIgnoreLabels []string `json:"balancingIgnoreLabels,omitempty"`
	// BalancingLabels, if not empty, are the only labels that count: groups are similar if these
	// are equal.
	BalancingLabels []string `json:"balancingLabels,omitempty"`
	// MemoryDifferenceRatio bounds the difference of memory capacity; empty means 0.015.
	MemoryDifferenceRatio json.Number `json:"memoryDifferenceRatio,omitempty"`
	// MaxAllocatableDifferenceRatio bounds the difference of every allocatable resource; empty
	// means 0.05.
	MaxAllocatableDifferenceRatio json.Number `json:"maxAllocatableDifferenceRatio,omitempty"`
	// MaxFreeDifferenceRatio bounds the difference of every free resource; empty means 0.05.
	MaxFreeDifferenceRatio json.Number `json:"maxFreeDifferenceRatio,omitempty"`
}

// SimilarityGroup is one group of a NodeGroupSimilarity.
type SimilarityGroup struct {
	// Name is not empty and unique among the groups.
	Name string `json:"name"`
	// Template is a node as the group would create it. Its status.capacity is required unless
	// labels alone decide.
	Template v1.Node `json:"template"`
	// Pods are the daemon set and static pods that come with the node; their requests are not free.
	Pods []v1.Pod `json:"pods,omitempty"`
}

// NodeGroupSimilarityStatus is the answer.
type NodeGroupSimilarityStatus struct {
	// Sets contain every group exactly once; sets and members are sorted by name.
	Sets []SimilaritySet `json:"sets"`
	// Differences has one entry for each pair of sets, represented by their first members.
	Differences []SimilarityDifference `json:"differences"`
}

// SimilaritySet is one set of similar groups.
type SimilaritySet struct {
	Groups []string `json:"groups"`
}

// SimilarityDifference is how two groups differ.
type SimilarityDifference struct {
	// Groups are the two names, in order.
	Groups []string `json:"groups"`
	// Fields are capacity, allocatable and free by resource name, then labels by key, then taints.
	Fields []FieldDifference `json:"fields"`
}

// FieldDifference is one difference between two groups.
type FieldDifference struct {
	// Field is for example capacity.cpu, labels[pool] or taints[dedicated:NoSchedule].
	Field string `json:"field"`
	// Left and Right are the two values; nil if the group does not have the field.
	Left  *string `json:"left,omitempty"`
	Right *string `json:"right,omitempty"`
	// Ratio is the difference as a share of the larger value, rounded to four decimals; empty if
	// the values have to be equal.
	Ratio string `json:"ratio,omitempty"`
	// Limit is the largest ratio allowed, or "equal".
	Limit string `json:"limit"`
}
