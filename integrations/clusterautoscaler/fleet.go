package clusterautoscaler

import (
	"github.com/evenkeel/evenkeel/nodegroupset"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown"
)

// fleet is what one round of scale-down has to know of the node groups. Each group is read once, and only when its set matters.
type fleet struct {
	ctx    *ca_context.AutoscalingContext
	status scaledown.ActuationStatus // nil: nothing is on its way out
	sets   *sets

	groups []nodegroupset.ShrinkGroup
	seen   map[string]int // group id to its position in groups; -1: left to the autoscaler
}

func newFleet(ctx *ca_context.AutoscalingContext, status scaledown.ActuationStatus, sets *sets) *fleet {
	return &fleet{ctx: ctx, status: status, sets: sets, seen: map[string]int{}}
}

// groupOf is the group of a node. It is false for nodes that are left to the autoscaler: those in no group that can be read, and
// those of groups that are all or nothing.
func (f *fleet) groupOf(node *v1.Node) (nodegroupset.ShrinkGroup, bool) {
	group, err := f.ctx.CloudProvider.NodeGroupForNode(node)
	if err != nil || group == nil {
		return nodegroupset.ShrinkGroup{}, false // what the autoscaler's own processors report
	}
	return f.read(group)
}

// withPartners are the groups read so far and all others of their sets, because those without a candidate count for the level too.
func (f *fleet) withPartners() []nodegroupset.ShrinkGroup {
	wanted := map[string]bool{}
	for _, g := range f.groups {
		wanted[g.Set] = g.Set != ""
	}
	for _, group := range f.ctx.CloudProvider.NodeGroups() {
		if wanted[f.sets.setOf(group.Id())] {
			f.read(group)
		}
	}
	return f.groups
}

func (f *fleet) read(group cloudprovider.NodeGroup) (nodegroupset.ShrinkGroup, bool) {
	id := group.Id()
	at, known := f.seen[id]
	if !known {
		at = -1
		if !f.allOrNothing(group) {
			at = len(f.groups)
			f.groups = append(f.groups, f.measure(group))
		}
		f.seen[id] = at
	}
	if at < 0 {
		return nodegroupset.ShrinkGroup{}, false
	}
	return f.groups[at], true
}

// allOrNothing is true for groups that go from max to zero in one step, and for those that do not tell.
func (f *fleet) allOrNothing(group cloudprovider.NodeGroup) bool {
	options, err := group.GetOptions(f.ctx.NodeGroupDefaults)
	if err != nil && err != cloudprovider.ErrNotImplemented {
		return true
	}
	return options != nil && options.ZeroOrMaxNodeScaling
}

// measure is a group as the engine sees it. One whose size can not be read is levelled with none, and keeps no other waiting.
func (f *fleet) measure(group cloudprovider.NodeGroup) nodegroupset.ShrinkGroup {
	id := group.Id()
	size, err := group.TargetSize()
	if err != nil {
		klog.ErrorS(err, "Node group is not kept level with its set: its target size can not be read", "nodeGroup", id)
		return nodegroupset.ShrinkGroup{Name: id, Size: nodegroupset.MaxSize}
	}
	if f.status != nil {
		size -= f.status.DeletionsCount(id)
	}
	return nodegroupset.ShrinkGroup{Name: id, Set: f.sets.setOf(id), Size: inBounds(size), Min: inBounds(group.MinSize())}
}

func inBounds(size int) int64 { return int64(min(max(size, 0), nodegroupset.MaxSize)) }

// shrinkInTurns is nodegroupset.Shrink where the candidates of turn 0 are chosen first, as if there were no others, and those of each
// later turn with what is left of the limits.
func shrinkInTurns(request nodegroupset.ShrinkRequest, turnOf []int) (nodegroupset.ShrinkResult, error) {
	groups := make(map[string]*nodegroupset.ShrinkGroup, len(request.Groups))
	request.Groups = append([]nodegroupset.ShrinkGroup(nil), request.Groups...)
	for i := range request.Groups {
		groups[request.Groups[i].Name] = &request.Groups[i]
	}
	all := request.Candidates
	var out nodegroupset.ShrinkResult
	gone := make([]bool, len(all))
	for turn := 0; ; turn++ {
		var positions []int
		last := true
		request.Candidates = nil
		for i, candidate := range all {
			switch {
			case turnOf[i] > turn:
				last = false
			case !gone[i]:
				positions = append(positions, i)
				request.Candidates = append(request.Candidates, candidate)
			}
		}
		result, err := nodegroupset.Shrink(request)
		if err != nil {
			return nodegroupset.ShrinkResult{}, err
		}
		for _, i := range result.Go {
			candidate := request.Candidates[i]
			groups[candidate.Group].Size--
			request.Nodes--
			if candidate.Drain {
				request.Drains--
			}
			gone[positions[i]] = true
			out.Go = append(out.Go, positions[i])
		}
		if last {
			for _, wait := range result.Waits {
				wait.Candidate = positions[wait.Candidate]
				out.Waits = append(out.Waits, wait)
			}
			return out, nil
		}
	}
}
