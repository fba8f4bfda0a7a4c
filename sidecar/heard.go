package sidecar

import (
	"context"
	"time"
)

// answer is one without which Cluster Autoscaler does not count the nodes of a group that are on their way: to an increase, to
// the question for the group's options that follows it and tells how long they may take, and to that for its template.
type answer struct {
	group      string
	at         time.Time
	connection string
	increase   bool
}

// silence is how long after such an answer Cluster Autoscaler calls again at the latest when it has heard it. Where it has not, it
// waits for its deadline first.
const silence = 3 * time.Second

// A question is what a call of Cluster Autoscaler's loop asks for.
type question int

const (
	anything question = iota
	newLoop           // after an increase it follows at once; else it takes its time
	aTemplate
	groupOptions
)

// hear is told of every call of Cluster Autoscaler's loop, and of the group it is about.
func (s *Sidecar) hear(ctx context.Context, q question, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, connection := s.o.Clock.Now(), s.o.Connection(ctx)
	a := s.unheard
	s.unheard = nil
	if a != nil && (a.increase || q != newLoop) && (now.Sub(a.at) >= silence || connection != a.connection) {
		s.book(a.group).seen = false
	}
	if q == aTemplate || q == groupOptions && a != nil && a.increase && a.group == group {
		s.unheard = &answer{group, now, connection, false}
	}
}
