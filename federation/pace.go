package federation

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/replica"
)

// pace takes the clusters towards their desired numbers, as far as replicas may leave now, and
// returns what to write.
func (p *pass) pace() []Write {
	var present []*member
	var steps []replica.Step
	unanswered := p.unanswered()
	for i := range p.members {
		if m := &p.members[i]; m.status.Name != "" && m.Reach != Lost {
			step := m.step()
			if unanswered && int64(p.in.Status.AskedReplicas) <= p.total && m.health.Now.Capacity == nil && step.Running < step.Size {
				step.Desired = max(step.Desired, step.Size) // those that are starting do not leave, either
			}
			present, steps = append(present, m), append(steps, step)
		}
	}
	pace := replica.Pace{Shrink: p.shrink(steps), Stuck: p.stuck(), Hold: p.undecided(steps) || unanswered}
	walked, moves := pace.WalkWithin(p.in.Spec.MaxMovesPerMinute, p.moves, steps, &p.timer)
	p.held, p.moves = walked.Held, moves
	blocked := p.blocked()
	var writes []Write
	for i, m := range present {
		if m.health.Pinned || m.frozen {
			continue
		}
		to := p.makeRoom(m, clip(walked.Sizes[i]))
		if w := m.write(to); w != nil {
			w.Moves = clip(walked.Moves[i])
			if to != clip(walked.Sizes[i]) {
				w.Why = "it is full and makes room for pods with the new template"
			}
			if w.To > w.From && m.status.Capacity == nil {
				w.Why += blocked
			}
			writes = append(writes, *w)
		}
		p.resize(m, to)
	}
	replica.GrowFirst(writes, func(w Write) int64 { return int64(w.To) - int64(w.From) })
	return writes
}

// undecided reports whether replicas are starting, or about to, of which it is not known yet whether
// their cluster is able to run them. If it is not, other running replicas would have to leave than
// those that have left, and they would have moved for nothing. With a limit of moves replicas start
// a few at a time, and not all of them can be waited for.
func (p *pass) undecided(steps []replica.Step) bool {
	grows := func(s replica.Step) bool { return s.Desired > s.Size }
	if p.in.Spec.MaxMovesPerMinute == nil && slices.ContainsFunc(steps, grows) {
		return true
	}
	return slices.ContainsFunc(p.members, func(m member) bool {
		h := m.health.Now
		return m.status.Name != "" && !m.health.Pinned && h.Running < h.Size && h.Capacity == nil
	})
}

// unanswered reports whether a cluster has not answered for a short time. It keeps what it has, and so
// do the others: replicas that have just started in place of some of its own would leave otherwise,
// and have to start again when it answers.
func (p *pass) unanswered() bool {
	return slices.ContainsFunc(p.members, func(m member) bool { return m.status.Name != "" && m.Reach == NotAnswering })
}

// resize notes what is written to a cluster.
func (p *pass) resize(m *member, to int32) {
	m.health.Now.Resize(to, p.act, &p.timer)
	m.status.Written, m.status.Refused = to, nil
	if to > 0 && !m.Local.Exists || m.due {
		m.status.Revision = p.revision
	}
	m.record()
}

// step is the step of a cluster. One that is not written keeps what it has, but other clusters keep
// running what does not run there.
func (m *member) step() replica.Step {
	s := m.status
	step := replica.Step{
		Size: int64(s.Written), Desired: int64(s.Desired), Runnable: int64(s.Desired - s.Pending),
		// Pods beyond the size are about to be deleted, and so are those beyond an earlier one, as long as
		// they may not know of the larger one yet.
		Running: int64(min(s.Running, s.Written, ptr.Deref(m.Local.Staying, s.Written))),
	}
	if m.health.Pinned || m.frozen {
		step.Desired = step.Size
	}
	return step
}

// shrink is by how much the number of replicas asked for fell since the last decision, as far as
// that many more run than have to.
func (p *pass) shrink(steps []replica.Step) int64 {
	var surplus int64
	for _, s := range steps {
		surplus += s.Running - s.Runnable
	}
	return max(0, min(surplus, int64(p.in.Status.AskedReplicas)-p.total))
}

// stuck is how many of the unplaced replicas stay pending in a cluster that is not able to run them.
// The other unplaced replicas exceed the maximums, and no replica waits for them.
func (p *pass) stuck() int64 {
	var pending int64
	for _, m := range p.members {
		if m.status.Capacity != nil {
			pending += int64(m.status.Pending)
		}
	}
	return min(p.unplaced, pending)
}

// edited reports whether somebody else has changed the number of replicas.
func (l *Local) edited() bool { return l.Exists && l.Written != nil && *l.Written != l.Replicas }

// write is what to write to a cluster that is to have a number of replicas; nil for nothing.
func (m *member) write(to int32) *Write {
	l := &m.Local
	w := &Write{Cluster: m.Name, From: m.status.Written, To: to, Was: m.status.Revision, Why: m.why()}
	switch {
	case !l.Exists:
		w.Create, w.Content = true, true
		if to == 0 {
			return nil
		}
	case m.entry == "" && to == 0 && l.Replicas == 0 && l.Act.Existing == 0:
		w.Delete = true
	case m.due:
		w.Content = true
	case to == l.Replicas && !l.edited():
		return nil
	}
	return w
}
