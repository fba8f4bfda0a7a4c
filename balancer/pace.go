package balancer

import (
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// countedMoves is how many moves still count against the limit.
func countedMoves(m *v1alpha1.BalancerMoves, now time.Time) int32 {
	if m == nil || now.Sub(m.LastTime.Time) >= time.Minute {
		return 0
	}
	return m.Count
}

// storedMoves is the stored count of moves. Its time is at most one pass ahead, because it is
// stored before the moves are made; a later time is that of a clock that was set back.
func storedMoves(m *v1alpha1.BalancerMoves, now time.Time) *v1alpha1.BalancerMoves {
	if m == nil || !m.LastTime.After(now.Add(time.Minute)) {
		return m
	}
	return MovesUntil(now, m.Count)
}

// MovesUntil is a count of moves of which the last was made at the time given. The time is rounded
// up to whole seconds, which is what a status stores, so that the minute after it does not end too
// early.
func MovesUntil(last time.Time, count int32) *v1alpha1.BalancerMoves {
	return &v1alpha1.BalancerMoves{Count: count, LastTime: *podhealth.Stamp(last.Add(time.Second - time.Nanosecond))}
}

// pace takes the targets towards their desired sizes, as far as replicas may leave now, and returns
// what to write.
func (p *pass) pace() []Write {
	steps := make([]podhealth.Step, len(p.targets))
	for i := range p.targets {
		steps[i] = stepOf(p.targets[i].status)
	}
	walked := p.walk(steps)
	p.held = walked.Held
	missing := p.missing()
	var writes []Write
	for i := range p.targets {
		t := &p.targets[i]
		if t.health.Pinned {
			continue
		}
		to := clip(walked.Sizes[i])
		if to != t.status.Current {
			w := Write{Target: t.spec.Name, From: t.status.Current, To: to, Moves: clip(walked.Moves[i]), Why: why(t.status)}
			if w.To > w.From && t.status.Capacity == nil {
				w.Why += missing
			}
			writes = append(writes, w)
		}
		t.health.Now.Resize(to, startupTimeout(p.in.Spec.Policy.Fallback), &p.timer)
		t.record()
	}
	order(writes)
	return writes
}

// walk takes the steps as far as the limit of moves allows, if there is one, and counts the moves.
func (p *pass) walk(steps []podhealth.Step) podhealth.Paced {
	pace := podhealth.Pace{Shrink: p.shrink(), Stuck: p.stuck()}
	limit := p.in.Spec.Policy.MaxMovesPerMinute
	if limit == nil {
		return pace.Walk(steps)
	}
	count := countedMoves(p.moves, p.in.Now)
	pace.Limit, pace.Budget = int64(*limit), max(0, int64(*limit)-int64(count))
	walked := pace.Walk(steps)
	if walked.Moved > 0 {
		count += clip(walked.Moved)
		p.moves = MovesUntil(p.in.Now, count)
	}
	if walked.Held > 0 && count > 0 {
		p.timer.At(p.moves.LastTime.Add(time.Minute))
	}
	return walked
}

// stepOf is the step of a target. A pinned target keeps its size, but other targets keep running
// what does not run there. They do not for a target that was never read.
func stepOf(s v1alpha1.BalancerTargetStatus) podhealth.Step {
	step := podhealth.Step{
		Size:     int64(s.Current),
		Desired:  int64(s.Desired),
		Runnable: int64(s.Desired - s.Pending),
		Running:  int64(min(s.Running, s.Current)), // pods beyond the size are about to be deleted
	}
	if s.Reason == ReasonUnknown {
		step.Running = step.Runnable
	}
	return step
}

// shrink is by how much the number of replicas that are to run fell since the last decision that
// was stored, less the replicas that have left since: a controller that stopped before it stored
// the status may have made some of the writes. Replicas that became stuck are still to run.
func (p *pass) shrink() int64 {
	sum := -p.stuck()
	for _, t := range p.targets {
		sum += int64(t.before.Desired-t.before.Pending) - int64(t.status.Desired-t.status.Pending)
		sum -= max(0, int64(t.before.Current)-int64(t.status.Current))
	}
	return max(0, sum)
}

// stuck is how many of the unplaced replicas stay pending on a target that is not able to run them.
// The other unplaced replicas exceed the maximums, and no replica waits for them.
func (p *pass) stuck() int64 {
	var pending int64
	for _, t := range p.targets {
		if t.status.Capacity != nil {
			pending += int64(t.status.Pending)
		}
	}
	return min(p.unplaced, pending)
}
