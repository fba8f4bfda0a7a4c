package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/simulate"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/predicates"
)

// A meter shows the progress of a run on standard error: on a terminal in one line that is updated
// and finally erased, otherwise in occasional lines if the run takes long. It may be called from
// several goroutines.
type meter struct {
	out   io.Writer
	width int // of the terminal; 0: not a terminal
	clock clock.PassiveClock

	mu    sync.Mutex
	next  time.Time // when the next line is due
	doing string    // the step in progress
	done  int
	since time.Time // when it began
	lines int
	ended bool
}

// The times at which lines are shown.
const (
	terminalDelay, terminalPeriod = 300 * time.Millisecond, 100 * time.Millisecond
	logPeriod                     = 10 * time.Second
	leastForGuess                 = time.Second // of a step before its remaining time is estimated
	eraseLine                     = "\r\x1b[K"
)

// newMeter returns the meter of a run that begins now.
func newMeter(out io.Writer, c clock.PassiveClock) *meter {
	m := &meter{out: out, width: printing.Width(out), clock: c}
	m.begin()
	return m
}

func (m *meter) begin() {
	m.next = m.clock.Now().Add(logPeriod)
	if m.width > 0 {
		m.next = m.clock.Now().Add(terminalDelay)
	}
}

// reading shows the progress of reading files.
func (m *meter) reading(p simulate.Progress) { m.show("", p.Step) }

// playing shows the progress of a scenario.
func (m *meter) playing(name string) func(simulate.Progress) {
	return func(p simulate.Progress) {
		m.show(fmt.Sprintf("%s: +%s, round %d, %s pending", name, p.At, p.Rounds, spelling.Count(int64(p.Pending), "pod")), p.Step)
	}
}

// show writes a line if one is due.
func (m *meter) show(where string, step predicates.Step) {
	now := m.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if step.Doing != m.doing || step.Done < m.done {
		m.since = now
	}
	m.doing, m.done = step.Doing, step.Done
	if m.ended || now.Before(m.next) {
		return
	}
	line := where
	if step.Doing != "" {
		if line != "" {
			line += ": "
		}
		line += step.Doing + amount(step, now.Sub(m.since))
	}
	m.lines++
	if m.width == 0 {
		m.next = now.Add(logPeriod)
		fmt.Fprintln(m.out, line)
		return
	}
	m.next = now.Add(terminalPeriod)
	if text := []rune(line); len(text) >= m.width {
		line = string(text[:m.width-1]) // a longer one would continue on the next line, which cannot be erased
	}
	fmt.Fprint(m.out, eraseLine, line)
}

// amount formats how much of a step is done, and how long the rest takes at the same rate.
func amount(s predicates.Step, spent time.Duration) string {
	switch {
	case s.Total == 0 && s.Done == 0:
		return ""
	case s.Total == 0:
		return fmt.Sprintf(", %d %s", s.Done, s.Of)
	}
	text := fmt.Sprintf(", %d of %d %s", s.Done, s.Total, s.Of)
	if s.Done > 0 && spent >= leastForGuess {
		left := time.Duration(float64(spent) / float64(s.Done) * float64(s.Total-s.Done))
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return text
}

// end erases the line on a terminal. Nothing is shown afterwards.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended && m.width > 0 && m.lines > 0 {
		fmt.Fprint(m.out, eraseLine)
	}
	m.ended = true
}
