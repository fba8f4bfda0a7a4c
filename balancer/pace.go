package balancer

import (
	"github.com/evenkeel/evenkeel/replica"
)

// pace takes the targets towards their desired sizes, as far as replicas may leave now, and returns
// what to write.
func (p *pass) pace() []Write {
	set := p.set()
	walked := set.Advance(&p.timer)
	p.held, p.moves = walked.Held, set.Moves
	missing := p.missing()
	var writes []Write
	for i := range p.targets {
		t := &p.targets[i]
		if t.health.Pinned || t.health.Contested {
			continue
		}
		to := replica.Clip(walked.Sizes[i])
		if to != t.status.Current {
			w := Write{Target: t.spec.Name, From: t.status.Current, To: to, Moves: replica.Clip(walked.Moves[i]), Why: why(t.status)}
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

// set are the targets as package replica knows them.
func (p *pass) set() *replica.Set {
	s := &replica.Set{
		Asked: int64(p.asked), AskedBefore: p.in.Status.RequestedReplicas, Unplaced: p.unplaced,
		Limit: p.in.Spec.Policy.MaxMovesPerMinute, Moves: p.moves,
	}
	for i := range p.targets {
		t := &p.targets[i]
		t.health.Size, t.health.Desired, t.health.Pending = t.status.Current, t.status.Desired, t.status.Pending
		t.health.Unknown = t.status.Reason == ReasonUnknown
		s.Targets = append(s.Targets, &t.health)
	}
	return s
}
