package simulate

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// epoch is the beginning of virtual time. Nothing depends on the date; it must only be the same in
// every run.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// virtualClock is the clock of a simulation. A goroutine that waits on it is woken at once, and the
// clock records until when it would have slept: the driver then advances to the latest of these
// times. So concurrent slow calls take as long as the slowest of them, and no goroutine ever
// sleeps.
type virtualClock struct {
	mu   sync.Mutex
	now  time.Time
	busy time.Time // the latest time until which a goroutine would have slept
}

var _ clock.Clock = (*virtualClock)(nil)

func newClock() *virtualClock { return &virtualClock{now: epoch, busy: epoch} }

// advance moves time forward; time never goes back.
func (c *virtualClock) advance(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = later(c.now, to)
}

// catchUp advances time to when the last sleeper would have woken.
func (c *virtualClock) catchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = later(c.now, c.busy)
}

func (c *virtualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *virtualClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// wake returns when a sleeper of duration d would wake.
func (c *virtualClock) wake(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.now.Add(d)
	c.busy = later(c.busy, at)
	return at
}

func (c *virtualClock) Sleep(d time.Duration) { c.wake(d) }

func (c *virtualClock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// Tick ticks once: a second tick would come at once as well, forever.
func (c *virtualClock) Tick(d time.Duration) <-chan time.Time { return c.After(d) }

func (c *virtualClock) NewTimer(d time.Duration) clock.Timer {
	t := &virtualTimer{clock: c, fired: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

type virtualTimer struct {
	clock *virtualClock
	fired chan time.Time
}

func (t *virtualTimer) C() <-chan time.Time { return t.fired }

// Stop reports whether the timer was still active.
func (t *virtualTimer) Stop() bool {
	select {
	case <-t.fired:
		return true
	default:
		return false
	}
}

func (t *virtualTimer) Reset(d time.Duration) bool {
	waiting := t.Stop()
	t.fired <- t.clock.wake(d)
	return waiting
}
