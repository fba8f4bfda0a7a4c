package autoscaler

import "time"

// The durations of the backoff after a failure.
const (
	firstBackoff  = 5 * time.Minute
	maxBackoff    = 30 * time.Minute
	forgetBackoff = 3 * time.Hour
)

// backoffs are the backed-off groups, by id.
type backoffs map[string]backoff

type backoff struct {
	duration      time.Duration
	until, failed time.Time
}

// add starts a backoff, or restarts a current one; after one that has ended it takes twice as long.
func (b backoffs) add(id string, now time.Time) (until time.Time) {
	duration := firstBackoff
	if old, ok := b[id]; ok {
		duration = old.duration
		if old.until.Before(now) {
			duration = min(2*duration, maxBackoff)
		}
	}
	b[id] = backoff{duration: duration, until: now.Add(duration), failed: now}
	return b[id].until
}

func (b backoffs) active(id string, now time.Time) bool {
	info, ok := b[id]
	return ok && !info.until.Before(now)
}

func (b backoffs) forget(now time.Time) {
	for id, info := range b {
		if info.failed.Add(forgetBackoff).Before(now) {
			delete(b, id)
		}
	}
}
