package replica

import (
	"math"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Target is a place for replicas during a decision: its health at the last decision and now, and what
// it is to have.
type Target struct {
	Before, Now Health
	// Pinned reports that the target keeps its size. What is known about its capacity stays as it
	// was: of a target that cannot be read or must not be written not even the pods are certain.
	Pinned bool
	Frozen bool // the target is not written now, although it takes part
	// Contested reports that something else keeps changing the size. The target counts with its share of the
	// replicas at most: what somebody else adds takes nothing away from other targets.
	Contested bool
	// Share is how many replicas the target was to have at the last decision, and Added how many somebody else
	// has added since. Taking them away is no move.
	Share, Added int32
	// Unknown reports that the target was never read. It is taken to run what it has to.
	Unknown bool
	// Staying is how many of its pods no smaller size takes away that was written a moment ago; nil for
	// all of them.
	Staying *int32
	// Size is how many replicas the target has, which is more or less than it is asked for if somebody else
	// has changed it. Desired is how many it is to have, of which Pending cannot run there.
	Size, Desired, Pending int32
}

// step is the way from what a target has to what it is to have. One that is not written keeps its size,
// but other targets keep running what does not run there.
func (t *Target) step() Step {
	s := Step{
		Size: int64(t.Size), Desired: int64(t.Desired), Runnable: int64(t.Desired - t.Pending),
		Running: int64(min(t.Now.Running, t.Size)), // pods beyond the size are about to be deleted
	}
	s.Leaving = max(0, s.Running-int64(ptr.Deref(t.Staying, math.MaxInt32)))
	if t.Contested {
		s.Running = min(s.Running, s.Runnable)
		s.Leaving = min(s.Leaving, s.Running)
	}
	if t.Pinned || t.Frozen || t.Contested {
		s.Desired = s.Size
	}
	if t.Unknown {
		s.Running = s.Runnable
	}
	return s
}

// Waiting is how many of the pending replicas wait now. Others may run although the target is not known yet
// to be able to run them.
func (t *Target) Waiting() int32 { return max(0, min(t.Pending, t.Desired-t.Now.Running)) }

// Set is all targets that share the replicas of an object.
type Set struct {
	Targets []*Target
	// Asked is how many replicas are asked for now, and AskedBefore at the last decision; nil if there was
	// none.
	Asked       int64
	AskedBefore *int32
	Unplaced    int64 // how many of them no target is able to run, or may
	// Separate reports that the targets have room of their own, as clusters have: no replica has to leave one
	// target so that another one starts. Then it is waited for what is starting, so that nothing moves twice.
	Separate bool
	// Silent reports that a target has not answered for a short time. It keeps what it has, and so do the
	// others: replicas that have just started in place of some of its own would leave otherwise, and have to
	// start again when it answers.
	Silent bool
	// Limit is how many running replicas may leave for another target in a minute; nil for any number.
	// Moves are those that count so far.
	Limit *int32
	Moves *v1alpha1.ReplicaMoves
}

// Advance takes the targets towards what they are to have, as far as replicas may leave now, and counts
// the moves.
func (s *Set) Advance(t *podhealth.Timer) Paced {
	steps := make([]Step, len(s.Targets))
	pace := Pace{Shrink: s.fell(), Stuck: s.stuck()}
	for i, target := range s.Targets {
		steps[i] = target.step()
		pace.Shrink += int64(target.Added)
		if s.Silent && s.fell() == 0 && target.Now.Capacity == nil && steps[i].Running < steps[i].Size {
			steps[i].Desired = max(steps[i].Desired, steps[i].Size) // those that are starting do not leave, either
		}
	}
	pace.Hold = s.Silent || s.Separate && s.undecided(steps)
	walked, moves := pace.WalkWithin(s.Limit, s.Moves, steps, t)
	s.Moves = moves
	return walked
}

// Waiting is how many of the unplaced replicas do not run.
func (s *Set) Waiting() int64 {
	waiting := s.Unplaced
	for _, t := range s.Targets {
		waiting -= int64(t.Pending - t.Waiting())
	}
	return max(0, waiting)
}

// fell is by how much the number of replicas asked for fell since the last decision.
func (s *Set) fell() int64 {
	if s.AskedBefore == nil {
		return 0
	}
	return max(0, int64(*s.AskedBefore)-s.Asked)
}

// undecided reports whether replicas are starting, or about to, of which it is not known yet whether
// their target is able to run them. If it is not, other running replicas would have to leave than
// those that have left, and they would have moved for nothing. With a limit of moves replicas start
// a few at a time, and not all of them can be waited for.
func (s *Set) undecided(steps []Step) bool {
	if s.Limit == nil && slices.ContainsFunc(steps, func(s Step) bool { return s.Desired > s.Size }) {
		return true
	}
	return slices.ContainsFunc(s.Targets, func(t *Target) bool {
		return !t.Pinned && t.Now.Running < t.Now.Size && t.Now.Capacity == nil
	})
}

// stuck is how many of the unplaced replicas stay pending on a target that is not able to run them.
// The other unplaced replicas exceed the maximums, and no replica waits for them.
func (s *Set) stuck() int64 {
	var pending int64
	for _, t := range s.Targets {
		if t.Now.Capacity != nil {
			pending += int64(t.Pending)
		}
	}
	return min(s.Unplaced, pending)
}

// LeaveFirst lowers what counts as placed on targets, in a request that does not rebalance, to the replicas
// asked for, if it is more: first go replicas that do not run, then copies of others, wherever they are.
// The request has the targets in the same order.
func LeaveFirst(targets []*Target, r *apportion.Request) {
	surplus := -r.Replicas
	idle, copies := make([]int64, len(targets)), make([]int64, len(targets))
	for i, t := range targets {
		in := &r.Targets[i]
		surplus += in.Current
		if t.Pinned {
			continue
		}
		idle[i] = max(0, in.Current-max(int64(t.Now.Running), in.Min))
		if t.Before.Capacity != nil { // what was beyond it waited as a probe, and runs elsewhere too
			copies[i] = max(0, in.Current-idle[i]-max(in.Min, int64(*t.Before.Capacity)))
		}
	}
	for _, part := range [][]int64{idle, copies} {
		for i, n := range Part(max(0, surplus), part) {
			r.Targets[i].Current -= n
			surplus -= n
		}
	}
}
