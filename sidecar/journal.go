package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/steering"
)

// journalTimeout is how long the journal may take, and no longer than half of the time for which
// Cluster Autoscaler still waits: the rest is for the cloud.
const journalTimeout = 3 * time.Second

// journalContext bounds calls to the journal.
func journalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := journalTimeout
	if left, limited := left(ctx); limited {
		limit = min(limit, left/2)
	}
	return context.WithTimeout(ctx, limit)
}

// retryJournal tries to write the journal again if that has failed before.
func (s *Sidecar) retryJournal(ctx context.Context) {
	if ask(&s.machine, (*steering.State).Unsaved) {
		_ = s.saveJournal(ctx) // what is granted depends on it
	}
}

// saveJournal writes down what must survive.
func (s *Sidecar) saveJournal(ctx context.Context) error {
	if s.o.Journal == nil {
		return nil
	}
	s.mu.Lock()
	text, err := s.state.Journal()
	s.mu.Unlock()
	if err == nil {
		ctx, cancel := journalContext(ctx)
		defer cancel()
		err = s.o.Journal.Save(ctx, text)
		if err != nil && !errors.Is(err, ErrNotLeader) {
			if err = s.ownJournal(ctx); err == nil {
				err = s.o.Journal.Save(ctx, text)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(steering.JournalSaved{Err: err})
	if err != nil {
		s.journalOf, s.journalRead = "", false // it may be somebody else's now
		return fmt.Errorf("the journal cannot be written: %w", err)
	}
	return nil
}

// ownJournal loads the journal, which is required to write it again. It returns an error if that is
// not this process's.
func (s *Sidecar) ownJournal(ctx context.Context) error {
	text, err := s.o.Journal.Load(ctx)
	if err != nil {
		return err
	}
	if !ask(&s.machine, func(state *steering.State) bool { return state.OwnJournal(text) }) {
		return steering.ErrOutdated
	}
	return nil
}

// loadJournal reads the journal at the first call on a connection: another replica may have led
// meanwhile.
func (s *Sidecar) loadJournal(ctx context.Context) {
	if s.o.Journal == nil {
		return
	}
	connection := s.o.Connection(ctx)
	s.mu.Lock()
	known := s.journalRead && s.journalOf == connection
	s.mu.Unlock()
	if known {
		return
	}
	ctx, cancel := journalContext(ctx)
	defer cancel()
	text, err := s.o.Journal.Load(ctx)
	s.mu.Lock()
	if s.apply(steering.JournalRead{Text: text, Err: err}); err == nil {
		s.journalRead, s.journalOf = true, connection
	}
	s.mu.Unlock()
	if err != nil && !errors.Is(err, ErrNotLeader) {
		s.o.Log.Error(err, "Journal not read")
	}
}
