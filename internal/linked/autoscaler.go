package linked

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
)

// NodeGroup is what is read of a node group of the autoscaler. Its method names are those of
// Cluster Autoscaler.
type NodeGroup interface {
	Id() string
	MinSize() int
	MaxSize() int
	TargetSize() (int, error)
}

// Cloud is what is read of the autoscaler's cloud provider, in the autoscaler's own goroutine: a
// provider need not be safe for concurrent use.
type Cloud[G NodeGroup] interface {
	NodeGroups() []G
	// NodeGroupForNode returns the group of a node, nil for a node of none.
	NodeGroupForNode(node *v1.Node) (G, error)
	// ZeroOrMax reports whether a group goes from nothing to its maximum at once and back only.
	ZeroOrMax(group G) (bool, error)
}

// groupOf is the group of a node; ours is false for a node of none, and for one whose group cannot be found.
func groupOf[G NodeGroup](cloud Cloud[G], node *v1.Node) (group G, ours bool) {
	var none G
	group, err := cloud.NodeGroupForNode(node)
	return group, err == nil && any(group) != any(none)
}

// Deletions are the nodes on their way out.
type Deletions interface {
	// DeletionsInProgress returns the names of the empty ones and of those with pods to move.
	DeletionsInProgress() (empty, drained []string)
	// DeletionsCount returns how many of a group there are.
	DeletionsCount(group string) int
}

// Template is what is compared of an autoscaler's template.
type Template struct {
	Node      *v1.Node
	Pods      func() []*v1.Pod // those that run on every node of the group
	Requested podfit.Resources // by these pods
}
