package conformance

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// subject is the provider under test, with what a rule finds. Its own methods ask the provider as
// long as the check has not ended, and answer nothing afterwards.
type subject struct {
	cloudprovider.Provider
	Findings
	harness Harness
}

// aside is the same provider for questions whose answers the rule does not depend on.
func (s *subject) aside() *subject { return &subject{Provider: s.Provider, harness: s.harness} }

func (s *subject) groups(ctx context.Context) []cloudprovider.NodeGroup {
	return Ask(&s.Findings, "NodeGroups", func() ([]cloudprovider.NodeGroup, error) { return s.NodeGroups(ctx) })
}

func (s *subject) target(ctx context.Context, id string) int {
	return Ask(&s.Findings, fmt.Sprintf("TargetSize(%s)", id), func() (int, error) { return s.TargetSize(ctx, id) })
}

func (s *subject) instances(ctx context.Context, id string) []cloudprovider.Instance {
	return Ask(&s.Findings, fmt.Sprintf("Nodes(%s)", id), func() ([]cloudprovider.Instance, error) { return s.Nodes(ctx, id) })
}

func (s *subject) existing(ctx context.Context, id string) []cloudprovider.Instance {
	return slices.DeleteFunc(slices.Clone(s.instances(ctx, id)), func(in cloudprovider.Instance) bool {
		return in.State == cloudprovider.InstanceDeleting
	})
}

func (s *subject) increase(ctx context.Context, id string, nodes int) {
	s.do(fmt.Sprintf("IncreaseSize(%s, %d) within bounds", id, nodes), func() error { return s.IncreaseSize(ctx, id, nodes) })
}

func (s *subject) delete(ctx context.Context, id string, node *v1.Node) {
	s.do(fmt.Sprintf("DeleteNodes(%s, %s)", id, node.Name), func() error { return s.DeleteNodes(ctx, id, []*v1.Node{node}) })
}

func (s *subject) waitForNodes(ctx context.Context) {
	if s.harness.WaitForNodes != nil {
		s.do("waiting for nodes", func() error { return s.harness.WaitForNodes(ctx) })
	}
}

// do makes a call that answers nothing but an error.
func (s *subject) do(call string, do func() error) {
	Ask(&s.Findings, call, func() (struct{}, error) { return struct{}{}, do() })
}

func (s *subject) registered(ctx context.Context) []*v1.Node {
	if s.harness.RegisteredNodes == nil {
		s.Add(Skip("node objects cannot be read"))
	}
	return Ask(&s.Findings, "listing node objects", func() ([]*v1.Node, error) { return s.harness.RegisteredNodes(ctx) })
}

func (s *subject) changeable(ctx context.Context) []cloudprovider.NodeGroup {
	return slices.DeleteFunc(slices.Clone(s.groups(ctx)), func(g cloudprovider.NodeGroup) bool {
		return len(s.harness.Groups) > 0 && !slices.Contains(s.harness.Groups, g.ID)
	})
}

// start is a group as it was before a rule changed it.
type start struct {
	ID   string
	Size int // target size
	Had  []cloudprovider.Instance
}

// startOf returns the state of a group. If not all of it is known, it returns the zero value, and
// nothing is put back.
func (s *subject) startOf(ctx context.Context, id string) start {
	before := start{ID: id, Size: s.target(ctx, id), Had: s.existing(ctx, id)}
	if s.Ended() {
		return start{}
	}
	return before
}

// groupWithRoom returns a group that has room for that many nodes; without one the rule is skipped.
func (s *subject) groupWithRoom(ctx context.Context, nodes int) start {
	for _, g := range s.changeable(ctx) {
		if target := s.target(ctx, g.ID); target >= 0 && target >= g.MinSize && target+nodes <= g.MaxSize {
			return s.startOf(ctx, g.ID)
		}
	}
	s.Add(Skip("no group that may be changed has room for %d more nodes", nodes))
	return start{}
}

// grown is a group that took nodes for a rule.
type grown struct {
	start
	Target int                      // target size now
	All    []cloudprovider.Instance // those being deleted are left out
	New    []cloudprovider.Instance // those of All that were created for the rule
}

// grow increases some group by that many nodes and waits for them. The caller must put back what it
// returns.
func (s *subject) grow(ctx context.Context, nodes int) grown {
	g := grown{start: s.groupWithRoom(ctx, nodes)}
	s.increase(ctx, g.ID, nodes)
	s.waitForNodes(ctx)
	g.Target, g.All = s.target(ctx, g.ID), s.existing(ctx, g.ID)
	g.New = added(g.Had, g.All)
	return g
}

// grownWithInstances increases a group by that many nodes, all of which must be created.
func (s *subject) grownWithInstances(ctx context.Context, nodes int) grown {
	g := s.grow(ctx, nodes)
	if len(g.New) < nodes {
		s.Add(Skip("group %q was increased by %d nodes, of which %d were created", g.ID, nodes, len(g.New)))
	}
	return g
}

func added(before, after []cloudprovider.Instance) []cloudprovider.Instance {
	known := make(map[string]bool, len(before))
	for _, in := range before {
		known[in.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(after), func(in cloudprovider.Instance) bool { return known[in.ID] })
}

// missingFrom returns the id of an instance of before that is not in after.
func missingFrom(after, before []cloudprovider.Instance) string {
	if gone := added(after, before); len(gone) > 0 {
		return gone[0].ID
	}
	return ""
}

// putBack cancels orders and deletes nodes that were created for a rule until the group's size is
// what it was, as far as the cloud allows it. No rule depends on it, and it deletes no node that
// existed before. It works even when the check has ended or the caller's context is done.
func (s *subject) putBack(ctx context.Context, before start) {
	ctx = context.WithoutCancel(ctx)
	now := s.aside()
	target, staying := now.target(ctx, before.ID), now.existing(ctx, before.ID)
	if now.Ended() {
		return
	}
	if waiting := min(target-len(staying), target-before.Size); waiting > 0 {
		_ = s.DecreaseTargetSize(ctx, before.ID, -waiting)
		target -= waiting
	}
	for _, in := range added(before.Had, staying) {
		if target > before.Size && s.DeleteNodes(ctx, before.ID, []*v1.Node{fakeNode(in.ID)}) == nil {
			target--
		}
	}
}

func fakeNode(instanceID string) *v1.Node {
	return cloudprovider.FakeNode(instanceID, cloudprovider.FakeNodeUnregistered)
}

func foreignNode() *v1.Node {
	node := fakeNode("conformance://no-such-node")
	node.Annotations = nil
	return node
}
