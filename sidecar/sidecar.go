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
	machine     *steering.Machine
	view        *view // what Cluster Autoscaler is shown; nil before the first reading
	fetched     *view // read and not shown yet
	fetchErr    error
	failing     time.Time // since when the cloud cannot be read; zero if it can
	gpuAsked    *string   // connection on which the GPU label was last asked for
	refreshedOn string    // connection of the last Refresh
	askedSince  bool      // the expander was asked after it
	journalOf   string    // connection for which the journal was read
	journalRead bool
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
	machine, err := steering.New(writer, o.Options)
	if err != nil {
		return nil, err
	}
	return &Sidecar{backend: backend, o: o, turn: semaphore.NewWeighted(1), machine: machine, memory: memory{map[string]answered{}, map[optionsOf]cloudprovider.GroupOptions{}, nil}}, nil
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

// step hands the machine an event, and carries out what that has led to. It holds mu.
func (s *Sidecar) step(event func(*steering.Machine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machine.Tick(s.o.Clock.Now())
	event(s.machine)
	s.carryOut(s.machine.Effects())
}

// ask asks the machine something.
func ask[T any](s *Sidecar, question func(*steering.Machine) T) (answer T) {
	s.step(func(m *steering.Machine) { answer = question(m) })
	return answer
}

// observe is step for events for which it matters which nodes are registered.
func (s *Sidecar) observe(event func(*steering.Machine)) {
	s.step(func(m *steering.Machine) {
		if s.o.Nodes != nil {
			m.Observe(s.o.Nodes.List())
		}
		event(m)
	})
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
	s.observe(func(m *steering.Machine) { m.Shift(source, marks, err) })
}
