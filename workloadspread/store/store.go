package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

// ErrUnsure is returned by a Decide whose answer should rest on what is stored now. It is called again
// in a round with an object that was just read.
var ErrUnsure = errors.New("the newest WorkloadSpread is needed")

// Decide decides on a WorkloadSpread, which it must not change. It returns the status that the next
// decision starts from, nil for the same one, and whether it must be stored. It may be called several
// times: the last call is the one that counts.
type Decide = func(o *v1alpha1.WorkloadSpread, round *Round) (status *v1alpha1.WorkloadSpreadStatus, changed bool, err error)

// Round is a round of decisions about one version of a WorkloadSpread, which are stored together.
type Round struct {
	// Context bounds what is read for the round.
	Context context.Context
	// Live is true if the WorkloadSpread was just read from the API server.
	Live bool
	// Facts are what decisions have read in the round, for those after them.
	Facts any
}

const (
	// timeout bounds an Update: it is less than what an API server waits for a webhook by default.
	timeout = 9 * time.Second
	// callTimeout bounds a call to the API server. What an answer that is late would have said is read.
	callTimeout = 3 * time.Second
	// The delays after a failure grow from firstDelay to longestDelay; each is up to twice as long, at
	// random.
	firstDelay, longestDelay = 5 * time.Millisecond, 125 * time.Millisecond
	// pause is how long after a write a process leaves the object to others: what comes meanwhile, such as the
	// next pods of a workload that creates many, is stored with one write.
	pause = 25 * time.Millisecond
)

// Options of a Store.
type Options struct {
	// Metrics record the writes; nil means that they are registered nowhere.
	Metrics *Metrics
}

// Store writes the status of WorkloadSpreads. It is safe for concurrent use.
type Store struct {
	cached client.Reader
	live   client.Client
	o      Options
	clock  clock.Clock

	mu      sync.Mutex
	objects map[types.NamespacedName]*object
}

// New returns a Store that reads from a cache what may be a little old, and from the API server, with a
// client that does not cache, what must not be.
func New(cached client.Reader, live client.Client, o Options) *Store {
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	return &Store{cached: cached, live: live, o: o, clock: clock.RealClock{}, objects: map[types.NamespacedName]*object{}}
}

// object is a WorkloadSpread that somebody waits for, or that was written.
type object struct {
	waiting []*request // guarded by Store.mu
	served  bool       // guarded by Store.mu: a goroutine is at work
	gone    bool       // guarded by Store.mu: it does not exist any more
	newest  *v1alpha1.WorkloadSpread
	rest    time.Time // no write before
}

// request is an Update that waits for its answer.
type request struct {
	decide Decide
	answer chan answer // has room for one

	mu      sync.Mutex
	gone    bool
	problem error // of the last try
}

type answer struct {
	object *v1alpha1.WorkloadSpread
	err    error
}

// Update decides on the newest WorkloadSpread that is known and stores its status. It tries until its
// context ends or the timeout is over: with the live object after a conflict, and also after an error
// that leaves open whether the status was stored. Nothing is written if nothing has changed. The
// object that is returned belongs to all callers. decide is not called any more when Update has
// returned.
func (s *Store) Update(ctx context.Context, key types.NamespacedName, decide Decide) (*v1alpha1.WorkloadSpread, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := &request{decide: decide, answer: make(chan answer, 1)}
	s.enqueue(key, r)
	select {
	case a := <-r.answer:
		return a.object, a.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	if r.problem != nil {
		return nil, fmt.Errorf("storing the status of WorkloadSpread %s: %w: %w", key, ctx.Err(), r.problem)
	}
	return nil, fmt.Errorf("storing the status of WorkloadSpread %s: %w", key, ctx.Err())
}

// Forget drops what is known of an object that does not exist any more.
func (s *Store) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	if o == nil {
		return
	}
	o.gone = true
	if !o.served {
		delete(s.objects, key)
	}
}

func (s *Store) enqueue(key types.NamespacedName, r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	if o == nil {
		o = &object{}
		s.objects[key] = o
	}
	o.waiting = append(o.waiting, r)
	if !o.served {
		o.served = true
		go s.serve(key, o)
	}
}

// serve answers all that wait for an object, and those that come in the meantime.
func (s *Store) serve(key types.NamespacedName, o *object) {
	delays, live := newDelays(), false
	for pending := s.take(key, o, nil); len(pending) > 0; pending = s.take(key, o, pending) {
		s.clock.Sleep(o.rest.Sub(s.clock.Now()))
		if pending = s.take(key, o, pending); len(pending) == 0 {
			return
		}
		left, wrote, err := s.try(key, o, pending, live)
		pending, live = left, len(left) > 0
		switch {
		case err == nil:
			delays = newDelays()
			if wrote {
				o.rest = s.clock.Now().Add(pause)
			}
		case retryable(err):
			for _, r := range left {
				r.failed(err)
			}
			o.rest = s.clock.Now().Add(delays.Step())
		default:
			for _, r := range left {
				r.answer <- answer{err: fmt.Errorf("storing the status of WorkloadSpread %s: %w", key, err)}
			}
			pending, live = nil, false
		}
	}
}

func newDelays() *wait.Backoff {
	return &wait.Backoff{Duration: firstDelay, Factor: 5, Jitter: 1, Steps: 3, Cap: longestDelay}
}

// take adds to the pending requests those that have come, without those whose caller has left. If there are none, serving ends.
func (s *Store) take(key types.NamespacedName, o *object, pending []*request) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending = slices.DeleteFunc(append(pending, o.waiting...), (*request).left)
	o.waiting = nil
	o.served = len(pending) > 0
	if !o.served && (o.newest == nil || o.gone) {
		delete(s.objects, key)
	}
	return pending
}
