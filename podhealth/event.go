package podhealth

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is an event to record about an object.
type Event struct {
	// Type is v1.EventTypeNormal or v1.EventTypeWarning.
	Type string
	// Reason is one word, Message a sentence.
	Reason, Message string
	// About is the target, cluster or pod that the event is about; empty for the object itself.
	About string
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
