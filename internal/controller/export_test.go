package controller

import (
	"context"
	"net/http"
	"time"

	v1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
)

// NoticeWatches makes Ready report a watch after patience, and forget it after quiet.
func (m *Manager) NoticeWatches(patience, quiet time.Duration) {
	m.watches.patience, m.watches.quiet = patience, quiet
}

// Fence is the transport of a leader that renewed a Lease of a duration at a time.
func Fence(renewed time.Time, duration time.Duration, next http.RoundTripper) http.RoundTripper {
	l := &lease{duration: duration, clock: clock.RealClock{}}
	l.renewed.Store(&renewed)
	return fence{l, next}
}

// SeenRead has a lease see versions that it reads, and SeenWritten those that it writes. They return the error with which
// it ends the process.
func SeenRead(versions ...string) error {
	return seeing(versions, func(s seen) { _, _ = s.Get(context.Background(), "", metav1.GetOptions{}) })
}

// SeenWritten is as SeenRead.
func SeenWritten(versions ...string) error {
	return seeing(versions, func(s seen) { _, _ = s.Update(context.Background(), nil, metav1.UpdateOptions{}) })
}

func seeing(versions []string, call func(seen)) (err error) {
	l := &lease{fail: func(cause error) { err = cause }}
	for _, version := range versions {
		call(seen{stored{version: version}, l})
	}
	return err
}

// stored is a Lease of a version.
type stored struct {
	coordinationv1.LeaseInterface
	version string
}

func (s stored) Get(context.Context, string, metav1.GetOptions) (*v1.Lease, error) {
	return &v1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: s.version}}, nil
}

func (s stored) Update(context.Context, *v1.Lease, metav1.UpdateOptions) (*v1.Lease, error) {
	return s.Get(context.Background(), "", metav1.GetOptions{})
}
