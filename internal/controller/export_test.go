package controller

import (
	"net/http"
	"time"

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

// Seen has a lease see versions, and returns the error with which it ends the process.
func Seen(versions ...string) (err error) {
	l := &lease{fail: func(cause error) { err = cause }}
	for _, version := range versions {
		l.see(version)
	}
	return err
}
