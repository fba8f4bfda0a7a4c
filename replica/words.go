package replica

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Reason is a reason of package apportion as a status has it: capitalized.
func Reason(r apportion.Reason) string { return strings.ToUpper(string(r[:1])) + string(r[1:]) }

var whys = map[string]string{
	Reason(apportion.ReasonCapacity): "it runs all that it is able to",
	Reason(apportion.ReasonMax):      "it has its maximum",
	Reason(apportion.ReasonMin):      "it has its minimum",
	Reason(apportion.ReasonSticky):   "replicas stay where they are",
	Reason(apportion.ReasonOrder):    "its place in the order",
}

// Why is a reason of a status in words; a share by weight has words of its own.
func Why(reason, share string) string {
	if reason == Reason(apportion.ReasonWeight) {
		return share
	}
	return whys[reason]
}

// Contested says what else than an object of a kind writes the size of a target, and what to do about it.
func Contested(what, remedy string, w *v1alpha1.ReplicaOverwrites, kind string) string {
	return fmt.Sprintf("something else also writes its %s, %d times so far: remove its HorizontalPodAutoscaler, or %s; "+
		"what it has beyond its share does not count, and it is written again at %s, or when the %s is changed",
		what, w.Count, remedy, w.LeftAloneUntil.UTC().Format(time.RFC3339), kind)
}

// Elsewhere names targets whose replicas have not started, as a part of why another one grows.
func Elsewhere(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", and replicas of " + spelling.List(names, 3) + " have not started"
}

// The reasons of events about a capacity that is learnt or forgotten.
const (
	ReasonFallbackStarted = "FallbackStarted"
	ReasonFallbackEnded   = "FallbackEnded"
)

// Fallback adds the event when the capacity of a target of some size is learnt or forgotten.
func (h Health) Fallback(events *podhealth.Events, noun, name string, before *int32, size int32) {
	add := func(kind, reason, format string, args ...any) {
		events.Add(kind, reason, name, noun+" "+name+" "+format, args...)
	}
	switch was := before != nil; {
	case h.Capacity != nil && !was:
		add(v1.EventTypeWarning, ReasonFallbackStarted, "runs %d of %s, some have not started in time", h.Running,
			spelling.Count(size, "replica"))
	case h.Capacity == nil && was && h.Running > 0:
		add(v1.EventTypeNormal, ReasonFallbackEnded, "runs %s again", spelling.Count(h.Running, "replica"))
	case h.Capacity == nil && was:
		add(v1.EventTypeNormal, ReasonFallbackEnded, "has no replicas to run any more")
	}
}
