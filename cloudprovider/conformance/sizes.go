package conformance

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

var sizeRules = []Rule{
	{"increase-readable-at-once", Changes, "TargetSize shows an increase as soon as IncreaseSize has returned.", on(increaseReadable)},
	{"increase-within-max", Changes, "An increase beyond MaxSize is refused and leaves the target size alone.", on(increaseWithinMax)},
	{"increase-positive", Changes, "IncreaseSize refuses a delta of zero or less.", on(increasePositive)},
	{"increase-stays", Changes, "The target size stays when ordered nodes come up, and instances do not exceed it.", on(increaseStays)},
	{"decrease-negative", Changes, "DecreaseTargetSize refuses a delta of zero or more.", on(decreaseNegative)},
	{"decrease-lowers-target", Changes, "DecreaseTargetSize lowers the target size by orders that are not fulfilled.",
		on(decreaseLowersTarget)},
	{"decrease-keeps-instances", Changes, "DecreaseTargetSize never deletes an instance nor goes below their number.",
		on(decreaseKeepsInstances)},
}

// targetStays checks that a call that had to be refused changed nothing.
func (s *subject) targetStays(ctx context.Context, id string, before int, call string, err error) {
	if err == nil {
		s.Failf("%s was not refused", call)
	}
	if after := s.target(ctx, id); after != before {
		s.Failf("%s was refused (%v), but the target size went from %d to %d", call, err, before, after)
	}
}

// refuses checks that each of the deltas, which depend on the group and its
// size, is refused by all groups that may be changed.
func (s *subject) refuses(ctx context.Context, method string, call func(context.Context, string, int) error,
	deltas func(cloudprovider.NodeGroup, int) []int) {
	for _, g := range s.changeable(ctx) {
		before := s.startOf(ctx, g.ID)
		for _, delta := range deltas(g, before.Size) {
			if s.Ended() {
				return
			}
			text := fmt.Sprintf("%s(%s, %d) from %d with maximum %d", method, g.ID, delta, before.Size, g.MaxSize)
			if s.targetStays(ctx, g.ID, before.Size, text, call(ctx, g.ID, delta)); s.Ended() {
				s.putBack(ctx, before)
			}
		}
	}
}

func increaseWithinMax(ctx context.Context, s *subject) {
	s.refuses(ctx, "IncreaseSize", s.IncreaseSize, func(g cloudprovider.NodeGroup, size int) []int {
		return []int{max(g.MaxSize-size, 0) + 1}
	})
}

func increasePositive(ctx context.Context, s *subject) {
	s.refuses(ctx, "IncreaseSize", s.IncreaseSize, func(cloudprovider.NodeGroup, int) []int { return []int{0, -1} })
}

func decreaseNegative(ctx context.Context, s *subject) {
	s.refuses(ctx, "DecreaseTargetSize", s.DecreaseTargetSize, func(cloudprovider.NodeGroup, int) []int { return []int{0, 1} })
}

func increaseReadable(ctx context.Context, s *subject) {
	g := s.groupWithRoom(ctx, 2)
	defer s.putBack(ctx, g)
	for i := 1; i <= 2; i++ {
		s.increase(ctx, g.ID, 1)
		if target := s.target(ctx, g.ID); target != g.Size+i {
			s.Failf("group %q of size %d grew by %d, its target size reads %d", g.ID, g.Size, i, target)
		}
	}
}

func increaseStays(ctx context.Context, s *subject) {
	g := s.grow(ctx, 2)
	defer s.putBack(ctx, g.start)
	if len(g.All) > g.Target {
		s.Failf("group %q has %d instances and the target size %d", g.ID, len(g.All), g.Target)
	}
	if g.Target != g.Size+2 {
		s.Failf("group %q of size %d grew by 2; when that had settled, its target size was %d", g.ID, g.Size, g.Target)
	}
}

// unfulfilled finds a group with an order that has no instance yet. If there is none, it orders a
// node.
func (s *subject) unfulfilled(ctx context.Context) start {
	groups := s.changeable(ctx)
	for _, order := range []bool{false, true} {
		for _, g := range groups {
			before := s.startOf(ctx, g.ID)
			if s.Ended() || order && (before.Size >= g.MaxSize || s.IncreaseSize(ctx, g.ID, 1) != nil) {
				continue
			}
			if now := s.startOf(ctx, g.ID); now.Size > len(now.Had) {
				return now
			}
			s.putBack(ctx, before)
		}
	}
	s.Add(Skip("every order has its instance at once"))
	return start{}
}

func decreaseLowersTarget(ctx context.Context, s *subject) {
	g := s.unfulfilled(ctx)
	s.do(fmt.Sprintf("DecreaseTargetSize(%s, -1) with target size %d and %d instances", g.ID, g.Size, len(g.Had)),
		func() error { return s.DecreaseTargetSize(ctx, g.ID, -1) })
	if after := s.target(ctx, g.ID); after != g.Size-1 {
		s.Failf("DecreaseTargetSize(%s, -1) took the target size from %d to %d", g.ID, g.Size, after)
	}
}

func decreaseKeepsInstances(ctx context.Context, s *subject) {
	g := s.grow(ctx, 1)
	defer s.putBack(ctx, g.start)
	if s.Ended() {
		return
	}
	// It may be refused, or reduced to what is unfulfilled: both are allowed, so the error is
	// ignored.
	delta := len(g.All) - g.Target - 1
	refusal := s.DecreaseTargetSize(ctx, g.ID, delta)
	s.waitForNodes(ctx)
	after := s.existing(ctx, g.ID)
	if missing := missingFrom(after, g.All); missing != "" {
		s.Failf("DecreaseTargetSize(%s, %d) deleted instance %q", g.ID, delta, missing)
	}
	if target := s.target(ctx, g.ID); target < len(after) || refusal != nil && target != g.Target {
		s.Failf("DecreaseTargetSize(%s, %d) took the target size from %d to %d with %d instances (error %v)",
			g.ID, delta, g.Target, target, len(g.All), refusal)
	}
}
