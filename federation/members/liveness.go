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

// liveness is what the answers to probes say. What the cluster counts as follows from that and the time.
type liveness struct {
	offlineAfter, stableFor time.Duration

	answers bool
	since   time.Time // it answers, or does not
	lost    bool      // it was, before that
	ever    bool      // it has answered since the program started
}

// newLiveness begins with a cluster that was not asked yet. One that was offline before the program
// started must be stable again.
func newLiveness(before State, now time.Time, o *Options) liveness {
	return liveness{offlineAfter: o.OfflineAfter, stableFor: o.StabilizationTime, since: now, lost: before.Lost()}
}

// saw records whether the cluster has answered, and what is known of it is current.
func (l *liveness) saw(answers bool, now time.Time) {
	if answers != l.answers {
		state, _, _ := l.at(now)
		l.answers, l.since, l.lost, l.ever = answers, now, state.Lost(), l.ever || answers
	}
}

// at is what the cluster counts as at a time, since when, and until when if it goes on as it does; zero if
// that changes nothing.
func (l *liveness) at(now time.Time) (_ State, since, until time.Time) {
	offline, stable := l.since.Add(l.offlineAfter), l.since.Add(l.stableFor)
	switch {
	case l.answers && !l.lost:
		return Ready, l.since, time.Time{}
	case l.answers && now.Before(stable):
		return Stabilizing, l.since, stable
	case l.answers:
		return Ready, stable, time.Time{}
	case l.lost:
		return Offline, l.since, time.Time{}
	case !now.Before(offline):
		return Offline, offline, time.Time{}
	case l.ever:
		return NotAnswering, l.since, offline
	}
	return Connecting, l.since, offline
}
