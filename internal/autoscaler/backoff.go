package autoscaler

import (
	"cmp"
	"time"

	"github.com/evenkeel/evenkeel/backoff"
)

// backoffs are the groups that have failed to grow. Unlike package backoff, which the sidecar keeps
// its own with, they count a group as left alone at the very instant at which its backoff ends, as
// Cluster Autoscaler does.
type backoffs struct {
	options backoff.Options
	groups  map[string]backoff.Failure
}

// add starts a backoff, or restarts a current one; after one that has ended it takes twice as long.
func (b *backoffs) add(id string, now time.Time, why string) (until time.Time) {
	duration := cmp.Or(b.options.Initial, backoff.DefaultInitial)
	if old, ok := b.groups[id]; ok {
		duration = old.Duration
		if old.Until.Before(now) {
			duration = min(2*duration, cmp.Or(b.options.Max, backoff.DefaultMax))
		}
	}
	b.groups[id] = backoff.Failure{Duration: duration, Until: now.Add(duration), Failed: now, Reason: why}
	return b.groups[id].Until
}

func (b *backoffs) active(id string, now time.Time) bool {
	info, ok := b.groups[id]
	return ok && !info.Until.Before(now)
}

func (b *backoffs) forget(now time.Time) {
	for id, info := range b.groups {
		if info.Failed.Add(cmp.Or(b.options.Reset, backoff.DefaultReset)).Before(now) {
			delete(b.groups, id)
		}
	}
}
