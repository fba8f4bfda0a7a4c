package scaledown

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/scaleup"
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
	// Grew is set in a round in which the cluster grows; nothing is removed then,
	// nor before CoolingUntil.
	Grew         bool
	CoolingUntil time.Time
}

// Group is one node group. Its Target does not count nodes on their way out.
type Group struct {
	scaleup.Group
	// Settings are the group's own settings, or the defaults.
	Settings cloudprovider.GroupOptions
	// RetryAt is set while the group is left alone because a deletion failed.
	RetryAt time.Time
}

// Node is one node with the pods on it, and what earlier rounds found.
type Node struct {
	predicates.Node
	Group string // empty for a node of none
	// Leaving nodes are on their way out; Draining ones had pods to move.
	Leaving, Draining bool
	// UnneededSince is when the node was first found not to be needed, and
	// DeferredSince when it was first held back for the level of its set. Both are
	// zero where that is not so.
	UnneededSince, DeferredSince time.Time
}
