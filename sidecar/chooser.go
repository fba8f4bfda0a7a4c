package sidecar

import (
	"context"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/steering"
)

// BestOptions implements expander.Chooser: it answers with the group that grows now. An empty
// answer stops the scale-up for this loop. A question that nobody waits for any more is worked out
// all the same: Cluster Autoscaler then increases a group by chance, and its share is known.
func (s *Sidecar) BestOptions(ctx context.Context, request expander.Question) ([]string, error) {
	loop := ask(&s.machine, (*steering.State).Loop)
	waiting := context.WithoutCancel(ctx)
	if err := s.turn.Acquire(waiting, 1); err != nil {
		return nil, err
	}
	defer s.turn.Release(1)
	s.endArrival(ctx, func() {})
	if ctx.Err() != nil && loop != ask(&s.machine, (*steering.State).Loop) {
		return nil, ctx.Err() // it is about a loop that is over
	}
	if _, err := s.ensure(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.applyNodes()
	s.askedSince = true
	answer := s.apply(steering.Asked{Question: request})
	s.mu.Unlock()
	switch {
	case answer.Err != nil:
		return nil, answer.Err
	case s.o.DryRun:
		return offered(request), nil
	}
	if answer.Save {
		journalErr := s.saveJournal(waiting) // it is tried again before the increase
		if s.step(steering.Stop{JournalErr: journalErr}).Err != nil {
			return nil, nil
		}
	}
	if answer.Group == "" {
		return nil, nil
	}
	return []string{answer.Group}, nil
}

// offered are the groups of all options: an answer that leaves the choice to the next expander.
func offered(request expander.Question) []string {
	var out []string
	for i := range request.Options {
		out = append(out, request.Options[i].Group)
	}
	return out
}
