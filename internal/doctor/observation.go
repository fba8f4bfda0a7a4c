package doctor

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/explain"
)

// Observation is what is known of a cluster. Diagnose leaves it as it is, but for its order.
type Observation struct {
	// Steering is filled by AddWorkload.
	Steering []Steering
	// Status is what Cluster Autoscaler says of itself; nil if there is none, or none that can be read: then
	// StatusProblem says why.
	Status        *autoscalerstatus.Status
	StatusProblem string
	// Label is the label of nodes that names their groups, or several with commas between them. Groups are the node
	// groups. GroupsProblem says why there are none.
	Label         string
	Groups        []Group
	GroupsProblem string
	// Fixed are the names of groups that the Cluster Autoscaler of the status does not resize; they are not among Groups.
	Fixed []string
	// Nodes are all nodes of the cluster, and Pools the pools of those that Karpenter makes.
	Nodes []*v1.Node
	Pools []string
	// Pending are the pending pods with topology spread constraints.
	Pending []explain.PendingSpread
	// Requests are the ProvisioningRequests that are all or nothing.
	Requests []Request
	// Missing are the rights that the reader lacks, and the consequences.
	Missing []string
	// Notes are what else the reader has to say.
	Notes []string
	// Now is when this was so; zero if nobody knows, and then nothing is taken for old.
	Now time.Time

	found []Autoscaler // by AddWorkload
}

// Request is a ProvisioningRequest, which needs at most a node for each of its pods.
type Request struct {
	Name string // with its namespace
	Pods int
}

// Group is a node group.
type Group struct {
	// Name is by the label of its nodes, and Known the name at the cloud, in the status; empty if it is not there.
	Name, Known string
	// Min and Max are its bounds; with Bounded false they are not known.
	Min, Max int
	Bounded  bool
	Nodes    []*v1.Node
	Zones    []string // if its nodes are in several
	// Template is a new node of it, as Cluster Autoscaler compares it; nil if it is unknown, as of most groups without nodes.
	Template *cloudprovider.Template

	state *autoscalerstatus.Group
}

// size is the target size if Cluster Autoscaler says it, else the number of nodes.
func (g *Group) size() int {
	if g.state != nil {
		return g.state.Target
	}
	return len(g.Nodes)
}

// bounds are those of the group, as far as they are known.
func (g *Group) bounds() (least, most int) {
	if !g.Bounded {
		return 0, max(g.size(), unbounded)
	}
	return g.Min, max(g.Max, g.size())
}

// unbounded is the maximum of groups whose bounds are unknown.
const unbounded = 1000

func (g *Group) room() bool { return !g.Bounded || g.size() < g.Max }
