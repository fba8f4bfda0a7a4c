package balancer

import (
	"math"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
)

const minute = time.Minute

// counted is how many moves still count now.
func counted(m *v1alpha1.BalancerMoves, now time.Time) int32 {
	if m == nil || now.Sub(m.LastTime.Time) >= minute {
		return 0
	}
	return m.Count
}

// movesUntil is the count of moves without a time that none can have: they are stored ahead, by the time of a pass at most.
func movesUntil(m *v1alpha1.BalancerMoves, now time.Time) *v1alpha1.BalancerMoves {
	if m == nil || !m.LastTime.After(now.Add(minute)) {
		return m
	}
	return MovesUntil(now, m.Count)
}

// MovesUntil is the count of moves of which the last was made at a time. That is rounded up to what a status can store: the
// minute after it must not end too early.
func MovesUntil(last time.Time, count int32) *v1alpha1.BalancerMoves {
	return &v1alpha1.BalancerMoves{Count: count, LastTime: *podhealth.Stamp(last.Add(time.Second - time.Nanosecond))}
}

// A step is the way of one target from the size it has to the size it is to have.
type step struct {
	current, desired int64
	// runnable is the part of desired that can run.
	runnable int64
	// running is how many of the current replicas run.
	running int64
}

func (s step) up() int64   { return max(0, s.desired-s.current) }
func (s step) down() int64 { return max(0, s.current-s.desired) }

// idle is how many can leave without stopping anything that runs: controllers stop such pods first.
func (s step) idle() int64 { return min(s.down(), s.current-s.running) }

// busy is how many of those that are to leave run.
func (s step) busy() int64 { return s.down() - s.idle() }

// A pacing says how far the steps are taken now.
type pacing struct {
	// sizes are what to write.
	sizes []int64
	// moved is how many running replicas leave that count as moves, and moves how many these are of each target.
	moved int64
	moves []int64
	// held is how many have to leave later.
	held int64
}

// A pace bounds what one pass may do.
type pace struct {
	// shrink is by how much the replicas asked for became fewer: that many may leave, whatever else runs.
	shrink int64
	// stuck is how many replicas some target is to have and none is able to run: those that run do not leave for them.
	stuck int64
	// limit is how many replicas may be on the move at a time, budget how many of these may leave now.
	limit, budget int64
}

// unhurried is the pace without a limit.
func unhurried(shrink int64) pace {
	return pace{shrink: shrink, limit: math.MaxInt64, budget: math.MaxInt64}
}

// walk takes the steps as far as the pace allows. Whoever does not run may leave at once. Those that run leave as far as
// the total asked for shrank, or when more run than have to. The targets that take over grow at once; with a limit, only
// as far ahead of the leaving as the limit says.
func (p pace) walk(steps []step) pacing {
	var up, down, idle int64
	surplus := -p.stuck
	for _, s := range steps {
		up += s.up()
		down += s.down()
		idle += s.idle()
		surplus += s.running - s.runnable
	}
	busy := down - idle
	shrink := min(busy, max(0, min(p.shrink, down-up)-idle))
	moved := min(p.budget, max(0, min(busy, surplus)-shrink))
	held := busy - shrink - moved

	replacing := min(up, held)
	ahead := held - replacing
	allowed := up - replacing + min(replacing, max(0, p.limit-ahead))

	grow := part(allowed, steps, step.up)
	leave := part(shrink+moved, steps, step.busy)
	out := pacing{sizes: make([]int64, len(steps)), moved: moved, moves: spread(moved, leave), held: held}
	for i, s := range steps {
		out.sizes[i] = s.current + grow[i] - s.idle() - leave[i]
	}
	return out
}

// part shares n over the steps in proportion to what each would take, and gives none more than that.
func part(n int64, steps []step, of func(step) int64) []int64 {
	wanted := make([]int64, len(steps))
	for i, s := range steps {
		wanted[i] = of(s)
	}
	return spread(n, wanted)
}

// spread shares n in proportion to what is wanted, and gives none more than that.
func spread(n int64, wanted []int64) []int64 {
	claims := make([]apportion.Claim, len(wanted))
	for i, w := range wanted {
		claims[i] = apportion.Claim{Weight: w, High: w}
	}
	return apportion.Spread(n, claims, apportion.LargestRemainder)
}
