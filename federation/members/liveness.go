package members

import (
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// State is what a cluster counts as. The values are the reasons of the condition Reachable.
type State string

// The states of a cluster.
const (
	// Connecting: the cluster has not answered yet. What runs there is not known.
	Connecting State = v1alpha1.ReasonConnecting
	// Ready: the cluster answers, and what is known of it is current.
	Ready State = v1alpha1.ReasonReady
	// NotAnswering: the cluster has not answered for a short time. Nothing is moved.
	NotAnswering State = v1alpha1.ReasonNotAnswering
	// Offline: the cluster has not answered for longer. Its replicas start elsewhere.
	Offline State = v1alpha1.ReasonOffline
	// Stabilizing: the cluster answers again after it was offline, but not for long enough yet.
	Stabilizing State = v1alpha1.ReasonStabilizing
)

// Lost reports whether the replicas of the cluster belong elsewhere.
func (s State) Lost() bool { return s == Offline || s == Stabilizing }

// liveness decides what a cluster counts as from the answers to probes. The zero value of the times
// is not used: newLiveness begins.
type liveness struct {
	offlineAfter, stableFor time.Duration

	state State
	since time.Time // of the state
	// failing is since when probes have failed without an answer in between; zero while they are
	// answered.
	failing time.Time
}

// newLiveness begins with a cluster that was not asked yet. One that was offline before the program
// started must be stable again.
func newLiveness(before State, now time.Time, o *Options) liveness {
	l := liveness{offlineAfter: o.OfflineAfter, stableFor: o.StabilizationTime, state: Connecting, since: now, failing: now}
	if before.Lost() {
		l.state = Offline
	}
	return l
}

// answered takes in that the cluster has answered, and what is known of it is current.
func (l *liveness) answered(now time.Time) {
	l.advance(now) // it may have been offline in between
	l.failing = time.Time{}
	if l.state == Offline {
		l.become(Stabilizing, now)
	} else if l.state != Stabilizing && l.state != Ready {
		l.become(Ready, now)
	}
	l.advance(now)
}

// failed takes in that the cluster has not answered.
func (l *liveness) failed(now time.Time) {
	if l.failing.IsZero() {
		l.advance(now)
		l.failing = now
	}
	was := l.state
	if was == Ready {
		l.become(NotAnswering, now)
	}
	if was == Stabilizing {
		l.become(Offline, now)
	}
	l.advance(now)
}

// advance makes the changes that time alone brings.
func (l *liveness) advance(now time.Time) {
	if at := l.next(); !at.IsZero() && !now.Before(at) {
		if l.state == Stabilizing {
			l.become(Ready, at)
		} else {
			l.become(Offline, at)
		}
	}
}

// next is when advance changes the state; zero if it does not.
func (l *liveness) next() time.Time {
	if l.state == Stabilizing {
		return l.since.Add(l.stableFor)
	}
	if l.state == Connecting || l.state == NotAnswering {
		return l.failing.Add(l.offlineAfter)
	}
	return time.Time{}
}

func (l *liveness) become(s State, at time.Time) { l.state, l.since = s, at }
