package autoscaler

import "time"

// How long groups are kept from growing after a failure.
const (
	firstBackoff  = 5 * time.Minute
	maxBackoff    = 30 * time.Minute
	forgetBackoff = 3 * time.Hour
)

// backoffs are the groups kept from growing, by id.
type backoffs map[string]backoff

type backoff struct {
	duration      time.Duration
	until, failed time.Time
}

// add starts a backoff, or the one going on anew; after one that has ended it takes twice as long.
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
