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
	{"delete-lowers-target", Changes, "DeleteNodes lowers the target size by the number of nodes and deletes their instances.",
		on(deleteLowersTarget)},
	{"delete-only-named", Changes, "DeleteNodes deletes no other node than those named.", on(deleteOnlyNamed)},
	{"delete-own-only", Changes, "DeleteNodes refuses nodes of other groups and of no group, and deletes none.", on(refusesStrangers(nil))},
	{"delete-own-only-error", InProcess, "The error of such a refusal is ErrNotInGroup.", on(refusesStrangers(cloudprovider.ErrNotInGroup))},
}

// deleteOne deletes one of two instances that were created for the rule.
func deleteOne(ctx context.Context, s *subject) (g grown, victim string) {
	g = s.grownWithInstances(ctx, 2)
	if !s.Ended() {
		victim = g.New[len(g.New)-1].ID
		s.delete(ctx, g.ID, fakeNode(victim))
	}
	return g, victim
}

func deleteLowersTarget(ctx context.Context, s *subject) {
	g, victim := deleteOne(ctx, s)
	defer s.putBack(ctx, g.start)
	if target := s.target(ctx, g.ID); target != g.Target-1 {
		s.Failf("deleting one node of %q took the target size from %d to %d", g.ID, g.Target, target)
	}
	s.waitForNodes(ctx)
	for _, in := range s.existing(ctx, g.ID) {
		if in.ID == victim {
			s.Failf("instance %q was deleted and is still %v", victim, in.State)
		}
	}
}

func deleteOnlyNamed(ctx context.Context, s *subject) {
	g, victim := deleteOne(ctx, s)
	defer s.putBack(ctx, g.start)
	s.waitForNodes(ctx)
	others := slices.DeleteFunc(slices.Clone(g.All), func(in cloudprovider.Instance) bool { return in.ID == victim })
	if missing := missingFrom(s.existing(ctx, g.ID), others); missing != "" {
		s.Failf("only instance %q should have been deleted, but %q is gone too", victim, missing)
	}
}

// refusesStrangers checks that a call with a node of the group and nodes of other groups is
// refused, with the given error if there is one.
func refusesStrangers(want error) func(context.Context, *subject) {
	return func(ctx context.Context, s *subject) { s.refusesStrangers(ctx, want) }
}

func (s *subject) refusesStrangers(ctx context.Context, want error) {
	g := s.grownWithInstances(ctx, 1)
	defer s.putBack(ctx, g.start)
	strangers := []*v1.Node{foreignNode()}
	for _, other := range s.changeable(ctx) {
		if instances := s.aside().existing(ctx, other.ID); other.ID != g.ID && len(instances) > 0 {
			strangers = append(strangers, fakeNode(instances[0].ID))
			break
		}
	}
	for _, stranger := range strangers {
		if s.Ended() {
			return
		}
		refusal := s.DeleteNodes(ctx, g.ID, []*v1.Node{fakeNode(g.New[0].ID), stranger})
		call := fmt.Sprintf("DeleteNodes(%s, own node and %s)", g.ID, stranger.Name)
		s.targetStays(ctx, g.ID, g.Target, call, refusal)
		if want != nil && !errors.Is(refusal, want) {
			s.Failf("%s answered %q, which is not the error %q", call, refusal, want)
		}
		if missing := missingFrom(s.existing(ctx, g.ID), g.All); missing != "" {
			s.Failf("%s was refused, but %q is gone", call, missing)
		}
	}
}
