package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var listingRules = []Rule{
	{"listing-sorted", InProcess, "NodeGroups lists groups sorted by id.", listingSorted},
	{"listing-stable", Reads, "NodeGroups answers the same ids and bounds until the next Refresh.", listingStable},
	{"ids-unique", Reads, "Every node group has an id of its own that is not empty.", idsUnique},
	{"bounds-ordered", Reads, "Bounds satisfy 0 <= MinSize <= MaxSize.", boundsOrdered},
	{"target-readable", Reads, "Every listed group has a target size that is not negative.", targetReadable},
	{"refresh-idempotent", Reads, "Refreshing twice changes neither groups nor target sizes.", refreshIdempotent},
	{"groups-listed", Reads, "NodeGroups lists at least one node group; without one nothing else can be checked.", groupsListed},
}

func compareIDs(a, b cloudprovider.NodeGroup) int { return strings.Compare(a.ID, b.ID) }

// sameGroups compares everything except the debug lines.
func sameGroups(a, b []cloudprovider.NodeGroup) bool {
	return slices.EqualFunc(a, b, func(x, y cloudprovider.NodeGroup) bool {
		x.Debug, y.Debug = "", ""
		return x == y
	})
}

func groupsListed(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err == nil && len(groups) == 0 {
		return errors.New("there is no node group, so no other rule says anything about the provider: configure one")
	}
	return err
}

func listingSorted(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return Skip("there is no node group")
	}
	if !slices.IsSortedFunc(groups, compareIDs) {
		return fmt.Errorf("not sorted: %v", groups)
	}
	return nil
}

func listingStable(ctx context.Context, s *subject) error {
	first, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	for range 5 {
		again, err := s.NodeGroups(ctx)
		if err != nil {
			return err
		}
		if !sameGroups(first, again) {
			return fmt.Errorf("first %v, then %v", first, again)
		}
	}
	return nil
}

func idsUnique(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, g := range groups {
		if g.ID == "" {
			return fmt.Errorf("group %d has no id", i)
		}
		if seen[g.ID] {
			return fmt.Errorf("two groups have the id %q", g.ID)
		}
		seen[g.ID] = true
	}
	return nil
}

func boundsOrdered(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.MinSize < 0 || g.MinSize > g.MaxSize {
			return fmt.Errorf("group %q has minimum %d and maximum %d", g.ID, g.MinSize, g.MaxSize)
		}
	}
	return nil
}

func targetReadable(ctx context.Context, s *subject) error {
	targets, err := s.targets(ctx)
	if err == nil && len(targets) == 0 {
		return Skip("there is no node group")
	}
	return err
}

// targets returns the target sizes of all groups.
func (s *subject) targets(ctx context.Context) (map[string]int, error) {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("NodeGroups: %w", err)
	}
	targets := make(map[string]int, len(groups))
	for _, g := range groups {
		target, err := s.TargetSize(ctx, g.ID)
		if err != nil {
			return nil, fmt.Errorf("TargetSize(%s): %w", g.ID, err)
		}
		if target < 0 {
			return nil, fmt.Errorf("group %q has the target size %d", g.ID, target)
		}
		targets[g.ID] = target
	}
	return targets, nil
}

func refreshIdempotent(ctx context.Context, s *subject) error {
	if err := s.Refresh(ctx); err != nil {
		return fmt.Errorf("first Refresh: %w", err)
	}
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	targets, err := s.targets(ctx)
	if err != nil {
		return err
	}
	if err := s.Refresh(ctx); err != nil {
		return fmt.Errorf("second Refresh: %w", err)
	}
	again, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	if !sameGroups(groups, again) {
		return fmt.Errorf("groups were %v, after the second Refresh %v", groups, again)
	}
	for _, g := range groups {
		if target, err := s.TargetSize(ctx, g.ID); err != nil || target != targets[g.ID] {
			return fmt.Errorf("target size of %q was %d, after the second Refresh %d (error %v)", g.ID, targets[g.ID], target, err)
		}
	}
	return nil
}
