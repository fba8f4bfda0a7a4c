package balancer

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// past is what is remembered of a target without times that are still to come: where a clock was wrong, they would never be
// over.
func past(s v1alpha1.BalancerTargetStatus, now time.Time) v1alpha1.BalancerTargetStatus {
	s.BelowSizeSince, s.BlockedSince, s.FineSince = notAfter(s.BelowSizeSince, now), notAfter(s.BlockedSince, now), notAfter(s.FineSince, now)
	if w := s.Overwrites; w != nil {
		w = w.DeepCopy()
		w.LastTime, w.LeftAloneUntil = *notAfter(&w.LastTime, now), notAfter(w.LeftAloneUntil, now.Add(lastPeace))
		s.Overwrites = w
	}
	return s
}

// notAfter is a time, or the latest that it may be.
func notAfter(t *metav1.Time, latest time.Time) *metav1.Time {
	if t == nil || !t.After(latest) {
		return t
	}
	return stamp(latest)
}

// instant is the least time after a deadline at which it is over.
const instant = time.Nanosecond

// timer finds the earliest of several times that are still to come.
type timer struct{ now, next time.Time }

func (t *timer) at(when time.Time) {
	if when.After(t.now) && (t.next.IsZero() || when.Before(t.next)) {
		t.next = when
	}
}

// observe brings the counts in the status of a target that could be read up to date. What is desired comes later.
func observe(o TargetObservation, before v1alpha1.BalancerTargetStatus, f *v1alpha1.Fallback, t *timer) v1alpha1.BalancerTargetStatus {
	s := v1alpha1.BalancerTargetStatus{Name: o.Name, Current: o.Replicas, Running: running(o.Pods, t)}
	s.BelowSizeSince = belowSize(s, before, t.now)
	if f == nil {
		return s
	}
	if p := progress(o.Pods, f.StartupTimeout.Duration, t.now); s.BelowSizeSince != nil && p.After(s.BelowSizeSince.Time) {
		s.BelowSizeSince = stamp(p)
	}
	s.NotStarted = late(o, s.BelowSizeSince, f.StartupTimeout.Duration, t)
	return s
}

// starts tells whether it is open yet what the target is able to run: replicas are missing, and nothing was known before.
func starts(s, before v1alpha1.BalancerTargetStatus) bool {
	return s.Running < s.Current && before.Capacity == nil
}

// running counts the fine pods.
func running(pods []Pod, t *timer) int32 {
	var n int32
	for _, p := range pods {
		if p.state(t.now, patience{}) == fine {
			n++
		}
		if !p.Terminating && p.CrashLooping {
			t.at(p.SteadyAt)
		}
	}
	return n
}

// belowSize is since when pods that should exist are missing or not fine. A pod that became fine meanwhile restarts the
// clock: a target that gets there step by step, in a rolling update or behind an autoscaler, is not stuck. A pod that was
// merely created again does not.
func belowSize(s, before v1alpha1.BalancerTargetStatus, now time.Time) *metav1.Time {
	switch {
	case s.Running >= s.Current:
		return nil
	case before.BelowSizeSince == nil || s.Running > before.Running:
		return stamp(now)
	}
	return before.BelowSizeSince
}

// progress is when the last of the pods that are fine became so. In a rolling update one comes and one goes, and the count of
// them says nothing. A pod that is ready now and then makes progress no longer than it may take to start.
func progress(pods []Pod, timeout time.Duration, now time.Time) time.Time {
	var last time.Time
	for _, p := range pods {
		if p.state(now, patience{}) != fine {
			continue
		}
		became := p.Created
		if p.ReadySince.After(became) {
			became = p.ReadySince
		}
		if end := p.Created.Add(timeout); became.After(end) {
			became = end
		}
		if became.After(last) && !became.After(now) {
			last = became
		}
	}
	return last
}

// late counts the replicas that have not started in time: pods, and places for which no pod was created. Pods beyond the size
// are none of them: where a rolling update adds some, all that is asked for may well run.
func late(o TargetObservation, below *metav1.Time, timeout time.Duration, t *timer) int32 {
	limit := patience{timeout: timeout}
	if below != nil {
		limit.belowSince = below.Time
		t.at(below.Add(timeout + instant))
	}
	var n, existing, fit int32
	for _, p := range o.Pods {
		switch p.state(t.now, limit) {
		case notStarted:
			n++
			existing++
		case starting:
			existing++
			t.at(p.waitingSince(t.now).Add(timeout + instant))
		case fine:
			existing++
			fit++
		default:
		}
	}
	if limit.exhausted(t.now) {
		n += max(0, o.Replicas-existing)
	}
	return min(n, max(0, o.Replicas-fit))
}

// memory says how long capacities are remembered.
type memory struct {
	// stable is the stabilization time.
	stable time.Duration
	// open tells that a target is starting replicas, and may or may not be able to run them.
	open bool
	// closing tells that it became known now of a target that it is not able to run what it started.
	closing bool
}

// remember keeps what is known of the target's capacity: the pods that are fine, once some have not started in time.
// Fewer fine pods lower it at once. More of them raise it, and a target without any late pod is trusted again, only when
// that has lasted for the stabilization time; so a pod that comes and goes moves a replica once within that time at most.
// Nothing is forgotten while it is open what another target is able to run: two that are each asked for what the other
// could not run would change places for ever.
func remember(s *v1alpha1.BalancerTargetStatus, before v1alpha1.BalancerTargetStatus, m memory, t *timer) {
	if before.Capacity == nil {
		if s.NotStarted > 0 {
			s.Capacity, s.BlockedSince = new(s.Running), stamp(t.now)
		}
		return
	}
	capacity := *before.Capacity
	if s.NotStarted > 0 {
		capacity = min(capacity, s.Running)
	}
	s.Capacity, s.BlockedSince = new(capacity), before.BlockedSince
	s.FineSince = fineSince(*s, before, t.now)
	if s.FineSince == nil {
		return
	}
	until := s.FineSince.Add(m.stable)
	switch {
	case t.now.Before(until):
		t.at(until)
	case well(*s) && !m.open:
		s.Capacity, s.BlockedSince, s.FineSince = nil, nil, nil
	case well(*s) && m.closing:
		t.at(t.now.Add(instant))
	case s.NotStarted > 0:
		s.Capacity, s.FineSince = new(s.Running), nil
	default:
	}
}

// well tells whether all that a target asks for runs, and nothing hangs.
func well(s v1alpha1.BalancerTargetStatus) bool { return s.NotStarted == 0 && s.Running >= s.Current }

// fineSince is since when a blocked target has done better than its capacity says: it is well or, while others of its pods
// are late, more than that run. A pod of a well target that fails is an interruption, one that is added is not.
func fineSince(s, before v1alpha1.BalancerTargetStatus, now time.Time) *metav1.Time {
	if !well(s) && s.Running <= *s.Capacity {
		return nil
	}
	failed := s.Running < min(before.Running, s.Current)
	switch {
	case before.FineSince != nil && before.NotStarted == 0 && !failed, before.FineSince != nil && before.NotStarted > 0 && s.NotStarted > 0:
		return before.FineSince
	case well(s) || s.NotStarted > 0:
		return stamp(now)
	}
	return nil
}

func stabilization(f *v1alpha1.Fallback) time.Duration {
	if f.StabilizationTime.Duration == 0 {
		return v1alpha1.DefaultStabilizationTime
	}
	return f.StabilizationTime.Duration
}

// stamp is a time as the status can store it, in whole seconds.
func stamp(now time.Time) *metav1.Time {
	return new(metav1.NewTime(now.Truncate(time.Second)))
}

// clip brings a count into the range of a Scale.
func clip(n int64) int32 { return int32(max(0, min(n, math.MaxInt32))) }
