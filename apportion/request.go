package apportion

import "math"

// MaxReplicas is the largest number of replicas of a target, which is the largest number that a
// Scale can hold.
const MaxReplicas int64 = math.MaxInt32

// Policy is how replicas are shared.
type Policy string

const (
	// Proportional shares by weight; the order of the targets does not matter. Default.
	Proportional Policy = "Proportional"
	// Priority fills the targets in the order of the list.
	Priority Policy = "Priority"
)

// MinMode is how minimum and share combine; policy Priority ignores it.
type MinMode string

const (
	// Floor counts the minimum towards the share. Default.
	Floor MinMode = "Floor"
	// Additive puts the share on top of the minimum.
	Additive MinMode = "Additive"
)

// Shortage is what happens if the minimums sum to more than the replicas.
type Shortage string

const (
	// GuaranteeMin grants every minimum; the surplus is the excess. Default.
	GuaranteeMin Shortage = "GuaranteeMin"
	// TotalWins never exceeds the replicas. Minimums are granted by weight and then tie order
	// (Priority: in list order) while replicas are left, first to the extent that the replicas
	// exist already.
	TotalWins Shortage = "TotalWins"
)

// Pending is what happens to a share that cannot run.
type Pending string

const (
	// Keep also leaves it on its target: the pending pods are the probe and the way back. Default.
	Keep Pending = "Keep"
	// Trim writes only what can run, even below the minimum.
	Trim Pending = "Trim"
)

// Relief is which targets take over what a target cannot run.
type Relief string

const (
	// Any is every target of positive weight, up to its maximum and capacity. Default.
	Any Relief = "Any"
	// HealthyOnly is the targets without a known capacity. The others only get what runs of their
	// own share.
	HealthyOnly Relief = "HealthyOnly"
	// LaterOnly is the targets that are later in the list. It needs policy Priority.
	LaterOnly Relief = "LaterOnly"
)

// TieBreak orders equal claims under policy Proportional.
type TieBreak string

const (
	// Name orders by name, ascending, compared as bytes. Default.
	Name TieBreak = "Name"
	// Hash orders by the SHA-256 of key, a zero byte and name, descending, so that over many
	// objects every target comes first equally often.
	Hash TieBreak = "Hash"
)

// Request is the spec of a ReplicaDistribution. An empty option means the default.
type Request struct {
	// Replicas is the total asked for, 0..MaxReplicas.
	Replicas int64
	Policy   Policy
	// Rounding is read only under policy Proportional.
	Rounding Rounding
	MinMode  MinMode
	Shortage Shortage
	// Rebalance false leaves replicas where they are as far as possible; nil means true.
	Rebalance *bool
	Pending   Pending
	Relief    Relief
	// Key identifies the object; TieBreak Hash reads it.
	Key      string
	TieBreak TieBreak
	Targets  []Target
}

// Target is a place for replicas. Counts are 0..MaxReplicas.
type Target struct {
	// Name is not empty and unique.
	Name string
	// Weight is the share relative to the other targets, 0 or more; nil means 1. A target of weight
	// 0 gets no more than its minimum or, if Rebalance is false, than it holds already. Priority
	// ignores all other weights.
	Weight *int64
	// Min is how many replicas the target has at least; not greater than Max.
	Min int64
	// Max is how many replicas the target has at most; nil means MaxReplicas.
	Max *int64
	// Capacity is how many replicas the target is known to be able to run; nil means that no limit
	// is known.
	Capacity *int64
	// Current is how many replicas the target has that count as placed. It is read only if
	// Rebalance is false.
	Current int64
	// Taken is how many replicas the target has of its own share and of what it took over before
	// its capacity was known. Under relief HealthyOnly it keeps them as far as they run, and gets
	// no more; other reliefs do not read the field. nil means that it keeps only its own share.
	Taken *int64
}

// Result is the status of a ReplicaDistribution. The replicas that are not pending plus the
// unplaced ones always equal the request's replicas plus the excess.
type Result struct {
	// Targets are in the order of the request.
	Targets []TargetResult
	// Unplaced is how many replicas cannot run anywhere, whether or not a pending copy of them is
	// written.
	Unplaced int64
	// Excess is by how much the guaranteed minimums exceed the replicas asked for.
	Excess int64
}

// TargetResult is the answer for one target.
type TargetResult struct {
	Name string
	// Replicas is the size to write to the target.
	Replicas int64
	// Pending is the part of Replicas that cannot run there now.
	Pending int64
	Reason  Reason
}
