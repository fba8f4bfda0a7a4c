package conformance

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var deletionRules = []Rule{
	{"delete-lowers-target", "DeleteNodes lowers the target size by the number of nodes, and their instances go.", deleteLowersTarget},
	{"delete-only-named", "DeleteNodes deletes no other node than those named.", deleteOnlyNamed},
	{"delete-own-only", "DeleteNodes refuses nodes of other groups and of no group with ErrNotInGroup, and deletes none.", deleteOwnOnly},
}

// grownWithInstances grows a group by so many nodes that really come.
func (s *subject) grownWithInstances(ctx context.Context, nodes int) (grown, []cloudprovider.Instance, error) {
	g, err := s.grow(ctx, nodes)
	if err != nil {
		return g, nil, err
	}
	staying, err := s.existing(ctx, g.ID)
	if err != nil {
		return g, nil, err
	}
	if len(staying) < nodes {
		return g, nil, notCheckable(fmt.Sprintf("group %q was given %d nodes and has %d instances", g.ID, nodes, len(staying)))
	}
	return g, staying, nil
}

// deleteNewest deletes the newest instance of a group that was grown by two.
func deleteNewest(ctx context.Context, s *subject) (g grown, victim string, others []cloudprovider.Instance, err error) {
	g, staying, err := s.grownWithInstances(ctx, 2)
	if err != nil {
		return g, "", nil, err
	}
	last := len(staying) - 1
	victim = staying[last].ID
	if err := s.DeleteNodes(ctx, g.ID, []*v1.Node{fakeNode(victim)}); err != nil {
		return g, "", nil, fmt.Errorf("DeleteNodes(%s, %s): %w", g.ID, victim, err)
	}
	return g, victim, staying[:last], nil
}

func deleteLowersTarget(ctx context.Context, s *subject) error {
	g, victim, _, err := deleteNewest(ctx, s)
	defer s.shrinkBack(ctx, g.ID, g.Before)
	if err != nil {
		return err
	}
	target, err := s.TargetSize(ctx, g.ID)
	if err != nil {
		return err
	}
	if target != g.Target-1 {
		return fmt.Errorf("deleting one node of %q took the target size from %d to %d", g.ID, g.Target, target)
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	staying, err := s.existing(ctx, g.ID)
	if err != nil {
		return err
	}
	for _, in := range staying {
		if in.ID == victim {
			return fmt.Errorf("instance %q was deleted and is still %v", victim, in.State)
		}
	}
	return nil
}

func deleteOnlyNamed(ctx context.Context, s *subject) error {
	g, victim, others, err := deleteNewest(ctx, s)
	defer s.shrinkBack(ctx, g.ID, g.Before)
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	staying, err := s.existing(ctx, g.ID)
	if err != nil {
		return err
	}
	if missing := missingFrom(staying, others); missing != "" {
		return fmt.Errorf("instance %q was to be deleted, %q is gone too", victim, missing)
	}
	return nil
}

func deleteOwnOnly(ctx context.Context, s *subject) error {
	g, staying, err := s.grownWithInstances(ctx, 1)
	defer s.shrinkBack(ctx, g.ID, g.Before)
	if err != nil {
		return err
	}
	strangers := []*v1.Node{foreignNode()}
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	for _, other := range groups {
		if instances, err := s.existing(ctx, other.ID); err == nil && other.ID != g.ID && len(instances) > 0 {
			strangers = append(strangers, fakeNode(instances[0].ID))
			break
		}
	}
	own := fakeNode(staying[len(staying)-1].ID)
	for _, stranger := range strangers {
		refusal := s.DeleteNodes(ctx, g.ID, []*v1.Node{own, stranger})
		call := fmt.Sprintf("DeleteNodes(%s, own node and %s)", g.ID, stranger.Name)
		if err := s.targetStays(ctx, g.ID, g.Target, call, refusal); err != nil {
			return err
		}
		if !errors.Is(refusal, cloudprovider.ErrNotInGroup) {
			return fmt.Errorf("%s answered %q, which is not ErrNotInGroup", call, refusal)
		}
		after, err := s.existing(ctx, g.ID)
		if err != nil {
			return err
		}
		if missing := missingFrom(after, staying); missing != "" {
			return fmt.Errorf("%s was refused, and yet %q is gone", call, missing)
		}
	}
	return nil
}
