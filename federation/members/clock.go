package members

import (
	"net/http"
	"time"
)

const (
	// skewMatters is by how much the clock of a cluster may be off without being corrected: an answer
	// says the time in seconds, and takes a moment.
	skewMatters = 5 * time.Second
	// expiresSoon is for how long at most it is reported before that credentials expire.
	expiresSoon = 14 * 24 * time.Hour
)

// skewOf is by how much the clock of a cluster is ahead, as its answer to a probe says; 0 if that is
// little.
func skewOf(answer http.Header, now time.Time) time.Duration {
	date, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		return 0
	}
	if skew := date.Sub(now.Truncate(time.Second)); skew.Abs() >= skewMatters {
		return skew
	}
	return 0
}

// skewed takes in by how much the clock of the cluster is ahead. What its objects say about times is
// corrected by that. A difference of a moment changes nothing, or times would change with each probe.
func (c *Cluster) skewed(by time.Duration) {
	c.mu.Lock()
	if (by-c.skew).Abs() >= skewMatters || by == 0 {
		c.skew = by
	}
	by = c.skew
	c.mu.Unlock()
	c.options.Metrics.skew.WithLabelValues(c.name).Set(by.Seconds())
}

// HostTime is a time that an object in the cluster says, by the clock of the controllers.
func (c *Cluster) HostTime(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.IsZero() {
		return t
	}
	return t.Add(-c.skew)
}

// warnAt is when it is reported that credentials expire soon: in the last fifth of their lifetime,
// but no more than expiresSoon before; zero if they do not expire.
func warnAt(issued, expires time.Time) time.Time {
	if expires.IsZero() {
		return time.Time{}
	}
	before := expiresSoon
	if !issued.IsZero() {
		before = min(before, expires.Sub(issued)/5)
	}
	return expires.Add(-before)
}
