package scaleup

import (
	"cmp"
	"maps"
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
	groups              map[string]Refusal
}

// NewBackoff returns a memory without refusals.
func NewBackoff(o BackoffOptions) *Backoff {
	return &Backoff{
		initial: cmp.Or(o.Initial, DefaultInitialBackoff),
		max:     cmp.Or(o.Max, DefaultMaxBackoff),
		reset:   cmp.Or(o.Reset, DefaultBackoffReset),
		groups:  map[string]Refusal{},
	}
}

// Failed records a refusal at now. A group that fails again after its backoff
// ended is left alone twice as long; one that fails while it is backed off is
// not punished twice for the same trouble.
func (b *Backoff) Failed(group, reason string, now time.Time) {
	r := Refusal{Duration: b.initial}
	if last, known := b.groups[group]; known && now.Sub(last.Failed) <= b.reset {
		r.Duration = last.Duration
		if now.After(last.Until) || now.Equal(last.Until) {
			r.Duration = min(2*last.Duration, b.max)
		}
	}
	r.Until, r.Failed, r.Reason = now.Add(r.Duration), now, reason
	b.groups[group] = r
}

// Active returns until when the group is backed off and why; ok is false when
// it may grow.
func (b *Backoff) Active(group string, now time.Time) (until time.Time, reason string, ok bool) {
	r, known := b.groups[group]
	if !known || !now.Before(r.Until) {
		return time.Time{}, "", false
	}
	return r.Until, r.Reason, true
}

// Refusal is what is remembered of a group that refused.
type Refusal struct {
	Duration time.Duration `json:"duration"` // for which it is left alone
	Until    time.Time     `json:"until"`
	Failed   time.Time     `json:"failed"` // when it refused last
	Reason   string        `json:"reason"`
}

// Refusals returns all that is remembered, by group, for somebody to keep it.
func (b *Backoff) Refusals() map[string]Refusal { return maps.Clone(b.groups) }

// Restore remembers a refusal that was kept.
func (b *Backoff) Restore(group string, r Refusal) { b.groups[group] = r }
