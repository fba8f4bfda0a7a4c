package podhealth

import "time"

// Counts are the pods of a target in numbers, for a timeout and at a time.
type Counts struct {
	Timeout  time.Duration // how long a pod may take to start; 0 means any time
	Existing int32         // how many pods there are, without those that have ended or are being deleted
	// Running is how many of them run, and Ready how many are ready.
	Running, Ready int32
	Late           int32     // how many of them have been starting for longer than the timeout
	NextLate       time.Time // when the next of them will have been; zero if none is starting
	Progress       time.Time // when the last of the running pods started to run; zero if none runs
	Steady         time.Time // when the next crash loop counts as over if nothing crashes before; zero for never
}

// Count counts pods.
func Count(pods []Pod, timeout time.Duration, now time.Time) Counts {
	c := Counts{Timeout: timeout}
	for _, p := range pods {
		c.add(p, now)
	}
	return c
}

func (c *Counts) add(p Pod, now time.Time) {
	if !p.Terminating && p.CrashLooping && p.SteadyAt.After(now) {
		c.Steady = earlier(c.Steady, p.SteadyAt)
	}
	switch p.state(now, c.Timeout) {
	case running:
		c.Running++
		if began := p.began(c.Timeout); began.After(c.Progress) && !began.After(now) {
			c.Progress = began
		}
	case notStarted:
		c.Late++
	case starting:
		c.NextLate = earlier(c.NextLate, p.startingSince(now).Add(c.Timeout))
	default:
		return
	}
	c.Existing++
	if p.Ready {
		c.Ready++
	}
}

// began is when a running pod started to run, which shows progress: in a rolling update pods come
// and go, and their number does not. A pod that is ready now and then shows progress only for as
// long as it may take to start.
func (p Pod) began(timeout time.Duration) time.Time {
	became := p.Created
	if p.ReadySince.After(became) {
		became = p.ReadySince
	}
	if end := p.Created.Add(timeout); became.After(end) {
		became = end
	}
	return became
}

// earlier is the earlier of two times; a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
