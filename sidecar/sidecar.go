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
	machine // its mu is never held during calls to the cloud
	backend Backend

	// turn orders what must not happen at the same time: choosing and granting. It is held during calls to the cloud.
	turn     *semaphore.Weighted
	fetching singleflight.Group
	orders   sync.WaitGroup // increases that are on their way
	arrivals arrivals       // of questions

	// of mu:
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
	s := &Sidecar{machine: machine{o: &o, state: state}, backend: backend, turn: semaphore.NewWeighted(1), listings: listings{},
		memory: memory{map[string]answered{}, map[optionsOf]cloudprovider.GroupOptions{}, nil}}
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

// observe is step for events for which it matters which nodes are registered.
func (s *Sidecar) observe(e steering.Event) steering.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyNodes()
	return s.apply(e)
}

// applyNodes says which nodes are registered. The caller holds mu.
func (s *Sidecar) applyNodes() {
	if s.o.Nodes != nil {
		nodes, known := s.o.Nodes.List()
		s.apply(steering.Observe{Nodes: nodes, Known: known})
	}
}

// Shift takes in the zones that users have shifted away, as they were read from a source, or why
// that cannot be used. What was taken in before then holds on.
func (s *Sidecar) Shift(source string, marks []zonalshift.Mark, err error) {
	s.observe(steering.Shift{Source: source, Marks: marks, Err: err})
}
