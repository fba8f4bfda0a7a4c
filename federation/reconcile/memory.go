package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// patience is how long a write may be under way, or its result may not show, until what is read in
// the cluster counts again.
const patience = 30 * time.Second

// sending is a write that is under way, or whose result does not show yet.
type sending struct {
	write federation.Write
	at    time.Time
	local federation.Local // the object as it will be
	// version is the resource version of the object once it is written; empty while the write is under
	// way.
	version string
	// heard is that the pass knows the answer. In one that began before, the content that was written would look like
	// a change that somebody else made.
	heard bool
}

// shows reports whether an object of a version is the one that was written, or a later one.
func (s sending) shows(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, s.version)
	return err == nil && order >= 0 && s.heard
}

// memory is what is remembered of the objects between passes, and by the writes that are made meanwhile. The zero
// value knows of none.
type memory struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*remembered
}

// remembered is what is known of one object, by cluster: the writes that do not show yet, and the sizes that were read.
type remembered struct {
	sent    map[string]sending
	sizes   map[string]*replica.Sizes
	answers []federation.Answer
}

// lock locks the memory, and returns what it knows about an object.
func (m *memory) lock(key types.NamespacedName) *remembered {
	m.mu.Lock()
	if m.objects == nil {
		m.objects = map[types.NamespacedName]*remembered{}
	}
	if m.objects[key] == nil {
		m.objects[key] = &remembered{sent: map[string]sending{}, sizes: map[string]*replica.Sizes{}}
	}
	return m.objects[key]
}

// send notes a write that will be made.
func (m *memory) send(key types.NamespacedName, s sending) {
	r := m.lock(key)
	defer m.mu.Unlock()
	r.sent[s.write.Cluster] = s
}

// answered notes the answer to a write, whether it was made, and the resource version of the object then.
func (m *memory) answered(key types.NamespacedName, a federation.Answer, made bool, version string) {
	r := m.lock(key)
	defer m.mu.Unlock()
	if !made || a.Content != "" {
		r.answers = append(r.answers, a)
	}
	switch s := r.sent[a.Write.Cluster]; {
	case s.write != a.Write: // another one has been sent since
	case made:
		s.version = version
		r.sent[a.Write.Cluster] = s
	default:
		delete(r.sent, a.Write.Cluster)
	}
}

// read is what is known of an object in a cluster: what was found there, or what was sent and does not show
// yet.
func (m *memory) read(key types.NamespacedName, cluster string, found federation.Local, id identity, t *podhealth.Timer) federation.Local {
	r := m.lock(key)
	defer m.mu.Unlock()
	s, unseen := r.sent[cluster]
	if end := s.at.Add(patience); unseen && (t.Now.After(end) || s.shows(id.version)) {
		delete(r.sent, cluster)
		unseen = false
	} else if unseen {
		t.After(end)
		l := found
		found = s.local
		found.Unanswered = s.version == ""
		found.Normal, found.Act, found.FailingSince = l.Normal, l.Act, l.FailingSince
		found.Outdated, found.MaxUnavailable, found.Failing = l.Outdated, l.MaxUnavailable, l.Failing
	}
	if r.sizes[cluster] == nil {
		r.sizes[cluster] = &replica.Sizes{}
	}
	r.sizes[cluster].Read(found.Replicas, func(int32) bool { return id.acted && !unseen }, t.Now)
	found.Staying = r.sizes[cluster].Staying(t)
	return found
}

// drop forgets what was sent to a cluster that is out of reach.
func (m *memory) drop(key types.NamespacedName, cluster string) {
	r := m.lock(key)
	defer m.mu.Unlock()
	delete(r.sent, cluster)
}

// answers are those that are not stored yet. A pass begins with them.
func (m *memory) answers(key types.NamespacedName) []federation.Answer {
	r := m.lock(key)
	defer m.mu.Unlock()
	for cluster, s := range r.sent {
		s.heard = s.version != ""
		r.sent[cluster] = s
	}
	return r.answers
}

// stored notes that so many answers are stored.
func (m *memory) stored(key types.NamespacedName, n int) {
	r := m.lock(key)
	defer m.mu.Unlock()
	r.answers = r.answers[n:]
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}
