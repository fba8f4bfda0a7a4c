package removal

import (
	"time"
)

// Outcome says in one word what happens to a node.
type Outcome string

const (
	// NodeGoes nodes are removed now.
	NodeGoes Outcome = "Goes"
	// WaitsForTime nodes have not been unneeded for long enough.
	WaitsForTime Outcome = "WaitsForTime"
	// WaitsForCoolDown nodes may go once the cluster has not grown, or their
	// group has not failed, for a while.
	WaitsForCoolDown Outcome = "WaitsForCoolDown"
	// WaitsForLevel nodes may go once a larger group of their set has shrunk.
	WaitsForLevel Outcome = "WaitsForLevel"
	// WaitsForLimit nodes may go once others are gone.
	WaitsForLimit Outcome = "WaitsForLimit"
	// WaitsForPod nodes may go once a pod has completed.
	WaitsForPod Outcome = "WaitsForPod"
	// HeldByMin nodes are needed by nobody but their group's minimum.
	HeldByMin Outcome = "HeldByMin"

	// HeldByShift nodes are of a set of which a zone is shifted away.
	HeldByShift Outcome = "HeldByShift"

	// NodeInUse nodes are used above the threshold.
	NodeInUse Outcome = "InUse"
	// NodeBlocked nodes carry a mark or a pod that keeps them.
	NodeBlocked Outcome = "Blocked"
	// NodeNeeded nodes have pods that fit nowhere else.
	NodeNeeded Outcome = "Needed"
	// NodeFixed nodes are of a group that does not shrink.
	NodeFixed Outcome = "Fixed"
	// NodeLeaving nodes are on their way out already.
	NodeLeaving Outcome = "Leaving"
)

// unneeded are the outcomes of nodes that nobody needs.
var unneeded = map[Outcome]bool{
	NodeGoes: true, WaitsForTime: true, WaitsForCoolDown: true,
	WaitsForLevel: true, WaitsForLimit: true, WaitsForPod: true, HeldByMin: true,
}

// Unneeded reports whether nobody needs a node with this outcome.
func (o Outcome) Unneeded() bool { return unneeded[o] }

// NodeOutcome is what happens to one node.
type NodeOutcome struct {
	Node    string
	Group   string
	Outcome Outcome
	// Reason is a sentence fragment a person understands.
	Reason string
	// Drain: it has pods to move.
	Drain bool
	// Behind is the larger group: that it waits for, or that it goes ahead of
	// because it has waited long enough.
	Behind string
	// UnneededSince is that of World, brought up to date, and DueSince when the node may go first.
	UnneededSince time.Time
	DueSince      time.Time
}

// Decision is what one round wants to do and why. Everything that is logged,
// printed or exported comes from it.
type Decision struct {
	// Nodes says of every node of a group what happens to it, in the order of the
	// world.
	Nodes []NodeOutcome
	// Go are the positions in Nodes of those that go, in this order.
	Go []int
	// Next is when the passing of time alone may change the decision; zero where
	// it does not.
	Next time.Time
}
