package scaleup

import (
	"iter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Cluster is what the caller knows of the Kubernetes cluster at one instant.
type Cluster struct {
	// Nodes are the registered nodes, each with the pods bound to it.
	Nodes []predicates.Node
	// Pending are the pods that no node runs.
	Pending []*v1.Pod
	// DaemonSets count on the template of a group without a node.
	DaemonSets []*appsv1.DaemonSet
	// Shifts are the zones that users have shifted away.
	Shifts []zonalshift.Mark
}

// podSpecs yields what the pods of the cluster ask for, those of its daemon sets included.
func (c Cluster) podSpecs() iter.Seq[*v1.PodSpec] {
	return func(yield func(*v1.PodSpec) bool) {
		for _, pod := range c.Pending {
			if !yield(&pod.Spec) {
				return
			}
		}
		for _, n := range c.Nodes {
			for _, pod := range n.Pods {
				if !yield(&pod.Spec) {
					return
				}
			}
		}
		for _, set := range c.DaemonSets {
			if !yield(&set.Spec.Template.Spec) {
				return
			}
		}
	}
}

// World is all that a plan is made from.
type World struct {
	Now    time.Time
	Groups []Group // by name
	// Nodes are the nodes that pods may run on or do run on. Nodes that are
	// still starting are not among them: they count as Upcoming.
	Nodes []predicates.Node
	// GroupOf names the group of each of Nodes, empty for a node of none.
	GroupOf []string
	Pending []*v1.Pod
	// Shift is what follows from zones that are shifted away, or were.
	Shift zonalshift.Decision
}

// Group is one node group as the cloud and the cluster show it.
type Group struct {
	ID       string
	Zone     string
	Min, Max int
	// Target is the size the cloud works towards.
	Target int
	// Ready, NotStarted and Unready count registered nodes: those that run,
	// those that were never ready yet, and those that stopped being ready.
	Ready, NotStarted, Unready int
	// Upcoming nodes were ordered and are not ready yet. Orders tell when, the oldest
	// first, as far as it is known.
	Upcoming int
	Orders   nodegroupset.Orders
	// StartupTime is how long a node takes from its order; 0 where that is not known.
	StartupTime StartupTime
	// NodeName is what the nodes that are on their way are called, the oldest first, and after
	// them those that are ordered next; nil where that is not known.
	NodeName func(i int) string
	// Template is nil where neither a node nor the cloud gives one.
	Template *cloudprovider.Template
	// TemplateFrom names where the template comes from: "node NAME", "cloud",
	// or "cloud, completed from GROUP (ephemeral-storage)".
	TemplateFrom string
	// Price of one node for one hour, where HasPrice.
	Price    cloudprovider.Price
	HasPrice bool
	// AllOrNothing groups are either empty or at their maximum.
	AllOrNothing bool
	// BackedOffUntil is set while a refusal keeps the group from growing.
	BackedOffUntil time.Time
	BackoffReason  string
	// Away says why the group does not grow while its zone is shifted away, and Held why it does not
	// shrink while its zone or that of another member of its set is. Lag is by how much it counts as
	// larger in a split, since its zone has come back only lately.
	Away, Held string
	Lag        int
	// StartupDeadline is that of the group's set, 0 without one. OnTrial groups have missed
	// it, and get one node until one has become ready.
	StartupDeadline time.Duration
	OnTrial         bool
	// Came are what nodes look like that came for the pods of CameFor, by their
	// positions in World.Pending, which wait all the same.
	Came    []cloudprovider.Template
	CameFor map[int]bool
	// Err is what could not be read of this group; it is then left alone.
	Err error

	arrived int // how many of the nodes that NodeName names have come in a world that was foreseen
}

// StartupTime is how long a new node takes from its order.
type StartupTime struct {
	Registered time.Duration // until other pods are spread over it too
	Ready      time.Duration // until pods run on it
}
