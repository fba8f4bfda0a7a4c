package podhealth

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// instant is the shortest time after a deadline at which the deadline has passed.
const instant = time.Nanosecond

// Timer holds the time of a decision, and collects the earliest time after it at which time alone
// may change the decision.
type Timer struct {
	Now time.Time
	// Next is zero if there is no such time.
	Next time.Time
}

// At adds a time; one that is not after Now has no effect.
func (t *Timer) At(when time.Time) {
	if when.After(t.Now) && (t.Next.IsZero() || when.Before(t.Next)) {
		t.Next = when
	}
}

// After adds the first time at which the deadline has passed.
func (t *Timer) After(deadline time.Time) { t.At(deadline.Add(instant)) }

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
