package steering

import (
	"fmt"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Bounds returns the minimum and the maximum of a group that Cluster Autoscaler is given: by them it removes nodes
// from other groups, or orders them there.
func (s *State) Bounds(g *Group) (least, most int) {
	most = g.MaxSize
	if b := s.known(g.ID); b.full && s.HidesFailures() {
		most = min(most, max(b.target, 0))
	}
	return min(s.minimum(g), most), most
}

// capServed has Cluster Autoscaler ask other members than in the last loop, where it balances by itself. It knows neither which
// members have failed nor what their shares are, and asks the smallest for all nodes, again and again: of sizes 3, 5 and 5, with
// the first backed off, it asks the first for two more nodes in every loop. If others should have got nodes in the loop that has
// ended and were not asked, the members that were asked are at their maximum in this one.
func (s *State) capServed() {
	p, passed := s.caller.pick, false
	if p != nil && p.refuse == "" && !p.full {
		passed = len(p.Shares) == 0 && !s.caller.grown[p.Group]
		for id, share := range p.Shares {
			passed = passed || share > 0 && !s.caller.grown[id]
		}
	}
	for _, b := range s.groups {
		b.full, b.short = passed && (b.short || b.full) && s.caller.balancing != byNobody, false
	}
}

// Cluster Autoscaler takes a group to be unhealthy, and does not let it grow, as long as more than
// a few nodes are missing that it has not asked for. So it is with all nodes on their way when a new
// process of it begins. They are left out of the target size that Cluster Autoscaler reads, until it has
// asked for the group again.

// Shown returns the target size of a group as Cluster Autoscaler reads it. It is not below the group's
// minimum, to which Cluster Autoscaler would raise it, on account of that.
func (s *State) Shown(id string) int {
	b := s.known(id)
	if b.unshown == 0 || !s.HidesFailures() {
		return b.target
	}
	minimum := 0
	if g := s.view.group(id); g != nil {
		minimum = g.MinSize
	}
	return max(b.target-b.unshown, min(b.target, minimum))
}

// hide leaves the nodes of all groups that are on their way out of what a new process of Cluster
// Autoscaler is shown.
func (s *State) hide(at *observation) {
	for id, g := range s.view.Groups {
		s.state(id).hide(g, at)
	}
}

// hide leaves what is on its way out of what Cluster Autoscaler is shown.
func (b *groupState) hide(g *Group, at *observation) {
	if !g.ZeroOrMax {
		b.unshown = at.count(g, b).expected
	}
}

// Cluster Autoscaler takes a group without any instance to be unhealthy, and does not let it grow,
// unless exactly its target size is what it has asked for. A member that was granted less is like
// that until the cloud lists the first of its instances. Until then placeholders stand for them: they
// are instances without a node, which Cluster Autoscaler expects as it does those to come.

const placeholderPrefix = "evenkeel://ordered/"

// Placeholders returns instances that stand for nodes that are ordered and not listed yet, for a
// group without any instance. They are shown for half the provision time at most, however often the
// group is ordered again: Cluster Autoscaler deletes instances that have not registered after it.
func (s *State) Placeholders(g *Group, now time.Time) []cloudprovider.Instance {
	b := s.known(g.ID)
	late := b.empty.IsZero() || now.Sub(b.empty) >= s.o.MaxNodeProvisionTime/2
	if late || len(g.Instances) > 0 || g.Err != nil || b.off.missing > 0 || !s.HidesFailures() {
		return nil
	}
	var out []cloudprovider.Instance
	for i := range b.target - g.existing() {
		out = append(out, cloudprovider.Instance{ID: fmt.Sprint(placeholderPrefix, g.ID, "/", i), State: cloudprovider.InstanceCreating})
	}
	return out
}

// watchEmpty notes since when a group has nodes on order and no instance.
func (b *groupState) watchEmpty(g *Group, now time.Time) {
	watchSince(&b.empty, g.existing() == 0 && b.target != 0, now)
}

// PlaceholderOf returns the group of a placeholder, by its id; ok is false for an instance of the
// cloud.
func PlaceholderOf(id string) (group string, ok bool) {
	rest, ok := strings.CutPrefix(id, placeholderPrefix)
	if !ok {
		return "", false
	}
	return rest[:max(0, strings.LastIndexByte(rest, '/'))], true
}
