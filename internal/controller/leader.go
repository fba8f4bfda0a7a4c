package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
)

// ErrNoNamespace is returned by Run if the namespace of the Lease does not exist.
var ErrNoNamespace = errors.New("no namespace for the Lease of the leader")

// ErrNotLeading is returned by Run if another process leads, and by writes that this one attempts
// after its Lease has expired.
var ErrNotLeading = errors.New("another process leads or may lead")

// ErrRestored is returned by Run if the API server has forgotten what it knew before: its etcd was restored from a
// backup. Watches would show nothing until as much has been written as was lost, so the process starts anew.
var ErrRestored = errors.New("the data of the API server were restored from a backup: everything is read anew")

// lease is the lock of the leader election.
type lease struct {
	resourcelock.LeaseLock
	duration time.Duration
	clock    clock.PassiveClock
	fail     func(error)               // called when the Lease can never be created, or is lost
	renewed  atomic.Pointer[time.Time] // when this process last began to renew it; nil if it has never led
	version  string                    // of the Lease, the last that was seen; of the election's goroutine
}

func newLease(config *rest.Config, o *Options) (*lease, error) {
	config = rest.CopyConfig(config)
	config.Timeout = max(o.RenewDeadline/2, time.Second) // a single call that hangs must not cost the leadership
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for the leader election: %w", err)
	}
	l := &lease{duration: o.LeaseDuration, clock: clock.RealClock{}, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.LeaseNamespace, Name: o.Lease},
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}}
	l.Client = seen{client.Leases(o.LeaseNamespace), l}
	return l, nil
}

// seen are the Leases of the namespace, whose versions are taken in when they are read or written: a leader that is never
// contradicted writes its Lease without reading it.
type seen struct {
	coordinationv1.LeaseInterface
	by *lease
}

// Leases implements coordinationv1.LeasesGetter.
func (s seen) Leases(string) coordinationv1.LeaseInterface { return s }

// Get implements coordinationv1.LeaseInterface.
func (s seen) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Lease, error) {
	return s.by.see(s.LeaseInterface.Get(ctx, name, o))
}

// Create implements coordinationv1.LeaseInterface.
func (s seen) Create(ctx context.Context, l *v1.Lease, o metav1.CreateOptions) (*v1.Lease, error) {
	return s.by.see(s.LeaseInterface.Create(ctx, l, o))
}

// Update implements coordinationv1.LeaseInterface.
func (s seen) Update(ctx context.Context, l *v1.Lease, o metav1.UpdateOptions) (*v1.Lease, error) {
	return s.by.see(s.LeaseInterface.Update(ctx, l, o))
}

// see records the version of the Lease, which never goes back unless the data of the API server do.
func (l *lease) see(found *v1.Lease, err error) (*v1.Lease, error) {
	if err == nil {
		if order, err := resourceversion.CompareResourceVersion(found.ResourceVersion, l.version); err == nil && order < 0 {
			l.fail(ErrRestored)
		}
		l.version = found.ResourceVersion
	}
	return found, err
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begin := l.clock.Now()
	err := l.LeaseLock.Create(ctx, record)
	if err == nil {
		l.renewed.Store(&begin)
	}
	if apierrors.IsNotFound(err) { // otherwise the election would try forever
		l.fail(fmt.Errorf("%w: %s does not exist", ErrNoNamespace, l.LeaseMeta.Namespace))
	}
	return err
}

// Get implements resourcelock.Interface. A process that was frozen and finds that another one leads
// now ends at once: the election would go on trying until the deadline for a renewal.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && l.renewed.Load() != nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.fail(ErrNotLeading)
	}
	return record, raw, err
}

// expired reports whether this process has led and another one may lead by now.
func (l *lease) expired() bool {
	renewed := l.renewed.Load()
	return renewed != nil && l.clock.Since(*renewed) > l.duration
}

// fence is a transport that lets no write of a leader through whose Lease has expired: it may have
// been frozen, and decides from what it knew before.
type fence struct {
	*lease
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && f.expired() {
		return nil, ErrNotLeading
	}
	return f.next.RoundTrip(r)
}

// Update implements resourcelock.Interface. A renewal that is cancelled by the end of the process may
// still reach the API server just after the Lease was read to be released. The release is tried
// again then; otherwise nobody could lead until the Lease expires.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != "" {
		begin := l.clock.Now()
		err := l.LeaseLock.Update(ctx, record)
		if err == nil {
			l.renewed.Store(&begin)
		}
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		updateErr := l.LeaseLock.Update(ctx, record)
		if !apierrors.IsConflict(updateErr) {
			return updateErr
		}
		if now, _, err := l.Get(ctx); err != nil || now.HolderIdentity != l.Identity() {
			return err
		}
		return updateErr
	})
}

// announcer records the events of the election, which are about the Lease.
type announcer struct{ events.EventRecorder }

// Eventf implements resourcelock.EventRecorder.
func (a announcer) Eventf(lease runtime.Object, kind, reason, format string, args ...any) {
	a.EventRecorder.Eventf(lease, nil, kind, reason, "Elect", format, args...)
}
