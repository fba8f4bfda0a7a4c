package sidecar

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/steering"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Sidecar answers Cluster Autoscaler as its expander (BestOptions) and as its cloud
// (cloudprovider.Provider). It may be used from several goroutines.
type Sidecar struct {
	backend Backend
	o       Options

	// turn orders what must not happen at the same time: choosing and granting. It is held during
	// calls to the cloud, mu never is.
	turn     *semaphore.Weighted
	fetching singleflight.Group
	orders   sync.WaitGroup // increases that are on their way
	arrivals arrivals       // of questions

	mu          sync.Mutex
	state       *steering.State
	view        *view // what Cluster Autoscaler is shown; nil before the first reading
	fetched     *view // read and not shown yet
	fetchErr    error
	failing     time.Time // since when the cloud cannot be read; zero if it can
	gpuAsked    *string   // connection on which the GPU label was last asked for
	refreshedOn string    // connection of the last Refresh
	askedSince  bool      // the expander was asked after it
	journalOf   string    // connection for which the journal was read
	journalRead bool
	listings    listings
	memory      memory
	history     history
}

// New returns a sidecar in front of a cloud. It calls nobody yet.
func New(backend Backend, o Options) (*Sidecar, error) {
	o.setDefaults()
	writer := ""
	if o.Journal != nil {
		writer = rand.Text()
	}
	state, err := steering.New(writer, o.Options)
	if err != nil {
		return nil, err
	}
	s := &Sidecar{backend: backend, o: o, turn: semaphore.NewWeighted(1), state: state, listings: listings{}, memory: memory{map[string]answered{}, map[optionsOf]cloudprovider.GroupOptions{}, nil}}
	s.step(steering.Started{Writer: writer})
	return s, nil
}

// Wait returns when all increases that are on their way have ended, or ctx is done.
func (s *Sidecar) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.orders.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step applies an event to the state, and carries out what that has led to.
func (s *Sidecar) step(e steering.Event) steering.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(e)
}

// observe is step for events for which it matters which nodes are registered.
func (s *Sidecar) observe(e steering.Event) steering.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyNodes()
	return s.apply(e)
}

// apply is step for a caller that holds mu.
func (s *Sidecar) apply(e steering.Event) steering.Answer {
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

// applyNodes says which nodes are registered. The caller holds mu.
func (s *Sidecar) applyNodes() {
	if s.o.Nodes != nil {
		nodes, known := s.o.Nodes.List()
		s.apply(steering.Observe{Nodes: nodes, Known: known})
	}
}

// ask returns something of the state.
func ask[T any](s *Sidecar, question func(*steering.State) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return question(s.state)
}

// carryOut does what events have led to beside their answers. None of it waits for anybody.
func (s *Sidecar) carryOut(effects steering.Effects) {
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

// Shift takes in the zones that users have shifted away, as they were read from a source, or why
// that cannot be used. What was taken in before then holds on.
func (s *Sidecar) Shift(source string, marks []zonalshift.Mark, err error) {
	s.observe(steering.Shift{Source: source, Marks: marks, Err: err})
}
