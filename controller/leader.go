package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the lock of the election, and remembers whom it last saw hold it: the election asks often enough.
type lease struct {
	resourcelock.Interface
	holder atomic.Value // string
}

func newLease(config *rest.Config, o *Options) (*lease, error) {
	config = rest.CopyConfig(config)
	config.Timeout = max(o.RenewDeadline/2, time.Second) // so that one call that hangs does not cost the leadership
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for the leader election: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, o.LeaseNamespace, o.Lease,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: o.Identity})
	if err != nil {
		return nil, fmt.Errorf("building the lock of the leader election: %w", err)
	}
	return &lease{Interface: lock}, nil
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder.Store(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.holder.Store(record.HolderIdentity)
	}
	return err
}

// Update implements resourcelock.Interface.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.holder.Store(record.HolderIdentity)
	}
	return err
}

// last is the identity last seen to hold the lease; empty if none did.
func (l *lease) last() string {
	holder, _ := l.holder.Load().(string)
	return holder
}
