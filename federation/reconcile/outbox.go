package reconcile

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
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

// outbox knows which writes were sent to clusters and do not show yet in what is known of them.
type outbox struct {
	mu       sync.Mutex
	letters  map[types.NamespacedName]map[string]letter // by object and cluster
	shrunk   map[types.NamespacedName]map[string]shrunk // by object and cluster
	failures map[types.NamespacedName][]federation.Failure
	tries    map[types.NamespacedName]int // that failed since the last write that was made
	// results are hashes of the revisions that were written and the templates that the clusters made
	// of them, by object and cluster: an API server drops fields that it does not know.
	results map[types.NamespacedName]map[string][sha256.Size]byte
}

func newOutbox() *outbox {
	return &outbox{
		letters: map[types.NamespacedName]map[string]letter{}, shrunk: map[types.NamespacedName]map[string]shrunk{},
		failures: map[types.NamespacedName][]federation.Failure{}, tries: map[types.NamespacedName]int{},
		results: map[types.NamespacedName]map[string][sha256.Size]byte{},
	}
}

// send notes a write.
func (o *outbox) send(key types.NamespacedName, l letter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shrinks(key, l.write, l.at)
	if o.letters[key] == nil {
		o.letters[key] = map[string]letter{}
	}
	o.letters[key][l.write.Cluster] = l
}

// arrived notes that a write was made.
func (o *outbox) arrived(key types.NamespacedName, w federation.Write, resourceVersion string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.tries, key)
	if l, ok := o.letters[key][w.Cluster]; ok && l.write == w {
		l.version, _ = strconv.ParseUint(resourceVersion, 10, 64)
		o.letters[key][w.Cluster] = l
	}
}

// failed notes that a write was not made, and returns when to try again; that takes longer each time.
func (o *outbox) failed(key types.NamespacedName, f federation.Failure) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l, ok := o.letters[key][f.Write.Cluster]; ok && l.write == f.Write {
		delete(o.letters[key], f.Write.Cluster)
	}
	o.failures[key] = append(o.failures[key], f)
	o.tries[key]++
	return min(lastRetry, firstRetry<<min(o.tries[key]-1, 20))
}

// expires is when the first letter about an object loses its weight, or a smaller number may have;
// zero if there is none. At that time at the latest what is seen counts again.
func (o *outbox) expires(key types.NamespacedName, now time.Time) (first time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for cluster, s := range o.shrunk[key] {
		if now.Sub(s.at) > patience { // the cluster is no member any more, or out of reach
			delete(o.shrunk[key], cluster)
			continue
		}
		first = now.Add(lag + time.Nanosecond)
	}
	for cluster, l := range o.letters[key] {
		switch at := l.at.Add(patience + time.Nanosecond); {
		case !at.After(now): // the cluster is no member any more
			delete(o.letters[key], cluster)
		case first.IsZero() || at.Before(first):
			first = at
		}
	}
	return first
}

// over is what is known of an object in a cluster: what was seen there, or what was sent and does
// not show yet.
func (o *outbox) over(key types.NamespacedName, cluster string, seen federation.Local, resourceVersion string, now time.Time) federation.Local {
	o.mu.Lock()
	defer o.mu.Unlock()
	l, ok := o.letters[key][cluster]
	if !ok {
		return seen
	}
	version, _ := strconv.ParseUint(resourceVersion, 10, 64)
	if now.Sub(l.at) > patience || l.version != 0 && version >= l.version {
		delete(o.letters[key], cluster)
		return seen
	}
	sent := l.local
	sent.Normal, sent.Act, sent.FailingSince = seen.Normal, seen.Act, seen.FailingSince
	sent.Outdated, sent.MaxUnavailable, sent.Failing = seen.Outdated, seen.MaxUnavailable, seen.Failing
	return sent
}

// drop forgets what was sent to a cluster that is out of reach.
func (o *outbox) drop(key types.NamespacedName, cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.letters[key], cluster)
}

// take returns the failures since the last call.
func (o *outbox) take(key types.NamespacedName) []federation.Failure {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.failures[key]
	delete(o.failures, key)
	return f
}

// put gives failures back that could not be stored.
func (o *outbox) put(key types.NamespacedName, f []federation.Failure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures[key] = append(f, o.failures[key]...)
}

func (o *outbox) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.letters, key)
	delete(o.shrunk, key)
	delete(o.failures, key)
	delete(o.tries, key)
	delete(o.results, key)
}

// makes notes what a cluster made of the content that was written.
func (o *outbox) makes(key types.NamespacedName, cluster string, spec *v1alpha1.FederatedReplicaSetSpec, object *unstructured.Unstructured) {
	var template v1.PodTemplateSpec
	content, _, _ := unstructured.NestedMap(object.Object, "spec", "template")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &template) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.results[key] == nil {
		o.results[key] = map[string][sha256.Size]byte{}
	}
	o.results[key][cluster] = resultOf(spec, &template)
}

// made reports whether a template is what a cluster made of the content that was written there.
func (o *outbox) made(key types.NamespacedName, cluster string, spec *v1alpha1.FederatedReplicaSetSpec) func(*v1.PodTemplateSpec) bool {
	return func(template *v1.PodTemplateSpec) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		result, ok := o.results[key][cluster]
		return ok && result == resultOf(spec, template)
	}
}

func resultOf(spec *v1alpha1.FederatedReplicaSetSpec, template *v1.PodTemplateSpec) [sha256.Size]byte {
	text, _ := json.Marshal(template) // it has been JSON
	return sha256.Sum256(append(text, federation.Revision(spec)...))
}
