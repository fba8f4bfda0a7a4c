package simulate

import (
	"sync"
	"testing"
	"time"
)

// TestClockWakesEverybodyAtOnce: nobody waits, and afterwards the clock has
// moved to where the last sleeper would have woken.
func TestClockWakesEverybodyAtOnce(t *testing.T) {
	c := newClock()
	var sleepers sync.WaitGroup
	for _, d := range []time.Duration{3 * time.Second, 7 * time.Second, time.Second} {
		sleepers.Go(func() { <-c.NewTimer(d).C() })
		sleepers.Go(func() { <-c.After(d) })
		sleepers.Go(func() { c.Sleep(d) })
	}
	sleepers.Wait()
	if c.Since(epoch) != 0 {
		t.Errorf("time moved to +%s while somebody slept", c.Since(epoch))
	}
	c.catchUp()
	if got := c.Since(epoch); got != 7*time.Second {
		t.Errorf("time is +%s, want that of the longest sleep", got)
	}
	c.advance(epoch)
	if got := c.Since(epoch); got != 7*time.Second {
		t.Errorf("time went back to +%s", got)
	}
}

// TestTimer: a timer fires once, and once more after a reset.
func TestTimer(t *testing.T) {
	c := newClock()
	timer := c.NewTimer(time.Second)
	if !timer.Stop() || timer.Stop() {
		t.Error("a timer can be stopped once")
	}
	timer.Reset(time.Minute)
	if at := <-timer.C(); !at.Equal(epoch.Add(time.Minute)) {
		t.Errorf("fired for %s", at)
	}
	<-c.Tick(time.Hour)
}
