package conformance

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var sizeRules = []Rule{
	{"increase-readable-at-once", Changes, "TargetSize shows an increase as soon as IncreaseSize has returned.", increaseReadable},
	{"increase-within-max", Changes, "An increase beyond MaxSize is refused and leaves the target size alone.", increaseWithinMax},
	{"increase-positive", Changes, "IncreaseSize refuses a delta of zero or less.", increasePositive},
	{"increase-stays", Changes, "The target size stays when ordered nodes come up, and instances do not exceed it.", increaseStays},
	{"decrease-negative", Changes, "DecreaseTargetSize refuses a delta of zero or more.", decreaseNegative},
	{"decrease-lowers-target", Changes, "DecreaseTargetSize lowers the target size by orders that are not fulfilled.", decreaseLowersTarget},
	{"decrease-keeps-instances", Changes, "DecreaseTargetSize never deletes an instance nor goes below their number.", decreaseKeepsInstances},
}

// targetStays checks that a call that had to be refused changed nothing.
func (s *subject) targetStays(ctx context.Context, id string, before int, call string, err error) error {
	if err == nil {
		return fmt.Errorf("%s was not refused", call)
	}
	after, readErr := s.TargetSize(ctx, id)
	if readErr != nil {
		return fmt.Errorf("TargetSize(%s): %w", id, readErr)
	}
	if after != before {
		return fmt.Errorf("%s was refused (%v), but the target size went from %d to %d", call, err, before, after)
	}
	return nil
}

// refuses checks that each of the deltas, which depend on the group and its
// size, is refused by all groups that may be changed.
func (s *subject) refuses(ctx context.Context, method string, call func(context.Context, string, int) error, deltas func(cloudprovider.NodeGroup, int) []int) error {
	groups, err := s.changeable(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		before, err := s.look(ctx, g.ID)
		if err != nil {
			return err
		}
		for _, delta := range deltas(g, before.Size) {
			text := fmt.Sprintf("%s(%s, %d) from %d with maximum %d", method, g.ID, delta, before.Size, g.MaxSize)
			if err := s.targetStays(ctx, g.ID, before.Size, text, call(ctx, g.ID, delta)); err != nil {
				s.putBack(ctx, before)
				return err
			}
		}
	}
	return nil
}

func increaseWithinMax(ctx context.Context, s *subject) error {
	return s.refuses(ctx, "IncreaseSize", s.IncreaseSize, func(g cloudprovider.NodeGroup, size int) []int {
		return []int{max(g.MaxSize-size, 0) + 1}
	})
}

func increasePositive(ctx context.Context, s *subject) error {
	return s.refuses(ctx, "IncreaseSize", s.IncreaseSize, func(cloudprovider.NodeGroup, int) []int { return []int{0, -1} })
}

func decreaseNegative(ctx context.Context, s *subject) error {
	return s.refuses(ctx, "DecreaseTargetSize", s.DecreaseTargetSize, func(cloudprovider.NodeGroup, int) []int { return []int{0, 1} })
}

func increaseReadable(ctx context.Context, s *subject) error {
	g, err := s.groupWithRoom(ctx, 2)
	if err != nil {
		return err
	}
	defer s.putBack(ctx, g)
	for i := 1; i <= 2; i++ {
		if err := s.IncreaseSize(ctx, g.ID, 1); err != nil {
			return fmt.Errorf("IncreaseSize(%s, 1) within bounds: %w", g.ID, err)
		}
		target, err := s.TargetSize(ctx, g.ID)
		if err != nil {
			return err
		}
		if target != g.Size+i {
			return fmt.Errorf("group %q of size %d grew by %d, its target size reads %d", g.ID, g.Size, i, target)
		}
	}
	return nil
}

func increaseStays(ctx context.Context, s *subject) error {
	g, err := s.grow(ctx, 2)
	defer s.putBack(ctx, g.start)
	if err != nil {
		return err
	}
	if len(g.All) > g.Target {
		return fmt.Errorf("group %q has %d instances and the target size %d", g.ID, len(g.All), g.Target)
	}
	if g.Target != g.Size+2 {
		return fmt.Errorf("group %q of size %d grew by 2; when that had settled, its target size was %d", g.ID, g.Size, g.Target)
	}
	return nil
}

// unfulfilled finds a group with an order that has no instance yet. If there is none, it orders a
// node.
func (s *subject) unfulfilled(ctx context.Context) (start, error) {
	groups, err := s.changeable(ctx)
	if err != nil {
		return start{}, err
	}
	for _, order := range []bool{false, true} {
		for _, g := range groups {
			before, err := s.look(ctx, g.ID)
			if err != nil {
				return start{}, err
			}
			if order && (before.Size >= g.MaxSize || s.IncreaseSize(ctx, g.ID, 1) != nil) {
				continue
			}
			now, err := s.look(ctx, g.ID)
			if err != nil {
				return start{}, err
			}
			if now.Size > len(now.Had) {
				return now, nil
			}
			s.putBack(ctx, before)
		}
	}
	return start{}, Skip("every order has its instance at once")
}

func decreaseLowersTarget(ctx context.Context, s *subject) error {
	g, err := s.unfulfilled(ctx)
	if err != nil {
		return err
	}
	if err := s.DecreaseTargetSize(ctx, g.ID, -1); err != nil {
		return fmt.Errorf("DecreaseTargetSize(%s, -1) with target size %d and %d instances: %w", g.ID, g.Size, len(g.Had), err)
	}
	after, err := s.TargetSize(ctx, g.ID)
	if err != nil {
		return err
	}
	if after != g.Size-1 {
		return fmt.Errorf("DecreaseTargetSize(%s, -1) took the target size from %d to %d", g.ID, g.Size, after)
	}
	return nil
}

func decreaseKeepsInstances(ctx context.Context, s *subject) error {
	g, err := s.grow(ctx, 1)
	defer s.putBack(ctx, g.start)
	if err != nil {
		return err
	}
	// It may be refused, or reduced to what is unfulfilled: both are allowed, so the error is
	// ignored.
	delta := len(g.All) - g.Target - 1
	refusal := s.DecreaseTargetSize(ctx, g.ID, delta)
	if err := s.settle(ctx); err != nil {
		return err
	}
	after, err := s.existing(ctx, g.ID)
	if err != nil {
		return err
	}
	if missing := missingFrom(after, g.All); missing != "" {
		return fmt.Errorf("DecreaseTargetSize(%s, %d) deleted instance %q", g.ID, delta, missing)
	}
	target, err := s.TargetSize(ctx, g.ID)
	if err != nil {
		return err
	}
	if target < len(after) || refusal != nil && target != g.Target {
		return fmt.Errorf("DecreaseTargetSize(%s, %d) took the target size from %d to %d with %d instances (error %v)",
			g.ID, delta, g.Target, target, len(g.All), refusal)
	}
	return nil
}
