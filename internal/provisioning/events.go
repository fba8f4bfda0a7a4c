package provisioning

import (
	"regexp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Sources are the autoscalers whose events are understood, as in the source of events.
var Sources = []string{"cluster-autoscaler", "karpenter"}

// The reasons of events about pods. That of Karpenter's refusals is the scheduler's reason too, so that
// its source matters.
const (
	triggered       = "TriggeredScaleUp"
	notTriggered    = "NotTriggerScaleUp"
	nominated       = "Nominated"
	notSchedulable  = "FailedScheduling"
	karpenter       = "karpenter"
	triggeredPrefix = "pod triggered scale-up: "
)

// podEvents is what the events about a pod say.
type podEvents struct {
	// triggered is when a scale-up was ordered last, and waiting when the first was since the last
	// refusal, or ever if none was since. Both are zero if there is none.
	triggered, waiting time.Time
	// groups are those that were asked to grow since waiting; nil if not all are known.
	groups []string
	// refused is when the last refusal was, and refusing when it began, or began again.
	refused, refusing time.Time
}

// digest summarizes the events about a pod. A time that is after now, by another clock, becomes now.
func digest(pod *v1.Pod, events []v1.Event, now time.Time) podEvents {
	var s podEvents
	each := func(want bool, do func(e *v1.Event, first, last time.Time)) {
		for i := range events {
			e := &events[i]
			acts, known := meaning(e)
			if !known || acts != want || e.InvolvedObject.UID != pod.UID {
				continue
			}
			first, last := span(e)
			do(e, earlier(first, now), earlier(last, now))
		}
	}
	each(true, func(_ *v1.Event, _, last time.Time) { s.triggered = later(s.triggered, last) })
	each(false, func(_ *v1.Event, _, last time.Time) { s.refused = later(s.refused, last) })
	s.refusing = s.refused
	each(false, func(_ *v1.Event, first, last time.Time) {
		for _, t := range []time.Time{first, last} {
			if t.After(s.triggered) {
				s.refusing = earlier(s.refusing, t)
			}
		}
	})
	s.waiting = s.triggered
	complete := true
	each(true, func(e *v1.Event, first, last time.Time) {
		if !s.gaveUp() && last.Before(s.refused) {
			return
		}
		if !s.gaveUp() && first.Before(s.refused) {
			first = last
		}
		s.waiting = earlier(s.waiting, first)
		groups, all := groupsOf(e.Message)
		s.groups = append(s.groups, groups...)
		complete = complete && all
	})
	if !complete {
		s.groups = nil
	}
	return s
}

// gaveUp reports whether the last word was a refusal.
func (s *podEvents) gaveUp() bool { return s.triggered.Before(s.refused) }

// meaning reports whether an event says that a node was ordered for a pod, or that none is. It is not
// known of other events.
func meaning(e *v1.Event) (acts, known bool) {
	if e.InvolvedObject.Kind != "" && e.InvolvedObject.Kind != "Pod" {
		return false, false
	}
	fromKarpenter := e.Source.Component == karpenter || e.ReportingController == karpenter
	switch {
	case e.Reason == triggered || e.Reason == nominated && fromKarpenter:
		return true, true
	case e.Reason == notTriggered || e.Reason == notSchedulable && fromKarpenter:
		return false, true
	}
	return false, false
}

// span is when an event happened first and last. The two ways of writing events have other fields.
func span(e *v1.Event) (first, last time.Time) {
	first, last = e.FirstTimestamp.Time, e.LastTimestamp.Time
	if first.IsZero() {
		first = e.EventTime.Time
	}
	if first.IsZero() {
		first = e.CreationTimestamp.Time
	}
	if e.Series != nil {
		last = later(last, e.Series.LastObservedTime.Time)
	}
	return first, later(first, last)
}

// group is how Cluster Autoscaler writes a node group that grows: "{name 3->4 (max: 10)}".
var group = regexp.MustCompile(`^\{(.+?) -?\d+->-?\d+ \(max: -?\d+\)\}$`)

// groupsOf are the node groups in the message about a scale-up. It is false if they may not be all: the
// message is cut, or not of Cluster Autoscaler.
func groupsOf(message string) ([]string, bool) {
	_, list, found := strings.Cut(message, triggeredPrefix)
	if !found || !strings.HasPrefix(list, "[{") || !strings.HasSuffix(list, "}]") {
		return nil, false
	}
	var names []string
	for one := range strings.SplitSeq(list[2:len(list)-2], "} {") {
		m := group.FindStringSubmatch("{" + one + "}")
		if m == nil {
			return nil, false
		}
		names = append(names, m[1])
	}
	return names, true
}

// later is the later of two times. The zero time is before all others.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
