package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// readyPods knows which pods of all members are ready, and how few ever were at the same time.
type readyPods struct {
	mu     sync.Mutex
	ready  map[string]bool // by member and path
	fewest int
}

// begin forgets how few were ready.
func (p *readyPods) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fewest = len(p.ready)
}

// least is how few were ready since begin.
func (p *readyPods) least() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fewest
}

func (p *readyPods) see(member, path string, o *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.GetDeletionTimestamp() == nil && isReady(o) {
		p.ready[member+path] = true
	} else {
		delete(p.ready, member+path)
	}
	p.fewest = min(p.fewest, len(p.ready))
}

func isReady(pod *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// slow is a member whose controllers act when the test says so.
type slow struct {
	*server
	pods int // that were ever created
}

// slowed has the controllers of a member wait.
func slowed(s *server, ready *readyPods) *slow {
	s.stored = func(_ *server, path string, o *unstructured.Unstructured) {
		if strings.Contains(path, "/pods/") {
			ready.see(s.URL, path, o)
		}
	}
	return &slow{server: s}
}

// asked is how many replicas the member is asked for.
func (m *slow) asked() int {
	o := m.get(local)
	if o == nil {
		return 0
	}
	n, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
	return int(number(n))
}

// act creates the pods that are missing, which are ready at once, or deletes those that are too many.
// Then the controllers say that they have acted, if that is what they are asked for.
func (m *slow) act(size int) {
	asked := m.asked()
	m.mu.Lock()
	defer m.mu.Unlock()
	var there []string
	for path := range m.objects {
		if strings.Contains(path, "/pods/") {
			there = append(there, path)
		}
	}
	for _, path := range there[:max(0, len(there)-size)] {
		gone := m.objects[path].DeepCopy()
		gone.SetDeletionTimestamp(new(metav1.Now()))
		m.store(path, gone)
	}
	for range size - len(there) {
		m.pods++
		m.store(fmt.Sprintf("/api/v1/namespaces/shop/pods/web-%d", m.pods),
			&unstructured.Unstructured{Object: podOf(m.objects[local], m.pods, true)})
	}
	if size == asked {
		m.observed(local)
	}
}

// weigh gives the clusters weights.
func (f *fleet) weigh(weights map[string]int32) {
	clusters := map[string]any{}
	for name, weight := range weights {
		clusters[name] = map[string]any{"weight": int64(weight)}
	}
	f.host.change(frs, func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, clusters, "spec", "preferences", "clusters")
	})
}

// A cluster gets fewer replicas, and more again before its controllers have deleted a pod. As long as
// they may still do that, nothing leaves elsewhere in place of those pods.
func TestMoreAgainBeforePodsAreDeleted(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"both numbers are acted on": true, "the smaller number is never seen": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, pods := newFleet(t, "a", "b"), &readyPods{ready: map[string]bool{}}
			a, b := slowed(f.members["a"], pods), slowed(f.members["b"], pods)
			f.start()
			f.ask(20)
			f.until("at 10 10", func() bool { return f.sizes() == "10 10" })
			a.act(10)
			b.act(10)
			f.settled("10 10")
			pods.begin()
			f.weigh(map[string]int32{"a": 1, "b": 3})
			f.until("at 10 15", func() bool { return f.sizes() == "10 15" })
			b.act(15)
			f.until("at 5 15", func() bool { return f.sizes() == "5 15" })
			f.weigh(map[string]int32{"a": 1, "b": 1})
			f.until("at 10 15", func() bool { return f.sizes() == "10 15" })
			f.weigh(map[string]int32{"a": 2, "b": 2}) // for another pass
			f.until("passed over", func() bool { set := f.get(); return set.Status.ObservedGeneration == set.Generation })
			if got := f.get().Status.Clusters[1].Written; got != 15 {
				t.Errorf("b is asked for %d, want 15", got)
			}
			if seen {
				a.act(5)
			}
			a.act(10)
			f.until("at 10 10", func() bool { return f.sizes() == "10 10" })
			b.act(10)
			f.settled("10 10")
			if least := pods.least(); least < 20 {
				t.Errorf("20 pods were ready, then %d", least)
			}
		})
	}
}
