package removal

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/predicates"
)

// World is all that a plan is made from.
type World struct {
	Now    time.Time
	Groups []Group // by name
	// Nodes are the nodes that pods may run on or do run on, those that still
	// start left out.
	Nodes []Node
	// Pending are the pods that no node runs. Where they fit on nodes that exist,
	// they come before pods that would have to move.
	Pending []*v1.Pod
	// Budgets are the PodDisruptionBudgets, always in the same order.
	Budgets []Budget
	// Floors are the minimums of the whole cluster.
	Floors []Floor
	// CoolingUntil is when nodes may go again, and Cooling why not before.
	CoolingUntil time.Time
	Cooling      string
}

// Floor is a minimum of a resource over all nodes.
type Floor struct {
	Name string
	// Left is how much of it may still go, and Takes what goes with each of the nodes, by position.
	Left  int64
	Takes []int64
}

// Group is one node group.
type Group struct {
	ID string
	// Min is its minimum, and Target its size without nodes on their way out.
	Min, Target int
	// AllOrNothing groups are either empty or at their maximum.
	AllOrNothing bool
	// Settings are the group's own settings, or the defaults.
	Settings cloudprovider.GroupOptions
	// Err is what could not be read of this group; it is then left alone.
	Err error
}

// Node is one node with the pods on it, and what earlier loops found.
type Node struct {
	predicates.Node
	Group string // empty for a node of none
	// Leaving nodes are on their way out; Draining ones had pods to move.
	Leaving, Draining bool
	// UnneededSince is when the node was first found not to be needed; zero where
	// that is not so.
	UnneededSince time.Time
}
