package sidecar

import (
	"sync"

	"github.com/evenkeel/evenkeel/steering"
)

// machine is the state that decides, and carries out what its events lead to.
type machine struct {
	o       *Options
	mu      sync.Mutex
	state   *steering.State
	history history
}

// step applies an event to the state, and carries out what that has led to.
func (s *machine) step(e steering.Event) steering.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(e)
}

// apply is step for a caller that holds mu.
func (s *machine) apply(e steering.Event) steering.Answer {
	now := s.o.Clock.Now()
	if s.o.Record == nil {
		answer, effects := s.state.Step(now, e)
		s.carryOut(effects)
		return answer
	}
	line := steering.Record(now, e)
	answer, effects := s.state.Step(now, e)
	line.Answer = answer
	s.o.Record(line)
	s.carryOut(effects)
	return answer
}

// carryOut does what events have led to beside their answers. None of it waits for anybody.
func (s *machine) carryOut(effects steering.Effects) {
	for i := range effects.Decisions {
		s.decided(&effects.Decisions[i])
	}
	for _, l := range effects.Logs {
		if l.Err != nil {
			s.o.Log.Error(l.Err, l.Message, l.Values...)
		} else {
			s.o.Log.V(l.Verbosity).Info(l.Message, l.Values...)
		}
	}
	s.history.warnings = append(s.history.warnings, effects.Warnings...)
	for _, e := range effects.Events {
		s.o.Recorder.Event(!e.Normal, e.Reason, e.Message)
	}
	if s.o.Notices != nil && len(effects.Notices) > 0 {
		s.o.Notices.Set(effects.Notices)
	}
	for counter, n := range effects.Counts {
		s.o.Metrics.count(counter, n)
	}
}

// ask returns something of the state.
func ask[T any](s *machine, question func(*steering.State) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return question(s.state)
}

// readConfiguration looks whether the declared sets or the expander chain have changed.
func (s *machine) readConfiguration() {
	if s.o.Policies != nil {
		if policies, changed, err := s.o.Policies.Changed(); changed || err != nil {
			s.step(steering.Declare{Policies: policies, Err: err})
		}
	}
	if s.o.Chains != nil {
		if chain, changed, err := s.o.Chains.Changed(); changed || err != nil {
			s.step(steering.ChooseBy{Chain: chain, Err: err})
		}
	}
}
