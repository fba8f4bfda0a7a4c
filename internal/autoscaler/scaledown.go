package autoscaler

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// maxEmptyDeletion is how many empty nodes go in one loop.
const maxEmptyDeletion = 10

func fakeNodes(instances []cloudprovider.Instance) []*v1.Node {
	nodes := make([]*v1.Node, len(instances))
	for i, in := range instances {
		nodes[i] = cloudprovider.FakeNode(in.ID, "")
	}
	return nodes
}

// scaleDown deletes ready nodes that have been empty for long enough, down to the minimum of their
// group, in random order. Nodes of a group at its minimum are not looked at, and have been empty
// for no time when they are again. Draining nodes is not part of the model.
func (a *Autoscaler) scaleDown(v *view, now time.Time) {
	unneeded := map[string]time.Time{}
	byGroup := map[string][]*v1.Node{}
	atMin := a.groupsAtMin()
	for i, n := range v.nodes[:v.real] {
		node := n.Node
		id, err := a.remote.groupOf(node)
		if err != nil || id == "" || !ready(node) || deleting(node) || v.occupied[i] || slices.ContainsFunc(n.Pods, moves) || atMin[id] {
			continue
		}
		first, ok := a.unneeded[node.Name]
		if !ok {
			first = now
		}
		unneeded[node.Name] = first
		limit := a.options.ScaleDownUnneeded
		if options, err := a.remote.groupOptions(id); err == nil && options != nil {
			limit = options.ScaleDownUnneededTime
		}
		if !first.Add(limit).After(now) {
			byGroup[id] = append(byGroup[id], node)
		}
	}
	a.unneeded = unneeded
	if a.scaleDownDisabled || a.lastScaleUp.Add(a.options.ScaleDownUnneeded).After(now) {
		return
	}
	budget := maxEmptyDeletion
	for _, g := range a.groupsInAnyOrder() {
		nodes := byGroup[g.ID]
		size, err := a.sizeToShrink(g, nodes)
		if err != nil {
			continue
		}
		nodes = nodes[:max(min(len(nodes), size-g.MinSize(), budget), 0)]
		if len(nodes) == 0 {
			continue
		}
		budget -= len(nodes)
		a.deleteEmpty(g, nodes, now)
	}
}

func moves(pod *v1.Pod) bool { return !template.RunsOnEveryNode(pod) }

// groupsAtMin are the groups no node is taken from in this loop.
func (a *Autoscaler) groupsAtMin() map[string]bool {
	out := map[string]bool{}
	for _, g := range a.remote.NodeGroups() {
		if size, err := a.remote.targetSize(g.ID); err == nil && size <= g.MinSize() {
			out[g.ID] = true
		}
	}
	return out
}

func (a *Autoscaler) sizeToShrink(g *group, nodes []*v1.Node) (int, error) {
	if len(nodes) == 0 {
		return 0, nil
	}
	return a.remote.targetSize(g.ID)
}

// deleteEmpty taints the nodes and deletes them; a failure takes the taint back.
func (a *Autoscaler) deleteEmpty(g *group, nodes []*v1.Node, now time.Time) {
	for _, node := range nodes {
		a.world.SetDeleting(node.Name, true)
	}
	if a.remote.deleteNodes(g.ID, nodes, "unneeded") != nil {
		for _, node := range nodes {
			a.world.SetDeleting(node.Name, false)
		}
		return
	}
	a.lastScaleDown = now
	delete(a.registry.cached, g.ID)
	a.registry.recalculate()
}
