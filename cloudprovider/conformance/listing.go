package conformance

import (
	"context"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var listingRules = []Rule{
	{"listing-sorted", InProcess, "NodeGroups lists groups sorted by id.", on(listingSorted)},
	{"listing-stable", Reads, "NodeGroups answers the same ids and bounds until the next Refresh.", on(listingStable)},
	{"ids-unique", Reads, "Every node group has an id of its own that is not empty.", on(idsUnique)},
	{"bounds-ordered", Reads, "Bounds satisfy 0 <= MinSize <= MaxSize.", on(boundsOrdered)},
	{"target-readable", Reads, "Every listed group has a target size that is not negative.", on(targetReadable)},
	{"refresh-idempotent", Reads, "Refreshing twice changes neither groups nor target sizes.", on(refreshIdempotent)},
	{"groups-listed", Reads, "NodeGroups lists at least one node group; without one nothing else can be checked.", on(groupsListed)},
}

func compareIDs(a, b cloudprovider.NodeGroup) int { return strings.Compare(a.ID, b.ID) }

// sameGroups compares everything except the debug lines.
func sameGroups(a, b []cloudprovider.NodeGroup) bool {
	return slices.EqualFunc(a, b, func(x, y cloudprovider.NodeGroup) bool {
		x.Debug, y.Debug = "", ""
		return x == y
	})
}

func groupsListed(ctx context.Context, s *subject) {
	if len(s.groups(ctx)) == 0 {
		s.Failf("there is no node group, so no other rule says anything about the provider: configure one")
	}
}

func listingSorted(ctx context.Context, s *subject) {
	groups := s.groups(ctx)
	if len(groups) == 0 {
		s.Add(Skip("there is no node group"))
	}
	if !slices.IsSortedFunc(groups, compareIDs) {
		s.Failf("not sorted: %v", groups)
	}
}

func listingStable(ctx context.Context, s *subject) {
	first := s.groups(ctx)
	for range 5 {
		if again := s.groups(ctx); !sameGroups(first, again) {
			s.Failf("first %v, then %v", first, again)
		}
	}
}

func idsUnique(ctx context.Context, s *subject) {
	seen := map[string]bool{}
	for i, g := range s.groups(ctx) {
		if g.ID == "" {
			s.Failf("group %d has no id", i)
		}
		if seen[g.ID] {
			s.Failf("two groups have the id %q", g.ID)
		}
		seen[g.ID] = true
	}
}

func boundsOrdered(ctx context.Context, s *subject) {
	for _, g := range s.groups(ctx) {
		if g.MinSize < 0 || g.MinSize > g.MaxSize {
			s.Failf("group %q has minimum %d and maximum %d", g.ID, g.MinSize, g.MaxSize)
		}
	}
}

func targetReadable(ctx context.Context, s *subject) {
	if len(s.targets(ctx)) == 0 {
		s.Add(Skip("there is no node group"))
	}
}

func (s *subject) targets(ctx context.Context) map[string]int {
	targets := map[string]int{}
	for _, g := range s.groups(ctx) {
		if targets[g.ID] = s.target(ctx, g.ID); targets[g.ID] < 0 {
			s.Failf("group %q has the target size %d", g.ID, targets[g.ID])
		}
	}
	return targets
}

func refreshIdempotent(ctx context.Context, s *subject) {
	s.do("first Refresh", func() error { return s.Refresh(ctx) })
	groups, targets := s.groups(ctx), s.targets(ctx)
	s.do("second Refresh", func() error { return s.Refresh(ctx) })
	if again := s.groups(ctx); !sameGroups(groups, again) {
		s.Failf("groups were %v, after the second Refresh %v", groups, again)
	}
	for _, g := range groups {
		if target := s.target(ctx, g.ID); target != targets[g.ID] {
			s.Failf("target size of %q was %d, after the second Refresh %d", g.ID, targets[g.ID], target)
		}
	}
}
