package podhealth

import (
	"math"

	"github.com/evenkeel/evenkeel/apportion"
)

// Step takes a target from its current size to the desired size.
type Step struct {
	Size, Desired int64
	// Runnable is the part of Desired that can run.
	Runnable int64
	// Running is the part of Size that runs.
	Running int64
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
	// Shrink is by how much the number of replicas that are to run fell: as many may leave,
	// whatever else runs.
	Shrink int64
	// Stuck is how many desired replicas no target is able to run: those that run do not leave for
	// them.
	Stuck int64
	// Limit is how many replicas may be moving at the same time; 0 means no limit.
	Limit int64
	// Budget is how many of them may leave now. It is read only if there is a Limit.
	Budget int64
}

// Paced is how far the steps are taken now.
type Paced struct {
	// Sizes are what to write, in the order of the steps.
	Sizes []int64
	// Moves are how many of the running replicas that leave each target are moves, and Moved is
	// their sum.
	Moves []int64
	Moved int64
	// Held is how many replicas must leave later.
	Held int64
}

// Walk takes the steps as far as the pace allows. Replicas that do not run leave at once. Running
// replicas leave if fewer are to run than before, or if more run than have to. The targets that
// take over grow at once; with a limit, they are ahead of the replicas that leave by no more than
// the limit.
func (p Pace) Walk(steps []Step) Paced {
	if p.Limit == 0 {
		p.Limit, p.Budget = math.MaxInt64, math.MaxInt64
	}
	var up, down, idle int64
	surplus := -p.Stuck
	for _, s := range steps {
		up += s.up()
		down += s.down()
		idle += s.idle()
		surplus += s.Running - s.Runnable
	}
	busy := down - idle
	shrink := min(busy, max(0, min(p.Shrink, down-up)-idle))
	moved := min(p.Budget, max(0, min(busy, surplus)-shrink))
	held := busy - shrink - moved

	replacing := min(up, held)
	ahead := held - replacing
	allowed := up - replacing + min(replacing, max(0, p.Limit-ahead))

	grow := part(allowed, steps, Step.up)
	leave := part(shrink+moved, steps, Step.busy)
	out := Paced{Sizes: make([]int64, len(steps)), Moves: spread(moved, leave), Moved: moved, Held: held}
	for i, s := range steps {
		out.Sizes[i] = s.Size + grow[i] - s.idle() - leave[i]
	}
	return out
}

// part shares n among the steps in proportion to what each of them wants, and gives none more than
// that.
func part(n int64, steps []Step, of func(Step) int64) []int64 {
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
