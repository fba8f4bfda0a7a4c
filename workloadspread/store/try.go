package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// try decides for all pending requests, stores the result and answers. It returns the requests that
// have no answer yet: all of them after an error, and those that need the live object.
func (s *Store) try(key types.NamespacedName, o *object, pending []*request, live bool) (left []*request, wrote bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout) // a caller that leaves must not fail the others
	defer cancel()
	was, live, err := s.read(ctx, key, o, live)
	if err != nil {
		return pending, false, err
	}
	now, write := was, false
	round := &Round{Context: ctx, Live: live}
	var decided []*request
	for _, r := range pending {
		status, changed, answered, err := r.decideOn(now, round)
		switch {
		case !answered:
		case errors.Is(err, ErrUnsure) && !live:
			left = append(left, r)
		case err != nil:
			r.answer <- answer{err: err}
		default:
			decided = append(decided, r)
			if write = write || changed; status != nil && status != &now.Status {
				copied := *now
				copied.Status, now = *status, &copied
			}
		}
	}
	if write {
		if now, err = s.write(ctx, now); err != nil {
			return append(decided, left...), false, err
		}
		o.newest = now
	}
	s.o.Metrics.decisions.Add(float64(len(decided)))
	for _, r := range decided {
		r.answer <- answer{object: now}
	}
	return left, write, nil
}

// read returns the newest object that is known, or the live one, and reports whether it is live.
func (s *Store) read(ctx context.Context, key types.NamespacedName, o *object, live bool) (*v1alpha1.WorkloadSpread, bool, error) {
	read := &v1alpha1.WorkloadSpread{}
	if !live {
		// An object that the cache does not have may be too new for it.
		if err := s.cached.Get(ctx, key, read, client.UnsafeDisableDeepCopy); err == nil { // nobody changes it
			if o.newest != nil && newer(o.newest, read) {
				return o.newest, false, nil
			}
			o.newest = nil
			return read, false, nil
		}
	}
	o.newest = nil
	if err := s.live.Get(ctx, key, read); err != nil {
		return nil, false, err
	}
	o.newest = read
	return read, true, nil
}

// newer reports whether an object is newer than another version of it.
func newer(a, b *v1alpha1.WorkloadSpread) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

func (s *Store) write(ctx context.Context, object *v1alpha1.WorkloadSpread) (*v1alpha1.WorkloadSpread, error) {
	object = object.DeepCopy() // the answer is decoded into it
	err := s.live.Status().Update(ctx, object)
	s.o.Metrics.writes.WithLabelValues(passes.ResultOf(err)).Inc()
	if err != nil {
		return nil, err
	}
	return object, nil
}

// decideOn calls decide unless the caller has gone. A panic fails this request and not the process, as it
// would in the caller of a web server.
func (r *request) decideOn(object *v1alpha1.WorkloadSpread, round *Round) (status *v1alpha1.WorkloadSpreadStatus, changed, called bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			called, err = true, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if r.gone {
		return nil, false, false, nil
	}
	status, changed, err = r.decide(object, round)
	return status, changed, true, err
}

// left reports whether the caller has left.
func (r *request) left() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

// failed notes why a request has no answer yet.
func (r *request) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = err
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
