package replica

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Learn updates the capacities of all targets that share replicas.
//
// The first replica that has not started in time makes a target blocked: its capacity is what runs.
// More such replicas lower the capacity at once. Running replicas raise it, and a target that runs
// all it is asked for is no longer blocked, but both only when that has lasted for the
// stabilization time. So a pod that comes and goes moves a replica at most once in that time.
//
// A capacity is not forgotten while it is not yet known what another target is able to run.
// Otherwise two targets, each asked for what the other was not able to run, would swap their shares
// forever.
//
// Without a stabilization time there is no fallback, and all capacities are forgotten.
func Learn(targets []*Target, stabilization time.Duration, t *podhealth.Timer) {
	l := learning{stabilization: stabilization, timer: t}
	for _, target := range targets {
		target.Before, target.Now = target.Before.notAfter(t.Now), target.Now.notAfter(t.Now)
		undecided := !target.Pinned && target.undecided()
		l.undecided = l.undecided || undecided
		l.deciding = l.deciding || undecided && target.Now.NotStarted > 0
	}
	for _, target := range targets {
		l.learn(target)
	}
}

// undecided reports whether it is not yet known what the target is able to run: replicas are
// missing, and there was no capacity.
func (t *Target) undecided() bool { return t.Now.Running < t.Now.Size && t.Before.Capacity == nil }

type learning struct {
	stabilization time.Duration
	timer         *podhealth.Timer
	// undecided reports that some target is starting replicas and may or may not be able to run
	// them.
	undecided bool
	deciding  bool // such a target is now known not to be able to run them
}

func (l *learning) learn(target *Target) {
	h, before := &target.Now, target.Before
	switch {
	case l.stabilization <= 0:
		h.NotStarted, h.Uncreated, h.Capacity, h.BlockedSince, h.FineSince = 0, 0, nil, nil, nil
		return
	case target.Pinned:
		h.Capacity, h.BlockedSince, h.FineSince = before.Capacity, before.BlockedSince, before.FineSince
		return
	case before.Capacity == nil:
		if h.NotStarted > 0 {
			h.Capacity, h.BlockedSince = new(h.Running), podhealth.Stamp(l.timer.Now)
		}
		return
	}
	capacity := *before.Capacity
	if h.NotStarted > 0 {
		capacity = min(capacity, h.Running)
	}
	h.Capacity, h.BlockedSince = new(capacity), before.BlockedSince
	if h.FineSince = h.fineSince(before, l.timer.Now); h.FineSince != nil {
		l.restore(h, h.FineSince.Add(l.stabilization))
	}
}

// restore raises or forgets the capacity of a target that has done better than it since before,
// once the stabilization time is over.
func (l *learning) restore(h *Health, stable time.Time) {
	switch {
	case l.timer.Now.Before(stable):
		l.timer.At(stable)
	case h.recovered() && !l.undecided:
		h.Capacity, h.BlockedSince, h.FineSince = nil, nil, nil
	case h.recovered() && l.deciding:
		l.timer.After(l.timer.Now) // the next decision no longer finds that target undecided
	case h.NotStarted > 0:
		h.Capacity, h.FineSince = new(h.Running), nil
	}
}

// fineSince is since when a blocked target has done better than its capacity: it has recovered or,
// while other replicas of it have not started in time, more run than its capacity says. A pod of a
// recovered target that fails interrupts that; a replica that is added does not.
func (h Health) fineSince(before Health, now time.Time) *metav1.Time {
	if !h.recovered() && h.Running <= *h.Capacity {
		return nil
	}
	failed := h.Running < min(before.Running, h.Size)
	switch {
	case before.FineSince != nil && before.NotStarted == 0 && !failed, before.FineSince != nil && before.NotStarted > 0 && h.NotStarted > 0:
		return before.FineSince
	case h.recovered() || h.NotStarted > 0:
		return podhealth.Stamp(now)
	}
	return nil
}

// Limit sets the capacity of a target in a request, and what counts as placed there: of the replicas that it has,
// no more than it is able to run. Of a contested one that is no more than it has and no more than it was to have.
func (t *Target) Limit(in *apportion.Target) {
	in.Current = int64(t.Now.Size)
	if c := t.Now.Capacity; c != nil {
		in.Capacity = new(int64(*c))
		in.Current = min(in.Current, *in.Capacity)
		in.Taken = new(in.Current)
	}
	if t.Contested {
		in.Max = new(min(ptr.Deref(in.Max, apportion.MaxReplicas), int64(t.Now.Size)))
		in.Min, in.Current = min(in.Min, *in.Max), min(in.Current, int64(t.Share))
	}
}

// Assign sets what the target is to have from its result. Rebalanced is the result if replicas could move: where
// they stay, no target may be about to get more, and yet it shows which ones their capacity holds back. Beyond
// what the target is expected to run that is:
//
//   - those that the result leaves pending;
//   - the probe, if there are fewer: as many as wait on a target that its capacity holds back from its
//     weight's share, because nothing else would show that the capacity has grown;
//   - those that it has already and that have no place elsewhere, of the unplaced ones. Their pods
//     may only be slow, and would have to start again.
func (t *Target) Assign(in apportion.Target, r, rebalanced apportion.TargetResult, unplaced, probe int64) {
	h := &t.Now
	highest := ptr.Deref(in.Max, apportion.MaxReplicas)
	runnable, pending := r.Replicas-r.Pending, r.Pending
	held := r.Reason == apportion.ReasonCapacity || rebalanced.Reason == apportion.ReasonCapacity
	if held && (h.Capacity == nil || runnable >= int64(*h.Capacity)) {
		pending = max(pending, min(probe, highest-runnable))
	}
	if h.Capacity != nil && ptr.Deref(in.Weight, 1) > 0 {
		pending = max(pending, min(int64(h.Size), highest, runnable+unplaced)-runnable)
	}
	t.Desired, t.Pending = Clip(runnable+pending), Clip(pending)
}

// Clip limits a count to the range of a Scale.
func Clip(n int64) int32 { return int32(max(0, min(n, math.MaxInt32))) }
