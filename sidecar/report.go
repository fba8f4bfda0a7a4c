package sidecar

import (
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/steering"
)

// Ready is nil when Cluster Autoscaler can be served: the cloud was read and answered last time.
func (s *Sidecar) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready()
}

func (s *Sidecar) ready() error {
	switch {
	case s.fetchErr != nil:
		return fmt.Errorf("the cloud has not answered since %s: %w", s.failing.UTC().Format(time.RFC3339), s.fetchErr)
	case s.view == nil:
		return errors.New("the cloud has not been read yet")
	}
	return nil
}

// cloudRead notes whether the cloud could be read. It logs when that begins to fail and when it has
// ended. The caller holds mu.
func (s *Sidecar) cloudRead(err error) {
	now := s.o.Clock.Now()
	switch {
	case err != nil && s.failing.IsZero():
		s.failing = now
		s.o.Log.Error(err, "The cloud cannot be read; loops are skipped until it can")
	case err == nil && !s.failing.IsZero():
		s.o.Log.Info("The cloud can be read again", "after", now.Sub(s.failing).Round(time.Second).String())
		s.failing = time.Time{}
	}
	s.fetchErr = err
}

// Status reports what the sidecar knows and last decided.
func (s *Sidecar) Status() steering.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyNodes()
	out := s.state.Status(s.o.Clock.Now())
	if err := s.ready(); err != nil {
		out.NotReady = err.Error()
	}
	out.Ready = out.NotReady == ""
	switch {
	case out.Journal != "":
	case s.journalRead:
		out.Journal = "kept"
	default:
		out.Journal = "not read yet"
	}
	if s.view != nil {
		out.LastRefresh, out.RefreshTook = s.view.At, s.view.took.Round(time.Millisecond).String()
	}
	s.history.show(&out)
	if s.o.Nodes != nil {
		if _, ok := s.o.Nodes.List(); !ok {
			out.Warnings = append(out.Warnings,
				"The nodes are not known from the API server; which are ready is inferred from the calls of Cluster Autoscaler")
		}
	}
	return out
}
