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
// The events are those about the pod, and about others, in any order; they do not matter if the
// condition says something. The status is nil if there is none. Since is when the pod began to wait for
// a node, or when the autoscaler gave up and the time to try something else has passed, which may be
// after now. A change of either is not announced: ask again while the pod waits.
func Of(pod *v1.Pod, events []v1.Event, status *Status, now time.Time) (workloadspread.ScaleUp, bool) {
	since, waits := workloadspread.UnschedulableSince(pod)
	if !waits {
		return workloadspread.ScaleUp{}, false
	}
	if status != nil && now.Sub(status.Time) > Fresh {
		status = nil // it does not run any more
	}
	seen := digest(pod, events, now)
	if acts, at, known := Condition(pod); known {
		if acts {
			return workloadspread.ScaleUp{Acting: true, Since: at}, true
		}
		seen = podEvents{refused: at, refusing: at}
	}
	switch {
	case !seen.refused.IsZero() && seen.gaveUp():
		return refused(seen, status), true
	case !seen.triggered.IsZero():
		return ordered(seen, status), true
	case status == nil:
		return workloadspread.ScaleUp{}, false
	case status.growsSince(time.Time{}):
		return workloadspread.ScaleUp{Acting: true, Since: since}, true // it fits on those nodes, or nothing would be said
	case status.Time.Before(since.Add(Grace)):
		return workloadspread.ScaleUp{Acting: true, Since: since}, true // it has not looked yet
	}
	return workloadspread.ScaleUp{}, false
}

// ordered is what happens to a scale-up that was ordered for a pod. It goes on until the status of a
// later loop says otherwise of every node group that was asked.
func ordered(seen podEvents, status *Status) workloadspread.ScaleUp {
	growing, ended := status.growth(seen)
	// Another node group may be tried, without a further event.
	if growing || ended.IsZero() || status.growsSince(seen.waiting.Truncate(time.Second)) {
		return workloadspread.ScaleUp{Acting: true, Since: seen.waiting}
	}
	if !ended.After(seen.refused) { // all within a second, which is as exact as events are
		return workloadspread.ScaleUp{Since: seen.refused}
	}
	return workloadspread.ScaleUp{Since: ended.Add(Grace)}
}

// refused is what happens to a pod about which the last word was that no node group grows for it. Nodes
// that were ordered for it before are for any of the pods like it, so it may get one all the same. It may
// also fit on nodes that were ordered afterwards, which nobody would say.
func refused(seen podEvents, status *Status) workloadspread.ScaleUp {
	growing, ended := status.growth(seen)
	switch {
	case growing:
		return workloadspread.ScaleUp{Acting: true, Since: seen.waiting}
	case status.growsSince(seen.refused.Add(time.Second)):
		return workloadspread.ScaleUp{Acting: true, Since: seen.refusing}
	case ended.After(seen.refusing):
		return workloadspread.ScaleUp{Since: ended.Add(Grace)}
	}
	return workloadspread.ScaleUp{Since: seen.refusing}
}

// growth reports whether one of the node groups that were asked to grow for a pod does so, or when the
// last of them ended. Neither is known of a group that is not in the status, nor before the status of a
// later loop.
func (s *Status) growth(seen podEvents) (growing bool, ended time.Time) {
	if s == nil || len(seen.groups) == 0 || !s.Time.After(seen.triggered) {
		return false, time.Time{}
	}
	ended = seen.triggered
	for _, name := range seen.groups {
		g, known := s.Groups[name]
		switch {
		case known && g.Growing:
			return true, time.Time{}
		case !known:
			ended = time.Time{}
		case !ended.IsZero():
			ended = later(ended, g.Since)
		}
	}
	return false, ended
}

// growsSince reports whether a scale-up goes on that did not begin before a time.
func (s *Status) growsSince(earliest time.Time) bool {
	if s == nil {
		return false
	}
	for _, g := range s.Groups {
		if g.Growing && !g.Since.Before(earliest) {
			return true
		}
	}
	return false
}
