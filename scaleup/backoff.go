package scaleup

import (
	"cmp"
	"time"
)

// BackoffOptions say how long a group that refused is left alone. Zero values
// are Cluster Autoscaler's defaults: 5 minutes, doubling up to 30, forgotten
// after 3 hours without a failure.
type BackoffOptions struct {
	Initial, Max, Reset time.Duration
}

// Backoff remembers which groups refused to grow. It is not safe for
// concurrent use.
type Backoff struct {
	initial, max, reset time.Duration
	groups              map[string]refusal
}

type refusal struct {
	duration time.Duration
	until    time.Time
	failed   time.Time
	reason   string
}

// NewBackoff returns a memory without refusals.
func NewBackoff(o BackoffOptions) *Backoff {
	return &Backoff{
		initial: cmp.Or(o.Initial, DefaultInitialBackoff),
		max:     cmp.Or(o.Max, DefaultMaxBackoff),
		reset:   cmp.Or(o.Reset, DefaultBackoffReset),
		groups:  map[string]refusal{},
	}
}

// Failed records a refusal at now. A group that fails again after its backoff
// ended is left alone twice as long; one that fails while it is backed off is
// not punished twice for the same trouble.
func (b *Backoff) Failed(group, reason string, now time.Time) {
	r := refusal{duration: b.initial}
	if last, known := b.groups[group]; known && now.Sub(last.failed) <= b.reset {
		r.duration = last.duration
		if now.After(last.until) || now.Equal(last.until) {
			r.duration = min(2*last.duration, b.max)
		}
	}
	r.until, r.failed, r.reason = now.Add(r.duration), now, reason
	b.groups[group] = r
}

// Active returns until when the group is backed off and why; ok is false when
// it may grow.
func (b *Backoff) Active(group string, now time.Time) (until time.Time, reason string, ok bool) {
	r, known := b.groups[group]
	if !known || !now.Before(r.until) {
		return time.Time{}, "", false
	}
	return r.until, r.reason, true
}
