package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

// ErrNoNamespace is returned by Run if the namespace of the Lease does not exist.
var ErrNoNamespace = errors.New("no namespace for the Lease of the leader")

// lease is the lock of the leader election.
type lease struct {
	resourcelock.LeaseLock
	fail func(error) // called when the Lease can never be created
}

func newLease(config *rest.Config, o *Options) (*lease, error) {
	config = rest.CopyConfig(config)
	config.Timeout = max(o.RenewDeadline/2, time.Second) // a single call that hangs must not cost the leadership
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for the leader election: %w", err)
	}
	return &lease{LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.LeaseNamespace, Name: o.Lease},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}}, nil
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, record)
	if apierrors.IsNotFound(err) { // otherwise the election would try forever
		l.fail(fmt.Errorf("%w: %s does not exist", ErrNoNamespace, l.LeaseMeta.Namespace))
	}
	return err
}

// Update implements resourcelock.Interface. A renewal that is cancelled by the end of the process may
// still reach the API server just after the Lease was read to be released. The release is tried
// again then; otherwise nobody could lead until the Lease expires.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != "" {
		return l.LeaseLock.Update(ctx, record)
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
