package balancer

import (
	"math"
	"time"

	"github.com/evenkeel/evenkeel/apportion"
)

// Moves counts the replicas that left a target for another one within a minute. A driver keeps it from pass to pass; the
// zero value says that none did.
type Moves struct {
	// Since is when the minute began, with the first move.
	Since time.Time
	Count int32
}

const minute = time.Minute

// within is the count that still holds now.
func (m Moves) within(now time.Time) Moves {
	if m.Since.IsZero() || now.Sub(m.Since) >= minute {
		return Moves{Since: now}
	}
	return m
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
	// moved is how many running replicas leave that count as moves.
	moved int64
	// held is how many have to leave later.
	held int64
}

// A pace bounds what one pass may do.
type pace struct {
	// shrink is by how much the replicas asked for became fewer: that many may leave, whatever else runs.
	shrink int64
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
	var up, down, idle, surplus int64
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
	out := pacing{sizes: make([]int64, len(steps)), moved: moved, held: held}
	for i, s := range steps {
		out.sizes[i] = s.current + grow[i] - s.idle() - leave[i]
	}
	return out
}

// part shares n over the steps in proportion to what each would take, and gives none more than that.
func part(n int64, steps []step, of func(step) int64) []int64 {
	claims := make([]apportion.Claim, len(steps))
	for i, s := range steps {
		claims[i] = apportion.Claim{Weight: of(s), High: of(s)}
	}
	return apportion.Spread(n, claims, apportion.LargestRemainder)
}
