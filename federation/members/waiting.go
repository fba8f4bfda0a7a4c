package members

import (
	"math/bits"
	"time"
)

// waiting counts pods by the time since when they wait: a treap whose nodes never change. So what was
// read stays as it was at no cost, and adding, removing and counting take logarithmic time in the
// number of different times, of which there is at most one in a second. The zero value has none.
type waiting struct{ root *moment }

// moment is a subtree: the pods that wait since a time, and those since earlier and later times.
type moment struct {
	at             int64 // microseconds since 1970
	pods, all      int32 // since then, and in the subtree
	earlier, later *moment
}

// count is how many pods wait.
func (w waiting) count() int32 { return w.root.count() }

// since is how many have waited since a time or longer.
func (w waiting) since(limit time.Time) (n int32) {
	at := limit.UnixMicro()
	for m := w.root; m != nil; {
		if m.at > at {
			m = m.earlier
			continue
		}
		n += m.pods + m.earlier.count()
		m = m.later
	}
	return n
}

// after is the earliest time after another one since when pods wait; not ok if there is none.
func (w waiting) after(limit time.Time) (first time.Time, ok bool) {
	at := limit.UnixMicro()
	for m := w.root; m != nil; {
		if m.at <= at {
			m = m.later
			continue
		}
		first, ok = time.UnixMicro(m.at), true
		m = m.earlier
	}
	return first, ok
}

// with is w with a pod more.
func (w waiting) with(since time.Time) waiting { return waiting{w.root.with(since.UnixMicro())} }

// without is w with a pod less, which must be there.
func (w waiting) without(since time.Time) waiting { return waiting{w.root.without(since.UnixMicro())} }

func (m *moment) count() int32 {
	if m == nil {
		return 0
	}
	return m.all
}

// priority is the order of the heap: as good as random, and the same for the same time.
func (m *moment) priority() uint64 {
	high, low := bits.Mul64(uint64(m.at)^0x9e3779b97f4a7c15, 0xd1342543de82ef95) //nolint:gosec // only bits
	return high ^ low
}

func moments(at int64, pods int32, earlier, later *moment) *moment {
	return &moment{at: at, pods: pods, all: pods + earlier.count() + later.count(), earlier: earlier, later: later}
}

func (m *moment) with(at int64) *moment {
	switch {
	case m == nil:
		return moments(at, 1, nil, nil)
	case at == m.at:
		return moments(at, m.pods+1, m.earlier, m.later)
	case at < m.at:
		e := m.earlier.with(at)
		if e.priority() > m.priority() {
			return moments(e.at, e.pods, e.earlier, moments(m.at, m.pods, e.later, m.later))
		}
		return moments(m.at, m.pods, e, m.later)
	}
	l := m.later.with(at)
	if l.priority() > m.priority() {
		return moments(l.at, l.pods, moments(m.at, m.pods, m.earlier, l.earlier), l.later)
	}
	return moments(m.at, m.pods, m.earlier, l)
}

func (m *moment) without(at int64) *moment {
	switch {
	case at < m.at:
		return moments(m.at, m.pods, m.earlier.without(at), m.later)
	case at > m.at:
		return moments(m.at, m.pods, m.earlier, m.later.without(at))
	case m.pods > 1:
		return moments(at, m.pods-1, m.earlier, m.later)
	}
	return joined(m.earlier, m.later)
}

// joined is two subtrees as one.
func joined(earlier, later *moment) *moment {
	switch {
	case earlier == nil:
		return later
	case later == nil:
		return earlier
	case earlier.priority() > later.priority():
		return moments(earlier.at, earlier.pods, earlier.earlier, joined(earlier.later, later))
	}
	return moments(later.at, later.pods, joined(earlier, later.earlier), later.later)
}
