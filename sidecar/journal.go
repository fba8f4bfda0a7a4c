package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/steering"
)

// saveTimeout is how long saving may take: it is on Cluster Autoscaler's way.
const saveTimeout = time.Second

// saveJournal writes down what must survive.
func (s *Sidecar) saveJournal(ctx context.Context) error {
	if s.o.Journal == nil {
		return nil
	}
	var text []byte
	var err error
	s.step(func(m *steering.Machine) { text, err = m.Journal() })
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, saveTimeout)
		defer cancel()
		err = s.o.Journal.Save(ctx, text)
		if err != nil && !errors.Is(err, ErrNotLeader) && s.ownJournal(ctx) {
			err = s.o.Journal.Save(ctx, text)
		}
	}
	s.step(func(m *steering.Machine) {
		m.JournalSaved(err)
		if err != nil {
			s.journalOf, s.journalRead = "", false // it may be somebody else's now
		}
	})
	if err != nil {
		return fmt.Errorf("the journal cannot be written: %w", err)
	}
	return nil
}

// ownJournal loads the journal, which is required to write it again, and reports whether it is this
// process's.
func (s *Sidecar) ownJournal(ctx context.Context) (own bool) {
	text, err := s.o.Journal.Load(ctx)
	if err != nil {
		return false
	}
	s.step(func(m *steering.Machine) { own = m.OwnJournal(text) })
	return own
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
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	text, err := s.o.Journal.Load(ctx)
	s.step(func(m *steering.Machine) {
		m.JournalRead(text, err)
		if err == nil {
			s.journalRead, s.journalOf = true, connection
		}
	})
	if err != nil && !errors.Is(err, ErrNotLeader) {
		s.o.Log.Error(err, "Journal not read, increases are granted in full")
	}
}
