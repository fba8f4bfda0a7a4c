package pending

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/explain"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/topologyspread"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Cluster is what is known of a cluster.
type Cluster struct {
	Nodes   []topologyspread.Node
	Pending []*v1.Pod
	Groups  map[string]Group
	// Notes are what an answer leaves out or rests on.
	Notes []string
}

// Group is a node group.
type Group struct {
	Template cloudprovider.Template
	// Stuck says why the group gets no node, whatever the pods; it is empty if it may.
	Stuck string
	// Room is how many nodes the group may get; below 0 it is not known.
	Room int
	// Coming is how many nodes are ordered and not there yet.
	Coming int
}

// OfRound is the cluster as a round of the pipeline sees it.
func OfRound(nodes []predicates.Node, pods []*v1.Pod, groups []autoscaler.Group) *Cluster {
	c := &Cluster{Pending: pods, Groups: make(map[string]Group, len(groups))}
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, topologyspread.Node(n))
	}
	for i := range groups {
		if g := &groups[i]; g.Template != nil {
			c.Groups[g.ID] = Group{Template: *g.Template, Stuck: stuck(g), Room: max(0, g.Max-g.Target), Coming: g.Upcoming}
		}
	}
	return c
}

// stuck says why a group gets no node now.
func stuck(g *autoscaler.Group) string {
	switch {
	case g.Away != "":
		return g.Away
	case !g.BackedOffUntil.IsZero():
		return "it is backed off: " + g.BackoffReason
	case g.Target >= g.Max:
		return fmt.Sprintf("it is at its maximum of %d", g.Max)
	}
	return ""
}

// OfFleet is a cluster of which the nodes and pods were read from files, with the sets of its groups,
// while these zones are shifted away.
func OfFleet(fleet *explain.Fleet, sets []nodegroupset.ReportSet, marks []zonalshift.Mark, now time.Time) (*Cluster, error) {
	c := &Cluster{Nodes: fleet.Cluster.Nodes, Pending: fleet.Cluster.Pending, Groups: make(map[string]Group, len(fleet.Groups))}
	shifts, err := zonalshift.New(zonalshift.Options{})
	if err != nil {
		return nil, err
	}
	var groups []zonalshift.Group
	for i := range sets {
		for _, name := range sets[i].Groups {
			g := zonalshift.Group{Name: name, Labels: fleet.Groups[name].Node.Labels, Max: 1} // sizes matter to a return only
			if len(sets[i].Groups) > 1 {
				g.Set = sets[i].Groups[0]
			}
			groups = append(groups, g)
		}
	}
	decision := shifts.Advance(now, marks, groups)
	for _, shift := range decision.Ignored {
		c.Notes = append(c.Notes, shift.String())
	}
	for name, t := range fleet.Groups {
		c.Groups[name] = Group{Template: t, Stuck: decision.Away[name], Room: -1}
	}
	if !fleet.Cluster.Volumes {
		c.leaveClaimsOut()
	}
	return c, nil
}

// leaveClaimsOut takes the volume claims off the pending pods, since nothing is known of them.
func (c *Cluster) leaveClaimsOut() {
	isClaim := func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }
	pods, spread := slices.Clone(c.Pending), false
	for i, p := range pods {
		if slices.ContainsFunc(p.Spec.Volumes, isClaim) {
			own := *p
			own.Spec.Volumes = slices.DeleteFunc(slices.Clone(p.Spec.Volumes), isClaim)
			pods[i], spread = &own, spread || len(p.Spec.TopologySpreadConstraints) > 0
		}
	}
	c.Pending = pods
	if spread {
		c.Notes = append(c.Notes, "the volume claims of pending pods are not counted; they are if the list of pods is that of "+
			"kubectl get pods,persistentvolumeclaims,persistentvolumes,storageclasses -A")
	}
}
