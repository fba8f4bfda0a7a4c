package conformance

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// subject is the provider under test, with the queries that rules have in common.
type subject struct {
	cloudprovider.Provider
	harness Harness
}

func (s *subject) settle(ctx context.Context) error {
	if s.harness.Settle == nil {
		return nil
	}
	if err := s.harness.Settle(ctx); err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}

func (s *subject) registered(ctx context.Context) ([]*v1.Node, error) {
	if s.harness.RegisteredNodes == nil {
		return nil, Skip("node objects cannot be read")
	}
	nodes, err := s.harness.RegisteredNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing node objects: %w", err)
	}
	return nodes, nil
}

// changeable lists the groups that may be changed.
func (s *subject) changeable(ctx context.Context) ([]cloudprovider.NodeGroup, error) {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("NodeGroups: %w", err)
	}
	if len(s.harness.Groups) == 0 {
		return groups, nil
	}
	return slices.DeleteFunc(slices.Clone(groups), func(g cloudprovider.NodeGroup) bool {
		return !slices.Contains(s.harness.Groups, g.ID)
	}), nil
}

// start is a group as it was before a rule changed it.
type start struct {
	ID   string
	Size int // target size
	Had  []cloudprovider.Instance
}

// look records the state of a group.
func (s *subject) look(ctx context.Context, id string) (start, error) {
	target, err := s.TargetSize(ctx, id)
	if err != nil {
		return start{}, fmt.Errorf("TargetSize(%s): %w", id, err)
	}
	had, err := s.existing(ctx, id)
	return start{ID: id, Size: target, Had: had}, err
}

// groupWithRoom returns a group that has room for that many nodes.
func (s *subject) groupWithRoom(ctx context.Context, nodes int) (start, error) {
	groups, err := s.changeable(ctx)
	if err != nil {
		return start{}, err
	}
	for _, g := range groups {
		target, err := s.TargetSize(ctx, g.ID)
		if err != nil {
			return start{}, fmt.Errorf("TargetSize(%s): %w", g.ID, err)
		}
		if target >= 0 && target >= g.MinSize && target+nodes <= g.MaxSize {
			return s.look(ctx, g.ID)
		}
	}
	return start{}, Skip("no group that may be changed has room for %d more nodes", nodes)
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
func (s *subject) grow(ctx context.Context, nodes int) (grown, error) {
	before, err := s.groupWithRoom(ctx, nodes)
	if err != nil {
		return grown{}, err
	}
	g := grown{start: before}
	if err := s.IncreaseSize(ctx, g.ID, nodes); err != nil {
		return g, fmt.Errorf("IncreaseSize(%s, %d) within bounds: %w", g.ID, nodes, err)
	}
	if err := s.settle(ctx); err != nil {
		return g, err
	}
	if g.Target, err = s.TargetSize(ctx, g.ID); err != nil {
		return g, fmt.Errorf("TargetSize(%s): %w", g.ID, err)
	}
	g.All, err = s.existing(ctx, g.ID)
	g.New = added(g.Had, g.All)
	return g, err
}

// grownWithInstances increases a group by that many nodes, all of which must be created.
func (s *subject) grownWithInstances(ctx context.Context, nodes int) (grown, error) {
	g, err := s.grow(ctx, nodes)
	if err == nil && len(g.New) < nodes {
		err = Skip("group %q was increased by %d nodes, of which %d were created", g.ID, nodes, len(g.New))
	}
	return g, err
}

// existing lists the group's instances that are not being deleted.
func (s *subject) existing(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	all, err := s.Nodes(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("Nodes(%s): %w", id, err)
	}
	var staying []cloudprovider.Instance
	for _, in := range all {
		if in.State != cloudprovider.InstanceDeleting {
			staying = append(staying, in)
		}
	}
	return staying, nil
}

// added lists the instances of after that are not in before.
func added(before, after []cloudprovider.Instance) []cloudprovider.Instance {
	known := make(map[string]bool, len(before))
	for _, in := range before {
		known[in.ID] = true
	}
	var fresh []cloudprovider.Instance
	for _, in := range after {
		if !known[in.ID] {
			fresh = append(fresh, in)
		}
	}
	return fresh
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
// existed before. It works even when the caller's context is done.
func (s *subject) putBack(ctx context.Context, before start) {
	ctx = context.WithoutCancel(ctx)
	target, err := s.TargetSize(ctx, before.ID)
	if err != nil || target <= before.Size {
		return
	}
	staying, err := s.existing(ctx, before.ID)
	if err != nil {
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

// foreignNode is a node that no cloud has.
func foreignNode() *v1.Node {
	node := fakeNode("conformance://no-such-node")
	node.Annotations = nil
	return node
}
