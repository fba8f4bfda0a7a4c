package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
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
	// Facts are what decisions have read besides the WorkloadSpread, for those after them. A round that is repeated after a conflict
	// or a failure has them already: all requests that it decides on have come before they were read.
	Facts any
}

const (
	// timeout bounds an Update: it is less than what an API server waits for a webhook by default.
	timeout = 9 * time.Second
	// callTimeout bounds a call to the API server. What an answer that is late would have said is read.
	callTimeout = 3 * time.Second
	// What comes together, such as the pods that a controller creates at once, is stored with one write: it
	// waits until nothing has come for a pause, but no longer than longestPause.
	pause, longestPause = 3 * time.Millisecond, 25 * time.Millisecond
	// The delays after a failure grow from firstDelay to longestDelay; each is up to twice as long, at
	// random.
	firstDelay, longestDelay = time.Millisecond, 125 * time.Millisecond
)

// Store writes the status of WorkloadSpreads. It is safe for concurrent use.
type Store struct {
	cached  client.Reader
	live    client.Client
	metrics *Metrics
	clock   clock.Clock

	mu      sync.Mutex
	objects map[types.NamespacedName]*object
}

// New returns a Store that reads from a cache what may be a little old, and from the API server, with a
// client that does not cache, what must not be. The metrics record the writes; nil means that they are
// registered nowhere.
func New(cached client.Reader, live client.Client, m *Metrics) *Store {
	return &Store{cached: cached, live: live, metrics: metricset.Or(m, NewMetrics), clock: clock.RealClock{},
		objects: map[types.NamespacedName]*object{}}
}

// object is a WorkloadSpread that was asked for. A goroutine serves it while somebody waits.
type object struct {
	newest *v1alpha1.WorkloadSpread // that is known; of the goroutine

	// Store.mu guards the rest.
	waiting []*request
	last    time.Time // when the last one has come
	served  bool
	problem error // of the last try
}

// request is an Update that waits for its answer.
type request struct {
	decide Decide
	answer chan answer // has room for one

	mu   sync.Mutex // held while decide runs
	left bool       // the caller has
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
	o := s.enqueue(key, r)
	select {
	case a := <-r.answer:
		return a.object, a.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.left = true
	r.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, failed(key, cmp.Or(o.problem, errNoAnswer), ctx.Err())
}

var errNoAnswer = errors.New("no answer in time")

func failed(key types.NamespacedName, errs ...error) error {
	return fmt.Errorf("storing the status of WorkloadSpread %s: %w", key, errors.Join(errs...))
}

// Forget drops what is known of an object that does not exist any more.
func (s *Store) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

func (s *Store) enqueue(key types.NamespacedName, r *request) *object {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	if o == nil {
		o = &object{}
		s.objects[key] = o
	}
	o.waiting, o.last = append(o.waiting, r), s.clock.Now()
	if !o.served {
		o.served = true
		go s.serve(key, o)
	}
	return o
}

// serve answers all that wait for an object, and those that come in the meantime.
func (s *Store) serve(key types.NamespacedName, o *object) {
	for {
		s.gather(o)
		pending := s.collect(key, o)
		if len(pending) == 0 {
			return
		}
		s.answer(key, o, pending)
	}
}

// answer repeats a round until no request waits any more. Requests that come in the meantime have to wait for the next one, so that
// this one has its facts: the less is done between reading and writing, the less often another process is first.
func (s *Store) answer(key types.NamespacedName, o *object, pending []*request) {
	delays, round := newDelays(), &Round{}
	for len(pending) > 0 {
		left, err := s.try(key, o, pending, round)
		s.mu.Lock()
		o.problem = err
		s.mu.Unlock()
		switch {
		case err == nil, apierrors.IsConflict(err) && !round.Live: // the copy was old
		case retryable(err):
			s.clock.Sleep(delays.Step())
		default:
			for _, r := range left {
				r.answer <- answer{err: failed(key, err)}
			}
			return
		}
		if err == nil { // what is left needs the newest of everything
			round.Facts = nil
		}
		pending, round = staying(left), &Round{Live: true, Facts: round.Facts}
	}
}

func newDelays() *wait.Backoff {
	return &wait.Backoff{Duration: firstDelay, Factor: 2, Jitter: 1, Steps: 8, Cap: longestDelay}
}

// gather waits for what comes together.
func (s *Store) gather(o *object) {
	end := s.clock.Now().Add(longestPause)
	for {
		s.mu.Lock()
		quiet := o.last.Add(pause)
		s.mu.Unlock()
		if quiet.After(end) {
			quiet = end
		}
		rest := quiet.Sub(s.clock.Now())
		if rest <= 0 {
			return
		}
		s.clock.Sleep(rest)
	}
}

// collect returns the requests that have come. If there are none, serving ends.
func (s *Store) collect(key types.NamespacedName, o *object) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := staying(o.waiting)
	o.waiting, o.served = nil, len(pending) > 0
	if !o.served && o.newest == nil && s.objects[key] == o {
		delete(s.objects, key)
	}
	return pending
}

// staying are the requests without those whose caller has left.
func staying(requests []*request) []*request {
	return slices.DeleteFunc(requests, func(r *request) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.left
	})
}

// try decides for all pending requests, stores the result and answers. It returns the requests that
// have no answer yet: all of them after an error, and those that need the live object.
func (s *Store) try(key types.NamespacedName, o *object, pending []*request, round *Round) (left []*request, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout) // a caller that leaves must not fail the others
	defer cancel()
	round.Context = ctx
	if round.Live, err = s.read(ctx, key, o, round.Live); err != nil {
		return pending, err
	}
	now, write := o.newest, false
	var decided []*request
	for _, r := range pending {
		status, changed, err := r.decideOn(now, round)
		switch {
		case errors.Is(err, ErrUnsure) && !round.Live:
			left = append(left, r)
		case err != nil:
			r.answer <- answer{err: err}
		default:
			decided, write = append(decided, r), write || changed
			if status != nil && status != &now.Status {
				copied := *now
				copied.Status, now = *status, &copied
			}
		}
	}
	if write {
		now = now.DeepCopy() // the answer is decoded into it
		err := s.live.Status().Update(ctx, now)
		s.metrics.writes.WithLabelValues(passes.ResultOf(err)).Inc()
		if err != nil {
			return append(decided, left...), err
		}
		o.newest = now
	}
	s.metrics.decisions.Add(float64(len(decided)))
	for _, r := range decided {
		r.answer <- answer{object: now}
	}
	return left, nil
}

// read brings the newest object up to date with the cache or, if that does not have it, or live is true,
// with the API server. It reports whether it is live.
func (s *Store) read(ctx context.Context, key types.NamespacedName, o *object, live bool) (bool, error) {
	read := &v1alpha1.WorkloadSpread{}
	if !live && s.cached.Get(ctx, key, read, client.UnsafeDisableDeepCopy) == nil { // nobody changes it
		if o.newest == nil || !newer(o.newest, read) {
			o.newest = read
		}
		return false, nil
	}
	o.newest = nil
	if err := s.live.Get(ctx, key, read); err != nil {
		return true, err
	}
	o.newest = read
	return true, nil
}

// newer reports whether an object is newer than another version of it.
func newer(a, b *v1alpha1.WorkloadSpread) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// decideOn calls decide unless the caller has left. A panic fails this request and not the process, as it
// would in the caller of a web server.
func (r *request) decideOn(object *v1alpha1.WorkloadSpread, round *Round) (status *v1alpha1.WorkloadSpreadStatus, changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if r.left {
		return nil, false, context.Canceled
	}
	return r.decide(object, round)
}

// retryable reports whether another try may succeed: after a conflict, and after errors of the
// connection or of the server, which may have stored the status nevertheless.
func retryable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnexpectedServerError(err)
}
