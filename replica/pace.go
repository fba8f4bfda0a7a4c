package replica

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Step takes a target from its current size to the desired size.
type Step struct {
	Size, Desired int64
	Runnable      int64 // the part of Desired that can run
	// Running is the part of Size that runs. Leaving is the part of that which may be about to be deleted for an
	// earlier, smaller size: no other replica leaves in place of it.
	Running, Leaving int64
}

func (s Step) up() int64   { return max(0, s.Desired-s.Size) }
func (s Step) down() int64 { return max(0, s.Size-s.Desired) }

// idle is how many replicas can leave without stopping one that runs: controllers stop the others
// first.
func (s Step) idle() int64 { return min(s.down(), s.Size-s.Running) }

// busy is how many of the replicas that are to leave run.
func (s Step) busy() int64 { return s.down() - s.idle() }

// Pace bounds how many running replicas leave their targets in one decision. The zero value allows
// no more than what others replace.
type Pace struct {
	// Shrink is by how much the number of replicas asked for fell, and what somebody else has added: as many of those that run beyond what
	// has to leave at once, and are no moves.
	Shrink int64
	// Stuck is how many desired replicas no target is able to run: those that run do not leave for
	// them.
	Stuck int64
	// Hold has no running replica leave for another one now.
	Hold  bool
	Limit int64 // how many replicas may be moving at the same time; 0 means no limit
	// Budget is how many of them may leave now. It is read only if there is a Limit.
	Budget int64
}

// Paced is how far the steps are taken now.
type Paced struct {
	Sizes []int64 // what to write, in the order of the steps
	// Moves are how many of the running replicas that leave each target are moves, and Moved is
	// their sum.
	Moves []int64
	Moved int64
	Held  int64 // how many replicas must leave later
}

// Walk takes the steps as far as the pace allows. Replicas that do not run leave at once. Running
// replicas leave if more run than have to. The targets that take over grow at once; with a limit, they are
// ahead of the replicas that leave by no more than the limit.
func (p Pace) Walk(steps []Step) Paced {
	if p.Limit == 0 {
		p.Limit, p.Budget = math.MaxInt64, math.MaxInt64
	}
	if p.Hold {
		p.Budget = 0
	}
	var up, down, idle int64
	surplus, leaving := -p.Stuck, int64(0)
	for _, s := range steps {
		up += s.up()
		down += s.down()
		idle += s.idle()
		surplus += s.Running - s.Runnable
		leaving += s.Leaving
	}
	busy := down - idle
	fewer := max(0, min(p.Shrink, down-up)-idle)
	// What may be about to be deleted goes first: it does not count as running anyway.
	gone := part(max(0, min(fewer, surplus)), steps, func(s Step) int64 { return min(s.busy(), s.Leaving) })
	sum := int64(0)
	for _, n := range gone {
		sum += n
	}
	surplus = max(0, min(busy, surplus-leaving)-sum)
	shrink := min(surplus, fewer-sum)
	moved := min(p.Budget, surplus-shrink)
	held := busy - sum - shrink - moved

	replacing := min(up, held)
	ahead := held - replacing
	allowed := up - replacing + min(replacing, max(0, p.Limit-ahead))

	grow := part(allowed, steps, Step.up)
	rest := make([]int64, len(steps))
	for i, s := range steps {
		rest[i] = s.busy() - gone[i]
	}
	leave := Part(shrink+moved, rest)
	out := Paced{Sizes: make([]int64, len(steps)), Moves: Part(moved, leave), Moved: moved, Held: held}
	for i, s := range steps {
		out.Sizes[i] = s.Size + grow[i] - s.idle() - gone[i] - leave[i]
	}
	return out
}

// part shares n among the steps in proportion to what each of them wants.
func part(n int64, steps []Step, of func(Step) int64) []int64 {
	wanted := make([]int64, len(steps))
	for i, s := range steps {
		wanted[i] = of(s)
	}
	return Part(n, wanted)
}

// Part shares n in proportion to what is wanted, and gives none more than that.
func Part(n int64, wanted []int64) []int64 {
	claims := make([]apportion.Claim, len(wanted))
	for i, w := range wanted {
		claims[i] = apportion.Claim{Weight: w, High: w}
	}
	return apportion.Spread(n, claims, apportion.LargestRemainder)
}

// MovesUntil is a count of moves of which the last was made at the time given. The time is rounded
// up to whole seconds, which is what a status stores, so that the minute after it does not end too
// early.
func MovesUntil(last time.Time, count int32) *v1alpha1.ReplicaMoves {
	return &v1alpha1.ReplicaMoves{Count: count, LastTime: *podhealth.Stamp(last.Add(time.Second - time.Nanosecond))}
}

// StoredMoves is a count that was stored. Its time is at most one pass ahead, because it is stored before
// the moves are made; a later time is that of a clock that was set back.
func StoredMoves(m *v1alpha1.ReplicaMoves, now time.Time) *v1alpha1.ReplicaMoves {
	if m == nil || !m.LastTime.After(now.Add(time.Minute)) {
		return m
	}
	return MovesUntil(now, m.Count)
}

// WalkWithin takes the steps as far as a limit of moves per minute allows, if there is one, and
// counts the moves.
func (p Pace) WalkWithin(limit *int32, before *v1alpha1.ReplicaMoves, steps []Step, t *podhealth.Timer) (Paced, *v1alpha1.ReplicaMoves) {
	if limit == nil {
		return p.Walk(steps), nil
	}
	moves, count := StoredMoves(before, t.Now), int32(0)
	if moves != nil && t.Now.Sub(moves.LastTime.Time) < time.Minute {
		count = moves.Count
	}
	p.Limit, p.Budget = int64(*limit), max(0, int64(*limit)-int64(count))
	walked := p.Walk(steps)
	if walked.Moved > 0 {
		count += int32(min(walked.Moved, math.MaxInt32-int64(count)))
		moves = MovesUntil(t.Now, count)
	}
	if walked.Held > 0 && count > 0 {
		t.At(moves.LastTime.Add(time.Minute))
	}
	return walked, moves
}

// GrowFirst sorts writes: first those that make a target larger, then those that make one smaller,
// each from the largest change down.
func GrowFirst[W any](writes []W, change func(W) int64) {
	slices.SortStableFunc(writes, func(a, b W) int {
		x, y := change(a), change(b)
		if up := x > 0; up != (y > 0) {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(max(y, -y), max(x, -x))
	})
}
