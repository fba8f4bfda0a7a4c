package federation

import (
	"cmp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// observe records what is known of a cluster. The status of one that is of no interest stays empty.
func (p *pass) observe(m *member) {
	switch {
	case m.Reach == Reachable:
		p.observeLocal(m)
	case m.before.Name == "" || m.before.Reason == ReasonUnknown:
		if m.entry != "" {
			m.health.Pinned = true
			m.status = v1alpha1.FederatedClusterStatus{Name: m.Name, Reason: ReasonUnknown,
				Message: "it could never be reached, so it has no share yet"}
			if m.Reach == NotAnswering {
				m.Reach = Lost // it has nothing that could be kept
			}
		}
	default:
		m.health.Before = healthOf(&m.before)
		m.health.Now, m.health.Pinned, m.status = m.health.Before, true, m.before
		m.status.Reachable, m.status.Reason, m.status.Desired, m.status.Pending = false, ReasonUnreachable, m.before.Written, 0
		m.status.Message = "it has not answered for a short time and keeps what it has"
		if m.Reach == Lost {
			m.status.Reason, m.status.Desired = ReasonLost, 0
			m.status.Message = "it cannot be reached, or has returned only a moment ago: its replicas run elsewhere, and nothing is deleted there"
		}
	}
}

// observeLocal records what was found in a cluster that can be reached.
func (p *pass) observeLocal(m *member) {
	l, before := m.Local, &m.before
	if m.entry == "" && (l.Foreign || !l.Exists && before.Name == "") {
		return
	}
	m.health.Before = healthOf(before)
	m.status = v1alpha1.FederatedClusterStatus{
		Name: m.Name, Reachable: true, Written: l.Replicas, Pods: l.Act.Existing, Ready: l.Act.Ready, Revision: l.Revision,
		Content: before.Content,
	}
	switch {
	case l.Terminating:
		m.status.Written, m.status.Revision = before.Written, before.Revision
	case !l.Exists:
		m.status.Written, m.status.Revision = 0, ""
	}
	if r := before.Refused.DeepCopy(); r != nil && !m.tookOver(p.revision) {
		r.FirstTime, r.LastTime = *podhealth.NotAfter(&r.FirstTime, p.in.Now), *podhealth.NotAfter(&r.LastTime, p.in.Now)
		m.status.Refused = r
		// A changed object is tried at once.
		if at := retryAt(r); p.in.Status.ObservedGeneration == p.in.Generation && p.timer.Now.Before(at) {
			m.health.Frozen = true
			p.timer.At(at)
		}
	}
	m.health.Frozen = m.health.Frozen || l.Terminating
	m.found = m.size()
	p.observeSecondWriter(m)
	if p.observeRollout(m); m.status.RollingSince != nil {
		if p.countInRollout(m); m.status.Refused != nil {
			p.countFailing(m)
		}
		return
	}
	m.health.Now = replica.Observe(m.health.Before, m.found, l.Act, &p.timer)
	m.waits = replica.Observe(m.health.Before, m.found, l.Normal, &p.timer).NotStarted > 0
	p.countFailing(m)
}

// size is how many replicas the cluster was asked for: what was written, even if somebody has
// changed or deleted it since, and what could not be written, which it was not able to run.
func (m *member) size() int32 {
	size := m.before.Written
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
	l, n := &m.Local, m.before.Refused.Replicas
	return n > 0 && l.Exists && !l.Unanswered && l.Revision == revision && l.Replicas == n && ptr.Deref(l.Written, -1) == n
}

// edited reports whether somebody else has changed the number of replicas.
func (l *Local) edited() bool { return l.Exists && l.Written != nil && *l.Written != l.Replicas }

// observeSecondWriter records whether something else also writes the local object, such as a
// HorizontalPodAutoscaler in the cluster. What is changed now and then is put right. What is changed
// again and again is put right less often, and counts with its share meanwhile, if it has as many.
func (p *pass) observeSecondWriter(m *member) {
	l, before := &m.Local, &m.before
	number := l.edited() && l.Replicas != before.Written
	content := l.Exists && (l.Foreign || l.Revision == "") && before.Revision != ""
	others := replica.StoredOverwrites(before.Overwrites, p.in.Now)
	others = replica.UpdateOverwrites(others, before.Name != "" && (number || content), p.in.Generation, &p.timer)
	if l.edited() {
		m.health.Added = max(0, l.Replicas-*l.Written)
	}
	if m.status.Overwrites = others; !l.Exists || !replica.LeftAlone(others) {
		return
	}
	m.health.Contested, m.health.Share, m.found = true, before.Desired, l.Replicas
	m.status.Reason = ReasonSecondWriter
	m.status.Message = replica.Contested(string(p.kind()), "whatever applies its manifest", others, v1alpha1.KindFederatedReplicaSet)
}

func (p *pass) kind() v1alpha1.LocalKind {
	return cmp.Or(p.in.Spec.LocalKind, v1alpha1.LocalReplicaSet)
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
	if !podhealth.Passed(since, p.act, p.timer.Now) {
		p.timer.After(since.Add(p.act))
		return
	}
	missing := max(0, h.Size-m.Local.Act.Existing)
	h.NotStarted = min(h.NotStarted-h.Uncreated+missing, max(0, h.Size-h.Running))
	h.Uncreated = min(missing, h.NotStarted)
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
	replica.Learn(targets, p.stabilization, &p.timer)
	for i, m := range learning {
		m.health.Before, m.health.Now = targets[i].Before, targets[i].Now
		if m.status.RollingSince != nil {
			m.health.Now.FineSince = nil // without its probe a cluster seems to have recovered
		}
		m.record()
	}
}

func healthOf(s *v1alpha1.FederatedClusterStatus) replica.Health {
	return replica.Health{
		Size: s.Written, Running: s.Running, NotStarted: s.Unschedulable + s.Uncreated, Uncreated: s.Uncreated, BelowSizeSince: s.BelowSizeSince,
		Capacity: s.Capacity, BlockedSince: s.BlockedSince, FineSince: s.FineSince,
	}
}

func (m *member) record() {
	s, h := &m.status, m.health.Now
	s.Running, s.Unschedulable, s.Uncreated, s.BelowSizeSince = h.Running, h.NotStarted-h.Uncreated, h.Uncreated, h.BelowSizeSince
	s.Capacity, s.BlockedSince, s.FineSince = h.Capacity, h.BlockedSince, h.FineSince
}

// firstRetry and lastRetry bound the time until a write is tried again that failed; it takes four
// times as long each time.
const firstRetry, lastRetry = time.Second, 5 * time.Minute

// retryAt is when a write is tried again.
func retryAt(r *v1alpha1.FederatedRefusal) time.Time {
	return r.LastTime.Add(min(lastRetry, firstRetry<<(2*min(max(0, r.Count-1), 5))))
}

// Answer is what became known of a write after its status was stored.
type Answer struct {
	Write Write
	// Refused is the answer of the cluster, or says why there is none. It is empty if the object was
	// deleted, to be created again.
	Refused string
	// Content says that the write was made after all, and is the hash of the pod template that the
	// cluster made of it.
	Content string
}

// Answered takes what became known of writes into a status, which assumes that all of them succeed. It
// returns the events about failures. A write that failed is tried again after a time that grows; its replicas
// count as missing since it failed first.
func Answered(status v1alpha1.FederatedReplicaSetStatus, answers []Answer,
	now time.Time) (v1alpha1.FederatedReplicaSetStatus, podhealth.Events) {
	status = *status.DeepCopy()
	var events podhealth.Events
	var refusals []string
	for _, a := range answers {
		s := status.Cluster(a.Write.Cluster)
		if s == nil {
			continue
		}
		if a.Content != "" {
			s.Content = a.Content
			continue
		}
		s.Written, s.Revision = a.Write.From, a.Write.Was
		if a.Refused == "" {
			continue
		}
		before := ptr.Deref(s.Refused, v1alpha1.FederatedRefusal{})
		s.Refused = &v1alpha1.FederatedRefusal{Replicas: a.Write.To, Count: 1, FirstTime: *podhealth.Stamp(now), LastTime: *podhealth.Stamp(now),
			Message: a.Refused}
		if !before.FirstTime.IsZero() {
			s.Refused.Count, s.Refused.FirstTime = before.Count+1, before.FirstTime
		}
		refusals = append(refusals, refusal(*s))
		if before.Message != a.Refused {
			events.Add(v1.EventTypeWarning, ReasonRefused, s.Name, "cluster %s", refusal(*s))
		}
	}
	if len(refusals) > 0 {
		settled := podhealth.Condition(v1alpha1.ConditionSettled, false, ReasonRefused, strings.Join(refusals, "; "))
		status.Conditions = podhealth.Conditions(status.Conditions, []metav1.Condition{settled}, status.ObservedGeneration, now)
	}
	return status, events
}
