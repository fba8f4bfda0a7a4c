package linked

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// fleet is what one round of scale-down has to know of the node groups. Each group is read once,
// and only when its set matters.
type fleet[G NodeGroup] struct {
	cloud     Cloud[G]
	deletions Deletions // nil: nothing is on its way out
	setOf     func(group string) string
	termsOf   func(group string) *nodegroupset.Terms // nil: nothing is declared

	groups []nodegroupset.ShrinkGroup
	seen   map[string]int // group id to its position in groups; -1: left to the autoscaler
}

func newFleet[G NodeGroup](cloud Cloud[G], deletions Deletions, setOf func(group string) string,
	termsOf func(group string) *nodegroupset.Terms) *fleet[G] {
	return &fleet[G]{cloud: cloud, deletions: deletions, setOf: setOf, termsOf: termsOf, seen: map[string]int{}}
}

// groupOf is the group of a node. It is false for nodes that are left to the autoscaler: those in
// no group that can be read, and those of groups that are all or nothing.
func (f *fleet[G]) groupOf(node *v1.Node) (nodegroupset.ShrinkGroup, bool) {
	if group, ours := groupOf(f.cloud, node); ours {
		return f.read(group)
	}
	return nodegroupset.ShrinkGroup{}, false // what the autoscaler's own processors report
}

// withPartners are the groups read so far and all others of their sets, because those without a
// candidate count for the level too.
func (f *fleet[G]) withPartners() []nodegroupset.ShrinkGroup {
	wanted := map[string]bool{}
	for _, g := range f.groups {
		wanted[g.Set] = g.Set != ""
	}
	for _, group := range f.cloud.NodeGroups() {
		if wanted[f.setOf(group.Id())] {
			f.read(group)
		}
	}
	return f.groups
}

func (f *fleet[G]) read(group G) (nodegroupset.ShrinkGroup, bool) {
	id := group.Id()
	at, known := f.seen[id]
	if !known {
		at = -1
		// One that cannot say whether it is all or nothing is left alone too.
		if whole, err := f.cloud.ZeroOrMax(group); err == nil && !whole {
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

// measure is a group as nodegroupset sees it. One whose size cannot be read is levelled with none,
// and keeps no other waiting.
func (f *fleet[G]) measure(group G) nodegroupset.ShrinkGroup {
	id := group.Id()
	size, err := group.TargetSize()
	if err != nil {
		klog.ErrorS(err, "Node group is not kept level with its set: its target size cannot be read", "nodeGroup", id)
		return nodegroupset.ShrinkGroup{Name: id, Size: nodegroupset.MaxSize}
	}
	if f.deletions != nil {
		size -= f.deletions.DeletionsCount(id)
	}
	return nodegroupset.ShrinkGroup{Name: id, Set: f.setOf(id), Size: inBounds(size), Min: inBounds(group.MinSize())}
}

func inBounds(size int) int64 { return int64(min(max(size, 0), nodegroupset.MaxSize)) }

// shrinkInTurns is nodegroupset.Shrink where the candidates of turn 0 are chosen first, as if there
// were no others, and those of turn 1 with what is left of the limits.
func shrinkInTurns(request nodegroupset.ShrinkRequest, later []bool) (nodegroupset.ShrinkResult, error) {
	all := request.Candidates
	request.Groups = append([]nodegroupset.ShrinkGroup(nil), request.Groups...)
	groups := make(map[string]*nodegroupset.ShrinkGroup, len(request.Groups))
	for i := range request.Groups {
		groups[request.Groups[i].Name] = &request.Groups[i]
	}
	var out nodegroupset.ShrinkResult
	gone := make([]bool, len(all))
	for _, everybody := range []bool{false, true} {
		var positions []int
		request.Candidates = nil
		for i, candidate := range all {
			if !gone[i] && (everybody || !later[i]) {
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
		out.Waits = out.Waits[:0]
		for _, wait := range result.Waits {
			wait.Candidate = positions[wait.Candidate]
			out.Waits = append(out.Waits, wait)
		}
	}
	return out, nil
}
