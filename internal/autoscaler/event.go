package autoscaler

import (
	"fmt"
	"time"
)

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	Started       Kind = "Started"       // a process of Cluster Autoscaler; N is its number
	LoopEnded     Kind = "LoopEnded"     // early; Detail says why
	Asked         Kind = "Asked"         // BestOptions; Detail has the options, Group the first of the answer
	Vetoed        Kind = "Vetoed"        // the answer was empty
	Unanswered    Kind = "Unanswered"    // the expander failed, so the choice is random
	Increased     Kind = "Increased"     // IncreaseSize by N succeeded
	Failed        Kind = "Failed"        // IncreaseSize by N failed
	BackedOff     Kind = "BackedOff"     // the group, until Detail
	Fulfilled     Kind = "Fulfilled"     // a scale-up request of N ended, nothing being upcoming
	TimedOut      Kind = "TimedOut"      // a scale-up request of N
	Decreased     Kind = "Decreased"     // DecreaseTargetSize by N, negative; Detail is its error
	Deleted       Kind = "Deleted"       // DeleteNodes of N nodes; Detail says why, and its error
	Provisioned   Kind = "Provisioned"   // a ProvisioningRequest
	Unprovisioned Kind = "Unprovisioned" // a ProvisioningRequest, to be tried again
	Arrived       Kind = "Arrived"       // N pods
	Bound         Kind = "Bound"         // N pods, to nodes
)

// Event is something that happened.
type Event struct {
	Time   time.Time
	Kind   Kind
	Group  string
	N      int
	Detail string
}

// String returns the event in one line.
func (e Event) String() string {
	return fmt.Sprintf("%s %s %s %d %s", e.Time.Format("15:04:05.0"), e.Kind, e.Group, e.N, e.Detail)
}

// maxEvents is the maximum number of events; beyond it, the oldest half is dropped.
const maxEvents = 20_000

func (a *Autoscaler) note(kind Kind, group string, n int, detail string) {
	if len(a.events) >= maxEvents {
		a.events = append(a.events[:0], a.events[maxEvents/2:]...)
	}
	a.events = append(a.events, Event{Time: a.clock.Now(), Kind: kind, Group: group, N: n, Detail: detail})
}

// textOf is an error's text; empty for none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
