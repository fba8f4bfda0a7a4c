package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var deletionRules = []Rule{
	{"delete-lowers-target", Changes, "DeleteNodes lowers the target size by the number of nodes and deletes their instances.", deleteLowersTarget},
	{"delete-only-named", Changes, "DeleteNodes deletes no other node than those named.", deleteOnlyNamed},
	{"delete-own-only", Changes, "DeleteNodes refuses nodes of other groups and of no group, and deletes none.", deleteOwnOnly},
	{"delete-own-only-error", InProcess, "The error of such a refusal is ErrNotInGroup.", deleteOwnOnlyError},
}

// deleteOne deletes one of two instances that were created for the rule.
func deleteOne(ctx context.Context, s *subject) (g grown, victim string, err error) {
	g, err = s.grownWithInstances(ctx, 2)
	if err != nil {
		return g, "", err
	}
	victim = g.New[len(g.New)-1].ID
	if err := s.DeleteNodes(ctx, g.ID, []*v1.Node{fakeNode(victim)}); err != nil {
		return g, "", fmt.Errorf("DeleteNodes(%s, %s): %w", g.ID, victim, err)
	}
	return g, victim, nil
}

func deleteLowersTarget(ctx context.Context, s *subject) error {
	g, victim, err := deleteOne(ctx, s)
	defer s.putBack(ctx, g.start)
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
	g, victim, err := deleteOne(ctx, s)
	defer s.putBack(ctx, g.start)
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
	others := slices.DeleteFunc(slices.Clone(g.All), func(in cloudprovider.Instance) bool { return in.ID == victim })
	if missing := missingFrom(staying, others); missing != "" {
		return fmt.Errorf("only instance %q should have been deleted, but %q is gone too", victim, missing)
	}
	return nil
}

func deleteOwnOnly(ctx context.Context, s *subject) error {
	return s.refusesStrangers(ctx, nil)
}

func deleteOwnOnlyError(ctx context.Context, s *subject) error {
	return s.refusesStrangers(ctx, cloudprovider.ErrNotInGroup)
}

// refusesStrangers checks that a call with a node of the group and nodes of other groups is
// refused, with the given error if there is one.
func (s *subject) refusesStrangers(ctx context.Context, want error) error {
	g, err := s.grownWithInstances(ctx, 1)
	defer s.putBack(ctx, g.start)
	if err != nil {
		return err
	}
	strangers := []*v1.Node{foreignNode()}
	groups, err := s.changeable(ctx)
	if err != nil {
		return err
	}
	for _, other := range groups {
		if instances, err := s.existing(ctx, other.ID); err == nil && other.ID != g.ID && len(instances) > 0 {
			strangers = append(strangers, fakeNode(instances[0].ID))
			break
		}
	}
	own := fakeNode(g.New[0].ID)
	for _, stranger := range strangers {
		refusal := s.DeleteNodes(ctx, g.ID, []*v1.Node{own, stranger})
		call := fmt.Sprintf("DeleteNodes(%s, own node and %s)", g.ID, stranger.Name)
		if err := s.targetStays(ctx, g.ID, g.Target, call, refusal); err != nil {
			return err
		}
		if want != nil && !errors.Is(refusal, want) {
			return fmt.Errorf("%s answered %q, which is not the error %q", call, refusal, want)
		}
		after, err := s.existing(ctx, g.ID)
		if err != nil {
			return err
		}
		if missing := missingFrom(after, g.All); missing != "" {
			return fmt.Errorf("%s was refused, but %q is gone", call, missing)
		}
	}
	return nil
}
