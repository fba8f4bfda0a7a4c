package federation

import (
	"github.com/evenkeel/evenkeel/replica"
)

// pace takes the clusters towards their desired numbers, as far as replicas may leave now, and
// returns what to write.
func (p *pass) pace() []Write {
	present, set := p.set()
	p.waiting = set.Waiting()
	walked := set.Advance(&p.timer)
	p.held, p.moves = walked.Held, set.Moves
	blocked := p.blocked()
	var writes []Write
	for i, m := range present {
		if m.health.Pinned || m.health.Contested || m.frozen {
			continue
		}
		to := p.makeRoom(m, replica.Clip(walked.Sizes[i]))
		if w := m.write(to); w != nil {
			w.Moves = replica.Clip(walked.Moves[i])
			if to != replica.Clip(walked.Sizes[i]) {
				w.Why = "it is full and makes room for pods with the new template"
			}
			if w.To > w.From && m.status.Capacity == nil {
				w.Why += blocked
			}
			writes = append(writes, *w)
			if m.status.Refused != nil {
				m.status.Refused.Replicas = to
			}
		} else if !m.Local.Unanswered {
			m.status.Refused = nil // what could not be written is not wanted any more
		}
		p.resize(m, to)
	}
	replica.GrowFirst(writes, func(w Write) int64 { return int64(w.To) - int64(w.From) })
	return writes
}

// set are the clusters as package replica knows them, and the same as members.
func (p *pass) set() ([]*member, *replica.Set) {
	var present []*member
	set := &replica.Set{
		Asked: p.total, AskedBefore: &p.in.Status.AskedReplicas, Unplaced: p.unplaced, Separate: true,
		Limit: p.in.Spec.MaxMovesPerMinute, Moves: p.moves,
	}
	for i := range p.members {
		m := &p.members[i]
		if m.status.Name == "" || m.Reach == Lost {
			continue
		}
		m.health.Size, m.health.Frozen, m.health.Staying = m.status.Written, m.frozen, m.Local.Staying
		set.Silent = set.Silent || m.Reach == NotAnswering
		present, set.Targets = append(present, m), append(set.Targets, &m.health)
	}
	return present, set
}

// resize notes what is written to a cluster.
func (p *pass) resize(m *member, to int32) {
	m.health.Now.Resize(to, p.act, &p.timer)
	m.status.Written = to
	if to > 0 && !m.Local.Exists || m.due {
		m.status.Revision = p.revision
	}
	m.record()
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
