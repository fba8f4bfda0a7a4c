package balancer

import (
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/replica"
)

// pace takes the targets towards their desired sizes, as far as replicas may leave now, and returns
// what to write.
func (p *pass) pace() []Write {
	steps := make([]replica.Step, len(p.targets))
	for i := range p.targets {
		steps[i] = stepOf(p.targets[i].status)
	}
	pace := replica.Pace{Shrink: p.shrink(), Stuck: p.stuck(), Leaving: p.leaving()}
	walked, moves := pace.WalkWithin(p.in.Spec.Policy.MaxMovesPerMinute, p.moves, steps, &p.timer)
	p.held, p.moves = walked.Held, moves
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
	replica.GrowFirst(writes, func(w Write) int64 { return int64(w.To) - int64(w.From) })
	return writes
}

// stepOf is the step of a target. A pinned target keeps its size, but other targets keep running
// what does not run there. They do not for a target that was never read.
func stepOf(s v1alpha1.BalancerTargetStatus) replica.Step {
	step := replica.Step{
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

// leaving is how many of the running replicas may be about to be deleted for an earlier, smaller size.
func (p *pass) leaving() (sum int64) {
	for _, t := range p.targets {
		running := min(t.status.Running, t.status.Current)
		sum += int64(max(0, running-ptr.Deref(t.staying, running)))
	}
	return sum
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
