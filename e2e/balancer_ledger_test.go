package e2e

import (
	"context"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A ledger follows the pods and Balancers of a namespace, every change of them. It knows the fewest
// pods that ran at a time, and how often the status of a Balancer changed.
type ledger struct {
	mu          sync.Mutex
	running     map[types.UID]bool
	fewest      int
	generations map[string]int64 // of the Balancers, by name
	statuses    map[string]int   // changes of their status
}

// follow follows a namespace until the test ends.
func follow(ctx context.Context, t *testing.T, w *balancerCluster, namespace string) *ledger {
	t.Helper()
	l := &ledger{running: map[types.UID]bool{}, generations: map[string]int64{}, statuses: map[string]int{}}
	for _, list := range []client.ObjectList{&v1.PodList{}, &v1alpha1.BalancerList{}} {
		followAll(ctx, t, w, namespace, list, l.see)
	}
	return l
}

// followAll reports every change in a namespace until the test ends, restarts of the API server
// notwithstanding.
func followAll(ctx context.Context, t *testing.T, c client.WithWatch, namespace string, list client.ObjectList, see func(watch.Event)) {
	t.Helper()
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	events, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, &client.ListOptions{Namespace: namespace, Raw: &o})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			see(e)
		}
	}()
	t.Cleanup(func() { events.Stop(); <-done })
}

func (l *ledger) see(e watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o := e.Object.(type) {
	case *v1.Pod:
		if e.Type != watch.Deleted && runs(o) {
			l.running[o.UID] = true
		} else {
			delete(l.running, o.UID)
		}
		l.fewest = min(l.fewest, len(l.running))
	case *v1alpha1.Balancer:
		if l.generations[o.Name] == o.Generation {
			l.statuses[o.Name]++ // nothing else of it changes
		}
		l.generations[o.Name] = o.Generation
	}
}

// begin begins new counts.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fewest = len(l.running)
	clear(l.statuses)
}

// now is how many pods run.
func (l *ledger) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}

// told is how often the status of a Balancer changed since the last change.
func (l *ledger) told(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.statuses[name]
}

// neverFewer checks that there never were fewer pods that run since the last change.
func (s *shop) neverFewer(t *testing.T, when string, than int) {
	t.Helper()
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if s.ledger.fewest < than {
		t.Errorf("%s: %d pods ran for a while, wanted no fewer than %d", when, s.ledger.fewest, than)
	}
}
