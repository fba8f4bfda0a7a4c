// Package backoff decides how long a node group that has failed to grow is left alone: 5 minutes,
// doubling up to 30, forgotten after 3 hours without a failure, as in Cluster Autoscaler.
//
// It stores what callers report and reads no clock. It knows nothing of clouds, or of what a
// failure is.
package backoff

import (
	"cmp"
	"maps"
	"time"
)

// Defaults of Cluster Autoscaler's flags --initial-node-group-backoff-duration,
// --max-node-group-backoff-duration and --node-group-backoff-reset-timeout.
const (
	DefaultInitial = 5 * time.Minute
	DefaultMax     = 30 * time.Minute
	DefaultReset   = 3 * time.Hour
)

// Options are the durations of a Backoff. Zero values are the defaults.
type Options struct {
	Initial time.Duration // after the first failure
	Max     time.Duration // after many failures
	Reset   time.Duration // without a failure until the failures are forgotten
	// Inclusive leaves a group alone at the very instant at which its backoff ends too, as Cluster
	// Autoscaler does.
	Inclusive bool
}

// Backoff remembers which groups have failed to grow. It is not safe for concurrent use.
type Backoff struct {
	Options
	groups map[string]Failure
}

// New returns a Backoff that remembers no failure.
func New(o Options) *Backoff {
	o.Initial, o.Max, o.Reset = cmp.Or(o.Initial, DefaultInitial), cmp.Or(o.Max, DefaultMax), cmp.Or(o.Reset, DefaultReset)
	return &Backoff{o, map[string]Failure{}}
}

// Clone returns a Backoff that remembers the same.
func (b *Backoff) Clone() *Backoff { return &Backoff{b.Options, maps.Clone(b.groups)} }

// Failed records a failure at now. A group that fails again after its backoff has ended is left
// alone twice as long. A group that fails while it is backed off is left alone for the same
// duration again, since the cause may be the same.
func (b *Backoff) Failed(group, reason string, now time.Time) {
	f := Failure{Duration: b.Initial, First: now}
	if last, known := b.groups[group]; known && now.Sub(last.Failed) <= b.Reset {
		f.Duration = last.Duration
		if !last.First.IsZero() { // as in what older releases have stored
			f.First = last.First
		}
		if !b.holds(last, now) {
			f.Duration = min(2*last.Duration, b.Max)
		}
	}
	f.Until, f.Failed, f.Reason = now.Add(f.Duration), now, reason
	b.groups[group] = f
}

// Ended ends the backoff of a group at now, since it has delivered after all. The failure is remembered.
func (b *Backoff) Ended(group string, now time.Time) {
	if f, known := b.groups[group]; known && now.Before(f.Until) {
		f.Until = now
		b.groups[group] = f
	}
}

// Forget drops the groups that have not failed again for longer than Options.Reset, also those that are
// still left alone.
func (b *Backoff) Forget(now time.Time) {
	maps.DeleteFunc(b.groups, func(_ string, f Failure) bool { return now.Sub(f.Failed) > b.Reset })
}

// Active returns until when the group is backed off and why; ok is false if the group may grow.
func (b *Backoff) Active(group string, now time.Time) (until time.Time, reason string, ok bool) {
	f, known := b.groups[group]
	if !known || !b.holds(f, now) {
		return time.Time{}, "", false
	}
	return f.Until, f.Reason, true
}

func (b *Backoff) holds(f Failure, now time.Time) bool {
	return now.Before(f.Until) || b.Inclusive && now.Equal(f.Until)
}

// Failure is what is remembered of a group that has failed.
type Failure struct {
	Duration time.Duration `json:"duration"` // for which the group is left alone, in nanoseconds
	Until    time.Time     `json:"until"`
	First    time.Time     `json:"first,omitzero"` // of the failures that the duration has grown with
	Failed   time.Time     `json:"failed"`         // the last time
	Reason   string        `json:"reason"`
}

// Failure returns what is remembered of a group; the zero value if nothing is.
func (b *Backoff) Failure(group string) Failure { return b.groups[group] }

// Failures returns all that is remembered, by group, for the caller to store.
func (b *Backoff) Failures() map[string]Failure { return maps.Clone(b.groups) }

// Restore remembers a failure that was stored.
func (b *Backoff) Restore(group string, f Failure) { b.groups[group] = f }
