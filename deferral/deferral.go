// Package deferral bounds how long nodes wait for balance: it remembers since when each node that
// may be removed has been kept only because its set would become uneven.
//
// A node that is not offered for removal for a while keeps its time. An autoscaler that may take
// only some of a group's idle nodes offers another few of them in every loop, and a node that lost
// its time whenever it is passed over would wait forever. It is forgotten once it was passed over for
// longer than the limit. The time between two offers is no such time, however long it is.
//
// The package decides nothing about nodes or sets, reads no clock, and knows no cluster. The time
// of each call is handed in and never goes back. It is not safe for concurrent use.
package deferral

import (
	"errors"
	"maps"
	"time"
)

// Default is how long a node waits for balance at most, unless told otherwise.
const Default = 10 * time.Minute

// Ended reports whether a wait that began at since is over now. A zero since is no wait. With a
// limit of 0 none begins, so each is over.
func Ended(limit time.Duration, since, now time.Time) bool {
	return limit == 0 || !since.IsZero() && now.Sub(since) >= limit
}

// Limit is how long a node waits for balance at most: what is given, or Default. With 0 no node
// waits. A negative limit is refused.
func Limit(given *time.Duration) (time.Duration, error) {
	switch {
	case given == nil:
		return Default, nil
	case *given < 0:
		return 0, errors.New("must not be negative; 0 defers nothing")
	}
	return *given, nil
}

// Waits are the nodes that wait, or have waited lately. Use New to make one.
type Waits struct {
	limit time.Duration
	nodes map[string]wait
	last  time.Time // of the last offer
}

type wait struct{ since, offered time.Time }

// New returns Waits without memory that let a node wait no longer than the limit, which is not
// negative; with 0 none waits.
func New(limit time.Duration) *Waits { return &Waits{limit: limit, nodes: map[string]wait{}} }

// Offer takes in which nodes may be removed now, and forgets those that have been passed over for
// longer than the limit.
func (w *Waits) Offer(nodes []string, now time.Time) {
	for _, name := range nodes {
		if n, waits := w.nodes[name]; waits && (!n.offered.Before(w.last) || now.Sub(n.offered) <= w.limit) {
			n.offered = now
			w.nodes[name] = n
		}
	}
	w.last = now
	maps.DeleteFunc(w.nodes, func(_ string, n wait) bool { return now.Sub(n.offered) > w.limit })
}

// Defer notes that a node is kept for balance now, and reports whether its wait begins with that.
// It began at since, which may lie before now where that is known.
func (w *Waits) Defer(node string, since, now time.Time) bool {
	if _, waits := w.nodes[node]; waits {
		return false
	}
	w.nodes[node] = wait{since: since, offered: now}
	return true
}

// Forget drops a node that is needed again. An autoscaler that cannot tell it from a node that was
// passed over leaves that to Offer.
func (w *Waits) Forget(node string) { delete(w.nodes, node) }

// Since returns when a node began to wait; zero if it does not.
func (w *Waits) Since(node string) time.Time { return w.nodes[node].since }

// Overdue reports whether a node has waited as long as it may.
func (w *Waits) Overdue(node string, now time.Time) bool {
	return Ended(w.limit, w.Since(node), now)
}
