package apportion

import "math"

// MaxReplicas is the largest number of replicas a target can have: no Scale
// carries more.
const MaxReplicas int64 = math.MaxInt32

// Policy is what replicas are shared by.
type Policy string

const (
	// Proportional shares by weight; the order of the targets does not matter.
	// It is the default: the empty Policy means the same.
	Proportional Policy = "Proportional"
	// Priority fills the targets in list order.
	Priority Policy = "Priority"
)

// MinMode is how minimum and share go together; policy Priority ignores it.
type MinMode string

const (
	// Floor counts the minimum towards the share. Default.
	Floor MinMode = "Floor"
	// Additive puts the share on top of the minimum.
	Additive MinMode = "Additive"
)

// Shortage is what gives way when the minimums sum to more than the replicas.
type Shortage string

const (
	// GuaranteeMin keeps every minimum; the surplus is the excess. Default.
	GuaranteeMin Shortage = "GuaranteeMin"
	// TotalWins never exceeds the replicas: minimums are granted by weight and
	// then tie order (Priority: in list order), first as far as the replicas
	// are there already, while replicas last.
	TotalWins Shortage = "TotalWins"
)

// Pending is what happens to a share that cannot run.
type Pending string

const (
	// Keep leaves it written on its target as well: the pending pods are the
	// probe and the way back. Default.
	Keep Pending = "Keep"
	// Trim writes only what can run, even below the minimum.
	Trim Pending = "Trim"
)

// Relief is who takes over what a target cannot run.
type Relief string

const (
	// Any is every target of positive weight, up to its maximum and capacity. Default.
	Any Relief = "Any"
	// HealthyOnly is only targets without a known capacity; the others still
	// get their own share, as far as it runs.
	HealthyOnly Relief = "HealthyOnly"
	// LaterOnly passes it strictly down the list. With policy Priority only.
	LaterOnly Relief = "LaterOnly"
)

// TieBreak settles equal claims under policy Proportional.
type TieBreak string

const (
	// Name orders by name, ascending, compared as bytes. Default.
	Name TieBreak = "Name"
	// Hash orders by the SHA-256 of key, a zero byte and name, descending, so
	// that over many objects every target comes first equally often.
	Hash TieBreak = "Hash"
)

// Request is the spec of a ReplicaDistribution. The empty option is the default
// everywhere.
type Request struct {
	// Replicas is the total asked for, 0..MaxReplicas.
	Replicas int64
	Policy   Policy
	// Rounding matters under policy Proportional only.
	Rounding Rounding
	MinMode  MinMode
	Shortage Shortage
	// Rebalance false leaves replicas already placed where they are as far as
	// possible; nil is true.
	Rebalance *bool
	Pending   Pending
	Relief    Relief
	// Key identifies the object; TieBreak Hash reads it.
	Key      string
	TieBreak TieBreak
	Targets  []Target
}

// Target is one place replicas can be. Counts are 0..MaxReplicas.
type Target struct {
	// Name is not empty and unique.
	Name string
	// Weight is the share relative to the other targets, 0 or more; nil is 1.
	// A target of weight 0 gets no more than its minimum, or than it holds
	// already where Rebalance is false. Beyond that Priority ignores weights.
	Weight *int64
	// Min is what the target has to have; not greater than Max.
	Min int64
	// Max is the most it may have; nil is MaxReplicas.
	Max *int64
	// Capacity is how many replicas it is known to be able to run; nil says
	// that nothing is known and is taken as unlimited.
	Capacity *int64
	// Current is how many replicas it has that count as placed. It is read
	// only where Rebalance is false.
	Current int64
	// Taken is how many replicas, its own share included, it has with what it
	// took over before its capacity was known. Relief HealthyOnly lets it keep
	// them as far as they run, and gives it no more; the others do not read it.
	// nil says that it keeps nothing but its own share.
	Taken *int64
}

// Result is the status of a ReplicaDistribution. The replicas that are not
// pending and the unplaced ones always sum to the request's replicas and the
// excess.
type Result struct {
	// Targets stand in the order of the request.
	Targets []TargetResult
	// Unplaced is how many replicas can run nowhere, whether or not a pending
	// copy of them is written.
	Unplaced int64
	// Excess is how far the guaranteed minimums exceed the replicas asked for.
	Excess int64
}

// TargetResult is the answer for one target.
type TargetResult struct {
	Name string
	// Replicas is what to write on the target.
	Replicas int64
	// Pending is the part of Replicas that cannot run there now.
	Pending int64
	Reason  Reason
}
