package federation

import (
	"cmp"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// look takes in what was found in a cluster. The status of one that is of no interest stays empty.
func (p *pass) look(m *member) {
	switch {
	case m.Reach == Reachable:
		p.observe(m)
	case m.before == nil || m.before.Reason == ReasonUnknown:
		if m.entry != "" {
			m.health.Pinned = true
			if m.status = (v1alpha1.FederatedClusterStatus{Name: m.Name, Reason: ReasonUnknown}); m.Reach == NotAnswering {
				m.Reach = Lost // it has nothing that could be kept
			}
			m.status.Message = "it could never be reached, so it has no share yet"
		}
	default:
		m.health.Before = healthOf(m.before)
		m.health.Now, m.health.Pinned, m.status = m.health.Before, true, *m.before
		m.status.Reachable, m.status.Reason, m.status.Desired, m.status.Pending = false, ReasonUnreachable, m.before.Written, 0
		m.status.Message = "it has not answered for a short time and keeps what it has"
		if m.Reach == Lost {
			m.status.Reason, m.status.Desired = ReasonLost, 0
			m.status.Message = "it cannot be reached, or has returned only a moment ago: its replicas run elsewhere, and nothing is deleted there"
		}
	}
}

// observe takes in what was found in a cluster that can be reached.
func (p *pass) observe(m *member) {
	l := m.Local
	if m.entry == "" && (l.Foreign || !l.Exists && m.before == nil) {
		return
	}
	before := ptr.Deref(m.before, v1alpha1.FederatedClusterStatus{})
	m.health.Before = healthOf(&before)
	m.status = v1alpha1.FederatedClusterStatus{
		Name: m.Name, Reachable: true, Written: l.Replicas, Pods: l.Act.Existing, Ready: l.Act.Ready, Revision: l.Revision, Content: before.Content,
	}
	switch {
	case l.Terminating:
		m.status.Written, m.status.Revision = before.Written, before.Revision
	case !l.Exists:
		m.status.Written, m.status.Revision = 0, ""
	}
	if m.status.Refused = p.refused(before.Refused); m.status.Refused != nil && m.tookOver(p.revision) {
		m.status.Refused = nil
	}
	// A changed object is tried at once.
	m.frozen = m.status.Refused != nil && p.in.Status.ObservedGeneration == p.in.Generation && p.timer.Now.Before(retryAt(m.status.Refused))
	if m.frozen {
		p.timer.At(retryAt(m.status.Refused))
	}
	m.frozen = m.frozen || l.Terminating
	m.found = m.size(&before)
	p.lookForOthers(m, &before)
	if p.lookAtRollout(m, &before); m.status.RollingSince != nil {
		if p.countInRollout(m); m.status.Refused != nil {
			p.countFailing(m)
		}
		return
	}
	m.health.Now = replica.ObserveCounts(m.health.Before, m.found, l.Act, &p.timer)
	waiting := replica.ObserveCounts(m.health.Before, m.found, l.Normal, &p.timer)
	m.waits = waiting.NotStarted > 0
	p.countFailing(m)
}

// size is how many replicas the cluster was asked for: what was written, even if somebody has
// changed or deleted it since, and what could not be written, which it was not able to run.
func (m *member) size(before *v1alpha1.FederatedClusterStatus) int32 {
	size := before.Written
	if m.Local.Exists {
		size = ptr.Deref(m.Local.Written, m.Local.Replicas)
	}
	if m.status.Refused != nil {
		size = max(size, m.status.Refused.Replicas)
	}
	return size
}

// tookOver reports whether the local object, as it was read, is what could not be written before.
func (m *member) tookOver(revision string) bool {
	l, n := &m.Local, m.status.Refused.Replicas
	return n > 0 && l.Exists && !l.Unanswered && l.Revision == revision && l.Replicas == n && ptr.Deref(l.Written, -1) == n
}

// countFailing counts replicas that could not be created, or not even be written, for the time in which
// pods have to start.
func (p *pass) countFailing(m *member) {
	since := m.Local.FailingSince
	if r := m.status.Refused; r != nil && (since.IsZero() || r.FirstTime.Time.Before(since)) {
		since = r.FirstTime.Time
	}
	if since.IsZero() {
		return
	}
	h := &m.health.Now
	if deadline := since.Add(p.act); !deadline.Before(p.timer.Now) {
		p.timer.At(deadline.Add(time.Nanosecond))
		return
	}
	missing := max(0, h.Size-m.Local.Act.Existing)
	h.NotStarted = min(h.NotStarted-h.Uncreated+missing, max(0, h.Size-h.Running))
	h.Uncreated = min(missing, h.NotStarted)
}

// refused is a stored failure, without times in the future.
func (p *pass) refused(r *v1alpha1.FederatedRefusal) *v1alpha1.FederatedRefusal {
	if r == nil {
		return nil
	}
	r = r.DeepCopy()
	r.FirstTime, r.LastTime = *podhealth.NotAfter(&r.FirstTime, p.in.Now), *podhealth.NotAfter(&r.LastTime, p.in.Now)
	return r
}

const (
	// firstRetry and lastRetry bound the time until a write is tried again that failed; it takes
	// four times as long each time.
	firstRetry, lastRetry = time.Second, 5 * time.Minute
)

// retryAt is when a write is tried again.
func retryAt(r *v1alpha1.FederatedRefusal) time.Time {
	return r.LastTime.Add(min(lastRetry, firstRetry<<(2*min(max(0, r.Count-1), 5))))
}

// learn updates what is known about the capacities of the clusters.
func (p *pass) learn() {
	var learning []*member
	var targets []*replica.Target
	for i := range p.members {
		if m := &p.members[i]; m.status.Name != "" && m.Reach != Lost {
			t := m.health
			t.Pinned = t.Pinned || m.steady()
			learning, targets = append(learning, m), append(targets, &t)
		}
	}
	replica.Learn(targets, p.stabilization(), &p.timer)
	for i, m := range learning {
		m.health.Before, m.health.Now = targets[i].Before, targets[i].Now
		if m.status.RollingSince != nil {
			m.health.Now.FineSince = nil // without its probe a cluster seems to have recovered
		}
		m.record()
	}
}

func (p *pass) stabilization() time.Duration {
	return cmp.Or(p.in.Spec.Fallback.StabilizationTime.Duration, v1alpha1.DefaultStabilizationTime)
}

// healthOf is the health of a cluster as the status has it.
func healthOf(s *v1alpha1.FederatedClusterStatus) replica.Health {
	return replica.Health{
		Size: s.Written, Running: s.Running, NotStarted: s.Unschedulable + s.Uncreated, Uncreated: s.Uncreated, BelowSizeSince: s.BelowSizeSince,
		Capacity: s.Capacity, BlockedSince: s.BlockedSince, FineSince: s.FineSince,
	}
}

// record writes the health of a cluster to its status.
func (m *member) record() {
	s, h := &m.status, m.health.Now
	s.Running, s.Unschedulable, s.Uncreated, s.BelowSizeSince = h.Running, h.NotStarted-h.Uncreated, h.Uncreated, h.BelowSizeSince
	s.Capacity, s.BlockedSince, s.FineSince = h.Capacity, h.BlockedSince, h.FineSince
}

// inWords is a number of replicas in words.
func inWords(n int64) string { return spelling.Count(n, "replica") }

// have is the verb for a number of things.
func have(n int64) string {
	if n == 1 {
		return " has"
	}
	return " have"
}
