package sidecar

import (
	"context"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/steering"
)

// arrivalLimit is how long an increase waits for questions that are arriving.
const arrivalLimit = 500 * time.Millisecond

// arrivals counts the questions that have begun to arrive and have not had their turn.
type arrivals struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when there are none; nil if nobody waits
}

// arrival is a question that has begun to arrive.
type arrival struct {
	once sync.Once // ends it: by its turn, or without one
}

type arrivalKey struct{}

// Arrive implements grpcexpander.Arrivals.
func (s *Sidecar) Arrive(ctx context.Context) context.Context {
	s.arrivals.add(1)
	return context.WithValue(ctx, arrivalKey{}, &arrival{})
}

// Leave implements grpcexpander.Arrivals. If Cluster Autoscaler stopped waiting before its question
// was read, it increases a group by chance.
func (s *Sidecar) Leave(ctx context.Context) {
	s.endArrival(ctx, func() {
		s.step(steering.Unread{})
		_ = s.saveJournal(context.WithoutCancel(ctx)) // a failure is known from now on
	})
}

// endArrival ends the arrival of the context's question, if it has not ended.
func (s *Sidecar) endArrival(ctx context.Context, before func()) {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.once.Do(func() {
			before()
			s.arrivals.add(-1)
		})
	}
}

func (a *arrivals) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n += n; a.n == 0 && a.none != nil {
		close(a.none)
		a.none = nil
	}
}

// idle is closed when no question is arriving; nil if none is.
func (a *arrivals) idle() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == 0 {
		return nil
	}
	if a.none == nil {
		a.none = make(chan struct{})
	}
	return a.none
}

// awaitQuestions returns when no question is arriving. After a pause of this process, an increase
// may be read before the question that led to it. A question that takes longer to arrive belongs to
// another loop.
func (s *Sidecar) awaitQuestions(ctx context.Context) {
	idle := s.arrivals.idle()
	if idle == nil {
		return
	}
	limit := s.o.Clock.NewTimer(arrivalLimit)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C():
	case <-ctx.Done():
	}
}
