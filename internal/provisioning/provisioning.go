package provisioning

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/workloadspread"
)

const (
	// Fresh is how old the status of a Cluster Autoscaler that runs may be. It is written after every
	// loop, which takes minutes in the largest clusters.
	Fresh = 5 * time.Minute
	// Grace is how long the scheduler may take to use a node that has come, and Cluster Autoscaler to
	// look at a pod or to try another node group.
	Grace = 30 * time.Second
)

// Of returns what an autoscaler does about a pod that the scheduler finds no node for. It is false if
// that is not known, or there is no autoscaler; then the pod's own time counts alone.
//
// The events are those about the pod, and about others, in any order. The status is nil if there is
// none. Since is when the pod began to wait for a node, or when the autoscaler gave up and the time to
// try something else has passed, which may be after now. A change of either is not announced: ask again
// while the pod waits.
func Of(pod *v1.Pod, events []v1.Event, status *Status, now time.Time) (workloadspread.ScaleUp, bool) {
	since, waits := workloadspread.UnschedulableSince(pod)
	if !waits {
		return workloadspread.ScaleUp{}, false
	}
	if Decided(pod) {
		c := conditionOf(pod, ConditionType)
		return workloadspread.ScaleUp{Acting: c.Status == v1.ConditionTrue, Since: c.LastTransitionTime.Time}, true
	}
	if status != nil && now.Sub(status.Time) > Fresh {
		status = nil // it does not run any more
	}
	heard := hear(pod, events, now)
	switch {
	case !heard.triggered.IsZero():
		return ordered(heard, status), true
	case !heard.refused.IsZero():
		if begun := status.growsSince(heard.refused.Add(time.Second)); !begun.IsZero() {
			return workloadspread.ScaleUp{Acting: true, Since: begun}, true // it may fit on those nodes
		}
		return workloadspread.ScaleUp{Since: heard.refusing}, true
	case status == nil:
		return workloadspread.ScaleUp{}, false
	case !status.growsSince(time.Time{}).IsZero():
		return workloadspread.ScaleUp{Acting: true, Since: since}, true // it fits on those nodes, or nothing would be said
	case status.Time.Before(since.Add(Grace)):
		return workloadspread.ScaleUp{Acting: true, Since: since}, true // it has not looked yet
	}
	return workloadspread.ScaleUp{}, false
}

// ordered is what happens to a scale-up that was ordered for a pod. It goes on until the status of a
// later loop says otherwise of every node group that was asked.
func ordered(heard said, status *Status) workloadspread.ScaleUp {
	acting := workloadspread.ScaleUp{Acting: true, Since: heard.waiting}
	if status == nil || len(heard.groups) == 0 || !status.Time.After(heard.triggered) {
		return acting
	}
	ended := heard.triggered
	for _, name := range heard.groups {
		g, known := status.Groups[name]
		if !known || g.Growing {
			return acting
		}
		ended = later(ended, g.Since)
	}
	// Another node group may be tried, without a further event.
	if !status.growsSince(heard.waiting.Truncate(time.Second)).IsZero() {
		return acting
	}
	return workloadspread.ScaleUp{Since: ended.Add(Grace)}
}

// growsSince is when the first of the scale-ups that go on began that did not begin before a time; zero
// if there is none. A scale-up that is said to have begun at no time counts as begun at the first
// moment there is.
func (s *Status) growsSince(earliest time.Time) time.Time {
	var first time.Time
	if s == nil {
		return first
	}
	for _, g := range s.Groups {
		begun := later(g.Since, time.Unix(0, 0))
		if g.Growing && !begun.Before(earliest) && (first.IsZero() || begun.Before(first)) {
			first = begun
		}
	}
	return first
}
