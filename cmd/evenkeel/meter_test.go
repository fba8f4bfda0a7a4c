package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/predicates"
)

func TestMeterMovesWithinARound(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	at := func(d time.Duration) { clock.SetTime(time.Unix(0, 0).Add(d)) }
	step := func(done int) simulate.Progress {
		return simulate.Progress{
			At: 90 * time.Second, Rounds: 3, Pending: 420,
			Step: predicates.Step{Doing: "matching pods with node groups", Done: done, Total: 50000, Of: "pods"},
		}
	}
	t.Run("on a terminal", func(t *testing.T) {
		var out bytes.Buffer
		at(0)
		m := &meter{out: &out, width: 120, clock: clock}
		m.begin()
		m.reading(simulate.Progress{Step: predicates.Step{Doing: "reading pods.json", Done: 0, Total: 210, Of: "MiB"}})
		at(2 * time.Second)
		m.reading(simulate.Progress{Step: predicates.Step{Doing: "reading pods.json", Done: 70, Total: 210, Of: "MiB"}})
		at(2050 * time.Millisecond)
		m.reading(simulate.Progress{Step: predicates.Step{Doing: "reading pods.json", Done: 71, Total: 210, Of: "MiB"}}) // too soon
		play := m.playing("web")
		at(3 * time.Second)
		play(simulate.Progress{At: 90 * time.Second, Rounds: 3, Pending: 1})
		play(step(0))
		at(5 * time.Second)
		play(step(10000))
		at(6 * time.Second)
		play(simulate.Progress{At: 90 * time.Second, Rounds: 3, Pending: 420,
			Step: predicates.Step{Doing: "reading pods", Done: 12, Of: "objects"}})
		m.end()
		at(9 * time.Second)
		play(step(20000)) // later progress is not shown
		want := []string{
			"",
			"reading pods.json, 70 of 210 MiB, 4s left",
			"web: +1m30s, round 3, 1 pod pending",
			"web: +1m30s, round 3, 420 pods pending: matching pods with node groups, 10000 of 50000 pods, 8s left",
			"web: +1m30s, round 3, 420 pods pending: reading pods, 12 objects",
			"",
		}
		if got := strings.Split(out.String(), eraseLine); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
	t.Run("on a narrow terminal", func(t *testing.T) {
		var out bytes.Buffer
		at(0)
		m := &meter{out: &out, width: 20, clock: clock}
		m.begin()
		at(time.Second)
		m.playing("web")(step(1))
		if want := eraseLine + "web: +1m30s, round "; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
	t.Run("elsewhere", func(t *testing.T) {
		var out bytes.Buffer
		at(0)
		m := newMeter(&out, clock)
		for i := range 2500 {
			at(time.Duration(i) * 10 * time.Millisecond)
			m.playing("web")(step(10 * i))
		}
		m.end()
		const want = "web: +1m30s, round 3, 420 pods pending: matching pods with node groups, 10000 of 50000 pods, 40s left\n" +
			"web: +1m30s, round 3, 420 pods pending: matching pods with node groups, 20000 of 50000 pods, 30s left\n"
		if out.String() != want {
			t.Errorf("got:\n%swant:\n%s", out.String(), want)
		}
	})
	t.Run("not where it is quick", func(t *testing.T) {
		var out bytes.Buffer
		at(0)
		m := newMeter(&out, clock)
		at(9 * time.Second)
		m.playing("web")(step(1))
		m.end()
		if out.Len() > 0 {
			t.Errorf("got %q", out.String())
		}
	})
}

// Reading may go on in a goroutine that nobody waits for any more.
func TestMeterIsSafeForConcurrentUse(t *testing.T) {
	var out bytes.Buffer
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	m := &meter{out: &out, width: 80, clock: clock}
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for i := range 100 {
				m.reading(simulate.Progress{Step: predicates.Step{Doing: "reading pods.json", Done: i, Total: 100, Of: "MiB"}})
			}
		})
	}
	m.end()
	shown := out.Len()
	work.Wait()
	if out.Len() != shown {
		t.Error("something was shown after the end")
	}
}
