package reconcile

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/federation"
)

// patience is how long a write may be under way, or its result may not show, until what is seen in
// the cluster counts again.
const patience = 30 * time.Second

// letter is a write that was sent to a cluster.
type letter struct {
	write federation.Write
	at    time.Time
	// local is the object as it will be.
	local federation.Local
	// version is the resource version of the object once it is written; 0 while the write is under
	// way.
	version uint64
}

// outbox knows which writes were sent to clusters and do not show yet in what is known of them. The zero
// value knows of none.
type outbox struct {
	mu sync.Mutex
	of map[types.NamespacedName]*sent
}

// sent is what the outbox knows about one object.
type sent struct {
	letters  map[string]letter // by cluster
	shrunk   map[string]shrunk // by cluster
	failures []federation.Failure
}

// lock locks the outbox, and returns what it knows about an object.
func (o *outbox) lock(key types.NamespacedName) *sent {
	o.mu.Lock()
	if o.of == nil {
		o.of = map[types.NamespacedName]*sent{}
	}
	s := o.of[key]
	if s == nil {
		s = &sent{letters: map[string]letter{}, shrunk: map[string]shrunk{}}
		o.of[key] = s
	}
	return s
}

// send notes a write.
func (o *outbox) send(key types.NamespacedName, l letter) {
	s := o.lock(key)
	defer o.mu.Unlock()
	s.shrinks(l.write, l.at)
	s.letters[l.write.Cluster] = l
}

// arrived notes that a write was made, and the hash of the pod template that the cluster made of it, if
// there was one.
func (o *outbox) arrived(key types.NamespacedName, w federation.Write, resourceVersion, content string) {
	s := o.lock(key)
	defer o.mu.Unlock()
	if content != "" {
		s.failures = append(s.failures, federation.Failure{Write: w, Content: content})
	}
	if l, ok := s.letters[w.Cluster]; ok && l.write == w {
		l.version, _ = strconv.ParseUint(resourceVersion, 10, 64)
		s.letters[w.Cluster] = l
	}
}

// failed notes that a write was not made.
func (o *outbox) failed(key types.NamespacedName, f federation.Failure) {
	s := o.lock(key)
	defer o.mu.Unlock()
	if l, ok := s.letters[f.Write.Cluster]; ok && l.write == f.Write {
		delete(s.letters, f.Write.Cluster)
	}
	s.failures = append(s.failures, f)
}

// expires is when the first letter about an object loses its weight, or a smaller number may have;
// zero if there is none. At that time at the latest what is seen counts again.
func (o *outbox) expires(key types.NamespacedName, now time.Time) (first time.Time) {
	s := o.lock(key)
	defer o.mu.Unlock()
	for cluster, to := range s.shrunk {
		if now.Sub(to.at) > patience { // the cluster is no member any more, or out of reach
			delete(s.shrunk, cluster)
			continue
		}
		first = now.Add(lag + time.Nanosecond)
	}
	for cluster, l := range s.letters {
		switch at := l.at.Add(patience + time.Nanosecond); {
		case !at.After(now): // the cluster is no member any more
			delete(s.letters, cluster)
		case first.IsZero() || at.Before(first):
			first = at
		}
	}
	return first
}

// over is what is known of an object in a cluster: what was seen there, or what was sent and does
// not show yet.
func (o *outbox) over(key types.NamespacedName, cluster string, seen federation.Local, resourceVersion string, now time.Time) federation.Local {
	s := o.lock(key)
	defer o.mu.Unlock()
	l, ok := s.letters[cluster]
	if !ok {
		return seen
	}
	version, _ := strconv.ParseUint(resourceVersion, 10, 64)
	if now.Sub(l.at) > patience || l.version != 0 && version >= l.version {
		delete(s.letters, cluster)
		return seen
	}
	sent := l.local
	sent.Unanswered = l.version == 0
	sent.Normal, sent.Act, sent.FailingSince = seen.Normal, seen.Act, seen.FailingSince
	sent.Outdated, sent.MaxUnavailable, sent.Failing = seen.Outdated, seen.MaxUnavailable, seen.Failing
	return sent
}

// drop forgets what was sent to a cluster that is out of reach.
func (o *outbox) drop(key types.NamespacedName, cluster string) {
	s := o.lock(key)
	defer o.mu.Unlock()
	delete(s.letters, cluster)
}

// take returns the failures since the last call.
func (o *outbox) take(key types.NamespacedName) []federation.Failure {
	s := o.lock(key)
	defer o.mu.Unlock()
	f := s.failures
	s.failures = nil
	return f
}

// put gives failures back that could not be stored.
func (o *outbox) put(key types.NamespacedName, f []federation.Failure) {
	s := o.lock(key)
	defer o.mu.Unlock()
	s.failures = append(f, s.failures...)
}

func (o *outbox) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, key)
}
