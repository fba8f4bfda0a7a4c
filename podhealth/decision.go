package podhealth

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is a condition without its times.
func Condition(kind string, holds bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Because is why a condition holds, or does not.
type Because struct{ Reason, Message string }

// Either is a condition without its times that holds for one reason, or does not for another one.
func Either(kind string, holds bool, yes, no Because) metav1.Condition {
	if !holds {
		yes = no
	}
	return Condition(kind, holds, yes.Reason, yes.Message)
}

// Conditions are the conditions to store: those of before, with the ones found in their places. The
// time of a condition changes only when its status does; one in the future becomes now.
func Conditions(before, found []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	conditions := append(make([]metav1.Condition, 0, len(before)+len(found)), before...)
	for i := range conditions {
		conditions[i].LastTransitionTime = *NotAfter(&conditions[i].LastTransitionTime, now)
	}
	for _, c := range found {
		c.ObservedGeneration, c.LastTransitionTime = generation, *Stamp(now)
		meta.SetStatusCondition(&conditions, c)
	}
	return conditions
}

// Event is an event to record about an object.
type Event struct {
	Type string // v1.EventTypeNormal or v1.EventTypeWarning
	// Reason is one word, Message a sentence.
	Reason, Message string
	About           string // the target, cluster or pod that the event is about; empty for the object itself
}

// Events are the events of a decision.
type Events []Event

// Add adds an event.
func (e *Events) Add(kind, reason, about, format string, args ...any) {
	*e = append(*e, Event{Type: kind, Reason: reason, About: about, Message: fmt.Sprintf(format, args...)})
}

// Warn adds a warning about a condition, unless the condition was the same before.
func (e *Events) Warn(before []metav1.Condition, c metav1.Condition) {
	if was := meta.FindStatusCondition(before, c.Type); was == nil || was.Reason != c.Reason || was.Message != c.Message {
		e.Add(v1.EventTypeWarning, c.Reason, "", "%s", c.Message)
	}
}

// Timer holds the time of a decision, and collects the earliest time after it at which time alone
// may change the decision.
type Timer struct {
	Now  time.Time
	Next time.Time // zero if there is no such time
}

// At adds a time; one that is not after Now has no effect.
func (t *Timer) At(when time.Time) {
	if when.After(t.Now) && (t.Next.IsZero() || when.Before(t.Next)) {
		t.Next = when
	}
}

// After adds the first time at which the deadline has passed.
func (t *Timer) After(deadline time.Time) { t.At(deadline.Add(time.Nanosecond)) }

// Stamp rounds a time down to whole seconds, which is what a status stores.
func Stamp(now time.Time) *metav1.Time {
	return new(metav1.NewTime(now.Truncate(time.Second)))
}

// NotAfter returns the time, or the latest time it may be if it is later. A stored time lies in the
// future when a clock was set back; a period that begins there would last too long.
func NotAfter(t *metav1.Time, latest time.Time) *metav1.Time {
	if t == nil || !t.After(latest) {
		return t
	}
	return Stamp(latest)
}
