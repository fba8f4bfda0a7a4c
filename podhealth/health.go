package podhealth

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Health is how many of its replicas a target runs, and what was learned from that about how many
// it is able to run. It must be stored after a decision and handed in with the next one. The zero
// value is the health of a target that nothing is known about. Times are whole seconds; nil means
// that the state they date does not hold.
type Health struct {
	// Size is the number of replicas that the target is asked for.
	Size int32
	// Running is how many of its pods run.
	Running int32
	// NotStarted is how many of its replicas have not started in time, whether or not they have a
	// pod.
	NotStarted int32
	// BelowSizeSince is since when fewer replicas run than the target is asked for, and none has
	// become ready.
	BelowSizeSince *metav1.Time
	// Capacity is how many replicas the target is known to be able to run; nil if it is not known
	// to be limited.
	Capacity *int32
	// BlockedSince is since when there is a Capacity.
	BlockedSince *metav1.Time
	// FineSince is since when the target has run more than its Capacity says, or all that it is
	// asked for.
	FineSince *metav1.Time
}

// Observe updates the counts in the health of a target from its size and its pods; Learn updates
// what they mean for its capacity. A replica has not started in time if it takes longer than the
// timeout; with a timeout of 0 it may take any time.
func Observe(before Health, size int32, pods []Pod, timeout time.Duration, t *Timer) Health {
	before = before.notAfter(t.Now)
	h := Health{Size: size, Running: countRunning(pods, t)}
	h.BelowSizeSince = h.belowSize(before, t.Now)
	if timeout <= 0 {
		return h
	}
	if p := progress(pods, timeout, t.Now); h.BelowSizeSince != nil && p.After(h.BelowSizeSince.Time) {
		h.BelowSizeSince = Stamp(p)
	}
	h.NotStarted = h.countNotStarted(pods, timeout, t)
	return h
}

// Resize notes that the target is now asked for another number of replicas. The time to start the
// new ones begins now.
func (h *Health) Resize(size int32, timeout time.Duration, t *Timer) {
	h.Size = size
	h.BelowSizeSince = h.belowSize(*h, t.Now)
	if timeout > 0 && h.BelowSizeSince != nil {
		t.after(h.BelowSizeSince.Add(timeout))
	}
}

// notAfter returns the health without times in the future.
func (h Health) notAfter(now time.Time) Health {
	h.BelowSizeSince, h.BlockedSince, h.FineSince = NotAfter(h.BelowSizeSince, now), NotAfter(h.BlockedSince, now), NotAfter(h.FineSince, now)
	return h
}

// recovered reports whether all that the target is asked for runs, and nothing has failed to start.
func (h Health) recovered() bool { return h.NotStarted == 0 && h.Running >= h.Size }

// countRunning counts the pods that run.
func countRunning(pods []Pod, t *Timer) int32 {
	var n int32
	for _, p := range pods {
		if p.state(t.Now, deadline{}) == running {
			n++
		}
		if !p.Terminating && p.CrashLooping {
			t.At(p.SteadyAt)
		}
	}
	return n
}

// belowSize is since when replicas are missing or do not run. It starts again when one more runs
// than before: a target that gets there step by step, in a rolling update or behind an autoscaler,
// is not blocked. It does not start again when a pod is merely deleted and created again.
func (h Health) belowSize(before Health, now time.Time) *metav1.Time {
	switch {
	case h.Running >= h.Size:
		return nil
	case before.BelowSizeSince == nil || h.Running > before.Running:
		return Stamp(now)
	}
	return before.BelowSizeSince
}

// progress is when the last of the running pods started to run. In a rolling update pods come and
// go, and their number does not show progress. A pod that is ready now and then shows progress only
// for as long as it may take to start.
func progress(pods []Pod, timeout time.Duration, now time.Time) time.Time {
	var last time.Time
	for _, p := range pods {
		if p.state(now, deadline{}) != running {
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

// countNotStarted counts the replicas that have not started in time: pods, and replicas for which
// no pod was created. Pods beyond the size do not count: where a rolling update adds some, all that
// the target is asked for may well run.
func (h Health) countNotStarted(pods []Pod, timeout time.Duration, t *Timer) int32 {
	d := deadline{timeout: timeout}
	if h.BelowSizeSince != nil {
		d.belowSince = h.BelowSizeSince.Time
		t.after(d.belowSince.Add(timeout))
	}
	var n, existing int32
	for _, p := range pods {
		switch p.state(t.Now, d) {
		case notStarted:
			n++
			existing++
		case starting:
			existing++
			t.after(p.startingSince(t.Now).Add(timeout))
		case running:
			existing++
		default:
		}
	}
	if d.passedForAll(t.Now) {
		n += max(0, h.Size-existing)
	}
	return min(n, max(0, h.Size-h.Running))
}
