package federation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/replica"
)

// share distributes the replicas, and sets what every cluster is to have.
func (p *pass) share() error {
	targets := p.targets()
	shares, err := p.layout(targets)
	if err != nil {
		return err
	}
	rebalanced := shares
	if !p.preferences.Rebalance {
		free, preferences := *p, *p.preferences // as if replicas could move
		preferences.Rebalance = true
		free.preferences = &preferences
		if rebalanced, err = free.layout(targets); err != nil {
			return err
		}
	}
	p.unplaced = p.total
	for _, s := range shares {
		p.unplaced -= s.result.Replicas - s.result.Pending
	}
	p.unplaced = max(0, p.unplaced)
	for i := range p.members {
		m := &p.members[i]
		s, ok := shares[m.Name]
		switch {
		case m.health.Pinned:
			if m.health.Desired = m.status.Desired; ok {
				m.health.Pending = replica.Clip(s.result.Pending)
			}
		case m.status.Name == "":
		case !ok && m.health.Contested:
		case !ok:
			m.status.Reason, m.status.Message = ReasonNoEntry, m.why()
		default:
			if p.assign(m, s, rebalanced[m.Name].result); m.health.Contested {
				continue
			}
			m.status.Reason = replica.Reason(s.result.Reason)
			m.status.Message = m.explain(s)
			if m.bounded() {
				p.timer.At(p.in.Now.Add(roomInterval))
			}
		}
	}
	return nil
}

// roomInterval is after how long it is found out whether the nodes of a cluster have more room.
const roomInterval = time.Minute

// bounded reports whether the cluster has fewer replicas than its share because of the room that its
// nodes are known to have.
func (m *member) bounded() bool {
	return m.Room != nil && m.status.Capacity == nil && m.status.Reason == replica.Reason(apportion.ReasonCapacity)
}

// assign sets what a cluster is to have: what it runs, and those that wait there, the probe and what has no
// place elsewhere. Where the room is known nothing has to wait to find it out; but what has
// no place anywhere may wait, because pods of a higher priority make room for themselves.
func (p *pass) assign(m *member, s share, rebalanced apportion.TargetResult) {
	result := s.result
	result.Replicas, result.Pending = result.Replicas-result.Pending, 0
	probe := int64(ptr.Deref(p.in.Spec.Fallback.Probe, v1alpha1.DefaultFederatedProbe))
	if m.health.Now.Capacity == nil {
		probe = min(probe, p.unplaced)
	}
	m.health.Assign(s.target, result, rebalanced, p.unplaced, probe)
	if m.status.RollingSince != nil { // pods that cannot start would keep a Deployment from replacing the others
		m.health.Desired, m.health.Pending = m.health.Desired-m.health.Pending, 0
	}
	m.status.Desired, m.status.Pending = m.health.Desired, m.health.Waiting()
}

func (p *pass) layout(targets map[string]apportion.Target) (map[string]share, error) {
	shares := make(map[string]share, len(targets))
	if len(targets) == 0 {
		return shares, nil
	}
	return shares, p.distribute(p.tree(targets), p.total, "", shares)
}

// targets are the clusters that take part, as targets of package apportion.
func (p *pass) targets() map[string]apportion.Target {
	targets := map[string]apportion.Target{}
	var minimums int64
	for i := range p.members {
		m := &p.members[i]
		if m.entry == "" || m.Reach == Lost || m.status.Name == "" {
			continue
		}
		t := p.target(m)
		targets[m.Name] = t
		minimums += t.Min
	}
	if minimums > p.total && len(targets) > 0 && p.tree(targets).deep() {
		grant(targets, p.total)
	}
	if !p.preferences.Rebalance {
		p.leaveFirst(targets)
	}
	p.limitWaiting(targets)
	return targets
}

// target is a cluster as a target. A pinned one keeps its size, and is served first.
func (p *pass) target(m *member) apportion.Target {
	t := targetOf(m.Name, p.preferences.within(m.entry, m.Name))
	switch size := int64(m.health.Now.Size); {
	case m.health.Pinned:
		t.Min, *t.Max, *t.Weight = size, size, pinnedWeight
	case m.Leaving:
		*t.Max = 0
	case m.NoSchedule:
		*t.Max = min(*t.Max, size)
	}
	t.Min = min(t.Min, *t.Max)
	m.low = t.Min
	m.health.Limit(&t)
	if m.status.RollingSince != nil && t.Capacity != nil {
		t.Current, t.Taken = *t.Capacity, new(*t.Capacity) // it may have one fewer for a while: see makeRoom
	}
	if m.Room != nil && !m.health.Pinned {
		room := max(int64(*m.Room), int64(m.health.Now.Size-m.before.Pending))
		t.Capacity = new(min(room, ptr.Deref(t.Capacity, room)))
		t.Current = min(t.Current, *t.Capacity)
	}
	return t
}

// pinnedWeight is more than any weight that a user can give.
const pinnedWeight = 1 << 40

// leaveFirst lowers what counts as placed to the total, if it is more.
func (p *pass) leaveFirst(targets map[string]apportion.Target) {
	var of []*replica.Target
	request := apportion.Request{Replicas: p.total}
	for i := range p.members {
		if t, ok := targets[p.members[i].Name]; ok {
			of, request.Targets = append(of, &p.members[i].health), append(request.Targets, t)
		}
	}
	replica.LeaveFirst(of, &request)
	for _, t := range request.Targets {
		targets[t.Name] = t
	}
}

// limitWaiting keeps clusters in which pods wait for longer than is normal from taking over what
// others cannot run: it is not known yet whether they are able to. Their own share they may get.
func (p *pass) limitWaiting(targets map[string]apportion.Target) {
	waits := func(m member) bool { return m.waits && m.health.Now.Capacity == nil && !m.health.Pinned }
	if !slices.ContainsFunc(p.members, waits) {
		return
	}
	healthy := make(map[string]apportion.Target, len(targets))
	for name, t := range targets {
		t.Capacity = nil
		healthy[name] = t
	}
	own, err := p.layout(healthy)
	if err != nil {
		return // the distribution itself returns it
	}
	for _, m := range p.members {
		if t, ok := targets[m.Name]; ok && waits(m) {
			t.Max = new(min(*t.Max, max(int64(m.health.Now.Size), own[m.Name].result.Replicas)))
			t.Min = min(t.Min, *t.Max)
			targets[m.Name] = t
		}
	}
}

// why is the reason of a cluster in a few words.
func (m *member) why() string {
	switch s := m.status; {
	case m.entry == "":
		return "no entry of the preferences applies to it"
	case m.Leaving:
		return "it is leaving, so it is emptied"
	case m.NoSchedule && s.Reason == replica.Reason(apportion.ReasonMax):
		return "it is marked NoSchedule and keeps what it has"
	case m.waits && s.Reason == replica.Reason(apportion.ReasonMax):
		return "pods wait there, so it takes nothing over from others"
	default:
		return replica.Why(s.Reason, "its share by weight")
	}
}

// explain says how the number of a cluster came about.
func (m *member) explain(s share) string {
	text := m.why()
	weight := ptr.Deref(s.target.Weight, 0)
	switch {
	case weight == 0 && m.status.Desired <= replica.Clip(s.target.Min) && !m.Leaving && !m.NoSchedule:
		text += fmt.Sprintf("; it has weight 0 by %s, so no more than its minimum, %d", entryName(m.entry), s.target.Min)
	case m.status.Reason == replica.Reason(apportion.ReasonWeight):
		text += fmt.Sprintf(", %d of %d by %s", weight, s.weights, entryName(m.entry))
	case m.status.Reason == replica.Reason(apportion.ReasonMax) && !m.NoSchedule && !m.Leaving && !m.waits:
		text += fmt.Sprintf(", %d", ptr.Deref(s.target.Max, apportion.MaxReplicas))
	case m.status.Reason == replica.Reason(apportion.ReasonMin) && s.result.Replicas < m.low:
		text = fmt.Sprintf("it has %d of its minimum, %d: the minimums sum to more than the replicas", s.result.Replicas, m.low)
	case m.status.Reason == replica.Reason(apportion.ReasonMin):
		text += fmt.Sprintf(", %d", s.target.Min)
	}
	text += s.path
	if m.status.Capacity != nil {
		text += "; it is known to be able to run " + inWords(*m.status.Capacity)
	} else if m.bounded() {
		text += "; its nodes have room for " + inWords(*s.target.Capacity)
	}
	if n := m.status.Unschedulable; n > 0 {
		text += "; " + inWords(n) + verb(n, " has", " have") + " not started in time"
	}
	if n := m.status.Uncreated; n > 0 {
		text += "; " + inWords(n) + verb(n, " has", " have") + " no pod"
	}
	if n := m.status.Pending; n > 0 {
		text += fmt.Sprintf("; %s %s there to show when there is room", inWords(n), verb(n, "waits", "wait"))
	}
	return text
}

func inWords[N int32 | int64](n N) string { return spelling.Count(n, "replica") }

// verb is the one of two forms of a verb that goes with a number.
func verb[N int | int32 | int64](n N, one, more string) string {
	if n == 1 {
		return one
	}
	return more
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
		m.health.Size, m.health.Staying = m.status.Written, m.Local.Staying
		set.Silent = set.Silent || m.Reach == NotAnswering
		present, set.Targets = append(present, m), append(set.Targets, &m.health)
	}
	return present, set
}

// pace takes the clusters towards their desired numbers, as far as replicas may leave now, and
// returns what to write.
func (p *pass) pace() []Write {
	present, set := p.set()
	p.waiting = set.Waiting()
	walked := set.Advance(&p.timer)
	p.held, p.moves = walked.Held, set.Moves
	var blocked []string
	for _, m := range p.members {
		if m.status.Capacity != nil && m.health.Now.NotStarted > 0 {
			blocked = append(blocked, m.Name)
		}
	}
	var writes []Write
	for i, m := range present {
		if m.health.Pinned || m.health.Contested || m.health.Frozen {
			continue
		}
		size := replica.Clip(walked.Sizes[i])
		to := p.makeRoom(m, size)
		if w := m.write(to); w != nil {
			w.Moves = replica.Clip(walked.Moves[i])
			if to != size {
				w.Why = "it is full and makes room for pods with the new template"
			}
			if w.To > w.From && m.status.Capacity == nil {
				w.Why += replica.Elsewhere(blocked)
			}
			writes = append(writes, *w)
			if m.status.Refused != nil {
				m.status.Refused.Replicas = to
			}
		} else if m.status.Refused != nil && !m.Local.Unanswered {
			m.status.Refused = nil     // what could not be written is not wanted any more,
			p.timer.After(p.timer.Now) // and others need not wait for it
		}
		m.health.Now.Resize(to, p.act, &p.timer)
		m.status.Written = to
		if to > 0 && !m.Local.Exists || m.due {
			m.status.Revision = p.revision
		}
		m.record()
	}
	replica.GrowFirst(writes, func(w Write) int64 { return int64(w.To) - int64(w.From) })
	return writes
}

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
