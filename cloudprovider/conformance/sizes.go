package conformance

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var sizeRules = []Rule{
	{"increase-readable-at-once", "TargetSize shows an increase as soon as IncreaseSize has returned.", increaseReadable},
	{"increase-within-max", "An increase beyond MaxSize is refused and leaves the target size alone.", increaseWithinMax},
	{"increase-positive", "IncreaseSize refuses a delta of zero or less.", increasePositive},
	{"increase-stays", "The target size stays when ordered nodes come up, and instances do not exceed it.", increaseStays},
	{"decrease-negative", "DecreaseTargetSize refuses a delta of zero or more.", decreaseNegative},
	{"decrease-lowers-target", "DecreaseTargetSize lowers the target size by orders that are not fulfilled.", decreaseLowersTarget},
	{"decrease-keeps-instances", "DecreaseTargetSize never deletes an instance nor goes below their number.", decreaseKeepsInstances},
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
		return fmt.Errorf("%s was refused (%v), and yet the target size went from %d to %d", call, err, before, after)
	}
	return nil
}

func increaseReadable(ctx context.Context, s *subject) error {
	g, before, err := s.groupWithRoom(ctx, 2)
	if err != nil {
		return err
	}
	defer s.shrinkBack(ctx, g.ID, before)
	for i := 1; i <= 2; i++ {
		if err := s.IncreaseSize(ctx, g.ID, 1); err != nil {
			return fmt.Errorf("IncreaseSize(%s, 1) within bounds: %w", g.ID, err)
		}
		target, err := s.TargetSize(ctx, g.ID)
		if err != nil {
			return err
		}
		if target != before+i {
			return fmt.Errorf("group %q of size %d grew by %d, its target size reads %d", g.ID, before, i, target)
		}
	}
	return nil
}

func increaseWithinMax(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		before, err := s.TargetSize(ctx, g.ID)
		if err != nil {
			return err
		}
		delta := max(g.MaxSize-before, 0) + 1
		call := fmt.Sprintf("IncreaseSize(%s, %d) from %d with maximum %d", g.ID, delta, before, g.MaxSize)
		if err := s.targetStays(ctx, g.ID, before, call, s.IncreaseSize(ctx, g.ID, delta)); err != nil {
			s.shrinkBack(ctx, g.ID, before)
			return err
		}
	}
	return nil
}

func increasePositive(ctx context.Context, s *subject) error {
	g, before, err := s.groupWithRoom(ctx, 1)
	if err != nil {
		return err
	}
	for _, delta := range []int{0, -1} {
		call := fmt.Sprintf("IncreaseSize(%s, %d)", g.ID, delta)
		if err := s.targetStays(ctx, g.ID, before, call, s.IncreaseSize(ctx, g.ID, delta)); err != nil {
			return err
		}
	}
	return nil
}

func increaseStays(ctx context.Context, s *subject) error {
	g, err := s.grow(ctx, 2)
	if err != nil {
		return err
	}
	defer s.shrinkBack(ctx, g.ID, g.Before)
	staying, err := s.existing(ctx, g.ID)
	if err != nil {
		return err
	}
	if len(staying) > g.Target {
		return fmt.Errorf("group %q has %d instances and the target size %d", g.ID, len(staying), g.Target)
	}
	if g.Target != g.Before+2 {
		return fmt.Errorf("group %q of size %d grew by 2; when that had settled, its target size was %d", g.ID, g.Before, g.Target)
	}
	return nil
}

func decreaseNegative(ctx context.Context, s *subject) error {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		before, err := s.TargetSize(ctx, g.ID)
		if err != nil {
			return err
		}
		for _, delta := range []int{0, 1} {
			call := fmt.Sprintf("DecreaseTargetSize(%s, %d)", g.ID, delta)
			if err := s.targetStays(ctx, g.ID, before, call, s.DecreaseTargetSize(ctx, g.ID, delta)); err != nil {
				return err
			}
		}
	}
	return nil
}

// unfulfilled finds a group with orders that have no instance yet, ordering some
// where there is none.
func (s *subject) unfulfilled(ctx context.Context) (id string, before, missing int, err error) {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return "", 0, 0, err
	}
	for _, order := range []bool{false, true} {
		for _, g := range groups {
			before, err := s.TargetSize(ctx, g.ID)
			if err != nil {
				return "", 0, 0, err
			}
			if order && (before >= g.MaxSize || s.IncreaseSize(ctx, g.ID, 1) != nil) {
				continue
			}
			target, err := s.TargetSize(ctx, g.ID)
			if err != nil {
				return "", 0, 0, err
			}
			staying, err := s.existing(ctx, g.ID)
			if err != nil {
				return "", 0, 0, err
			}
			if target > len(staying) {
				return g.ID, target, target - len(staying), nil
			}
			s.shrinkBack(ctx, g.ID, before)
		}
	}
	return "", 0, 0, notCheckable("every order has its instance at once")
}

func decreaseLowersTarget(ctx context.Context, s *subject) error {
	id, before, missing, err := s.unfulfilled(ctx)
	if err != nil {
		return err
	}
	if err := s.DecreaseTargetSize(ctx, id, -1); err != nil {
		return fmt.Errorf("DecreaseTargetSize(%s, -1) with %d orders unfulfilled: %w", id, missing, err)
	}
	after, err := s.TargetSize(ctx, id)
	if err != nil {
		return err
	}
	if after != before-1 {
		return fmt.Errorf("DecreaseTargetSize(%s, -1) took the target size from %d to %d", id, before, after)
	}
	return nil
}

func decreaseKeepsInstances(ctx context.Context, s *subject) error {
	g, err := s.grow(ctx, 1)
	if err != nil {
		return err
	}
	defer s.shrinkBack(ctx, g.ID, g.Before)
	before, err := s.existing(ctx, g.ID)
	if err != nil {
		return err
	}
	// Refused or cut to what is unfulfilled: both are fine, so the error is not looked at.
	delta := len(before) - g.Target - 1
	refusal := s.DecreaseTargetSize(ctx, g.ID, delta)
	if err := s.settle(ctx); err != nil {
		return err
	}
	after, err := s.existing(ctx, g.ID)
	if err != nil {
		return err
	}
	if missing := missingFrom(after, before); missing != "" {
		return fmt.Errorf("DecreaseTargetSize(%s, %d) deleted instance %q", g.ID, delta, missing)
	}
	target, err := s.TargetSize(ctx, g.ID)
	if err != nil {
		return err
	}
	if target < len(after) || refusal != nil && target != g.Target {
		return fmt.Errorf("DecreaseTargetSize(%s, %d) took the target size from %d to %d with %d instances (error %v)", g.ID, delta, g.Target, target, len(before), refusal)
	}
	return nil
}

// missingFrom returns the id of an instance of before that is not in after.
func missingFrom(after, before []cloudprovider.Instance) string {
	there := map[string]bool{}
	for _, in := range after {
		there[in.ID] = true
	}
	for _, in := range before {
		if !there[in.ID] {
			return in.ID
		}
	}
	return ""
}
