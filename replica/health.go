package replica

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/podhealth"
)

// Health is how many of its replicas a target runs, and what was learned from that about how many
// it is able to run. It must be stored after a decision and handed in with the next one. The zero
// value is the health of a target that nothing is known about. Times are whole seconds; nil means
// that the state they date does not hold.
type Health struct {
	Size    int32 // the number of replicas that the target is asked for
	Running int32 // how many of its pods run
	// NotStarted is how many of its replicas have not started in time, whether or not they have a
	// pod.
	NotStarted int32
	// Uncreated is the part of NotStarted that has no pod. It is only read.
	Uncreated int32
	// BelowSizeSince is since when fewer replicas run than the target is asked for, and none has
	// become ready.
	BelowSizeSince *metav1.Time
	// Capacity is how many replicas the target is known to be able to run; nil if it is not known
	// to be limited.
	Capacity     *int32
	BlockedSince *metav1.Time // since when there is a Capacity
	// FineSince is since when the target has run more than its Capacity says, or all that it is
	// asked for.
	FineSince *metav1.Time
}

// Observe updates the counts in the health of a target from its size and its pods, counted at the time of the
// timer; Learn updates what they mean for its capacity. A replica has not started in time if it takes longer than
// the timeout that its pods are counted with; with a timeout of 0 it may take any time.
func Observe(before Health, size int32, c podhealth.Counts, t *podhealth.Timer) Health {
	before = before.notAfter(t.Now)
	h := Health{Size: size, Running: c.Running}
	t.At(c.Steady)
	h.BelowSizeSince = h.belowSize(before, t.Now)
	if c.Timeout <= 0 {
		return h
	}
	if h.BelowSizeSince != nil && c.Progress.After(h.BelowSizeSince.Time) {
		h.BelowSizeSince = podhealth.Stamp(c.Progress)
	}
	h.countNotStarted(c, t)
	return h
}

// Resize notes that the target is now asked for another number of replicas. The time to start the
// new ones begins now.
func (h *Health) Resize(size int32, timeout time.Duration, t *podhealth.Timer) {
	h.Size = size
	h.BelowSizeSince = h.belowSize(*h, t.Now)
	if timeout > 0 && h.BelowSizeSince != nil {
		t.After(h.BelowSizeSince.Add(timeout))
	}
}

// notAfter returns the health without times in the future.
func (h Health) notAfter(now time.Time) Health {
	h.BelowSizeSince, h.BlockedSince, h.FineSince = podhealth.NotAfter(h.BelowSizeSince, now), podhealth.NotAfter(h.BlockedSince, now),
		podhealth.NotAfter(h.FineSince, now)
	return h
}

// recovered reports whether all that the target is asked for runs, and nothing has failed to start.
func (h Health) recovered() bool { return h.NotStarted == 0 && h.Running >= h.Size }

// belowSize is since when replicas are missing or do not run. It starts again when one more runs
// than before: a target that gets there step by step, in a rolling update or behind an autoscaler,
// is not blocked. It does not start again when a pod is merely deleted and created again.
func (h Health) belowSize(before Health, now time.Time) *metav1.Time {
	switch {
	case h.Running >= h.Size:
		return nil
	case before.BelowSizeSince == nil || h.Running > before.Running:
		return podhealth.Stamp(now)
	}
	return before.BelowSizeSince
}

// countNotStarted counts the replicas that have not started in time: pods, and replicas for which
// no pod was created. A pod that is deleted and created again has no more time than the one before it,
// since the target has been below its size all the time. Pods beyond the size do not count: where a
// rolling update adds some, all that the target is asked for may well run.
func (h *Health) countNotStarted(c podhealth.Counts, t *podhealth.Timer) {
	late := c.Late
	if h.BelowSizeSince != nil {
		t.After(h.BelowSizeSince.Add(c.Timeout))
	}
	switch {
	case h.BelowSizeSince != nil && podhealth.Passed(h.BelowSizeSince.Time, c.Timeout, t.Now):
		late = c.Existing - c.Running
		h.Uncreated = max(0, h.Size-c.Existing)
	case !c.NextLate.IsZero():
		t.After(c.NextLate)
	}
	h.NotStarted = min(late+h.Uncreated, max(0, h.Size-h.Running))
	h.Uncreated = min(h.Uncreated, h.NotStarted)
}
