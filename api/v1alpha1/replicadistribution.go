package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReplicaDistribution asks how a number of replicas is distributed over targets.
type ReplicaDistribution struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ReplicaDistributionSpec    `json:"spec"`
	Status *ReplicaDistributionStatus `json:"status,omitempty"`
}

// The options of a ReplicaDistribution. The empty value of each means its default.
type (
	// DistributionPolicy is how replicas are shared: Proportional (default) to the weights, or
	// Priority in list order.
	DistributionPolicy string
	// Rounding is how shares become whole numbers: LargestRemainder (default), Webster or DHondt.
	Rounding string
	// MinMode is how minimum and share combine: the minimum is a part of the share (Floor, the
	// default), or the share comes on top of it (Additive).
	MinMode string
	// Shortage is what holds when the minimums exceed the replicas: GuaranteeMin (default) or
	// TotalWins.
	Shortage string
	// Pending is what happens to a share that a target cannot run: Keep (default) also leaves it
	// there, Trim does not.
	Pending string
	// Relief is which targets take over what another target cannot run: Any (default), LaterOnly or
	// HealthyOnly.
	Relief string
	// TieBreak is how ties are broken: Name (default) or Hash, which is rendezvous hashing over key
	// and target name.
	TieBreak string
)

// The values of the options of a ReplicaDistribution.
const (
	DistributeProportional DistributionPolicy = "Proportional"
	DistributePriority     DistributionPolicy = "Priority"

	RoundLargestRemainder Rounding = "LargestRemainder"
	RoundWebster          Rounding = "Webster"
	RoundDHondt           Rounding = "DHondt"

	MinFloor    MinMode = "Floor"
	MinAdditive MinMode = "Additive"

	ShortageGuaranteeMin Shortage = "GuaranteeMin"
	ShortageTotalWins    Shortage = "TotalWins"

	PendingKeep Pending = "Keep"
	PendingTrim Pending = "Trim"

	ReliefAny         Relief = "Any"
	ReliefLaterOnly   Relief = "LaterOnly"
	ReliefHealthyOnly Relief = "HealthyOnly"

	TieByName TieBreak = "Name"
	TieByHash TieBreak = "Hash"
)

// ReplicaDistributionSpec is the question.
type ReplicaDistributionSpec struct {
	// Replicas is the total asked for, 0..2147483647. Required.
	Replicas *int64 `json:"replicas"`

	Policy DistributionPolicy `json:"policy,omitempty"`
	// Rounding, like MinMode and TieBreak, has no effect under policy Priority.
	Rounding Rounding `json:"rounding,omitempty"`
	MinMode  MinMode  `json:"minMode,omitempty"`
	Shortage Shortage `json:"shortage,omitempty"`
	// Rebalance false leaves replicas already placed where they are as far as possible; nil means
	// true.
	Rebalance *bool   `json:"rebalance,omitempty"`
	Pending   Pending `json:"pending,omitempty"`
	// Relief LaterOnly needs policy Priority.
	Relief Relief `json:"relief,omitempty"`
	// Key identifies the object whose replicas are distributed; TieByHash uses it.
	Key      string   `json:"key,omitempty"`
	TieBreak TieBreak `json:"tieBreak,omitempty"`

	// Targets may be empty; then all replicas are unplaced. Policy Priority follows their order.
	Targets []DistributionTarget `json:"targets"`
}

// DistributionTarget is one target of a ReplicaDistribution. Counts are 0..2147483647.
type DistributionTarget struct {
	// Name is not empty and unique among the targets.
	Name string `json:"name"`
	// Weight is the share relative to the others, 0..2^63-1; nil means 1. A target of weight 0
	// never gets more than Min.
	Weight *int64 `json:"weight,omitempty"`
	// Min is how many replicas the target has at least, 0..Max; nil means 0.
	Min *int64 `json:"min,omitempty"`
	// Max is how many replicas the target has at most; nil means no bound.
	Max *int64 `json:"max,omitempty"`
	// Capacity is how many replicas the target is known to be able to run; nil means that no limit
	// is known.
	Capacity *int64 `json:"capacity,omitempty"`
	// Current is how many replicas the target has now. They count as placed if Rebalance is false;
	// nil means 0.
	Current *int64 `json:"current,omitempty"`
}

// DistributionReason is why a target has its replicas; the first of these that applies: capacity,
// max, min, sticky, order or weight.
type DistributionReason string

// ReplicaDistributionStatus is the answer. The sum of Replicas - Pending over the targets plus
// Unplaced always equals the replicas of the spec plus Excess.
type ReplicaDistributionStatus struct {
	// Targets has one entry for each target of the spec, in the same order.
	Targets []DistributionTargetStatus `json:"targets"`
	// Unplaced is how many replicas cannot run anywhere.
	Unplaced int64 `json:"unplaced"`
	// Excess is by how much the minimums exceed the replicas of the spec.
	Excess int64 `json:"excess"`
}

// DistributionTargetStatus is what one target gets.
type DistributionTargetStatus struct {
	Name string `json:"name"`
	// Replicas is the size to write to the target.
	Replicas int64 `json:"replicas"`
	// Pending is the part of Replicas that cannot run now.
	Pending int64              `json:"pending"`
	Reason  DistributionReason `json:"reason"`
}
