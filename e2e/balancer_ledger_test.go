package e2e

import (
	"context"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A ledger follows the pods of a namespace, every change of them, and knows the fewest that ran at a time.
type ledger struct {
	mu      sync.Mutex
	running map[types.UID]bool
	fewest  int
}

// follow follows a namespace until the test ends.
func follow(ctx context.Context, t *testing.T, w *balancerWorld, namespace string) *ledger {
	t.Helper()
	l := &ledger{running: map[types.UID]bool{}}
	events, err := w.Watch(ctx, &v1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if pod, ok := e.Object.(*v1.Pod); ok {
				l.see(pod, e.Type != watch.Deleted && runs(pod))
			}
		}
	}()
	t.Cleanup(func() { events.Stop(); <-done })
	return l
}

func (l *ledger) see(pod *v1.Pod, runs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if runs {
		l.running[pod.UID] = true
	} else {
		delete(l.running, pod.UID)
	}
	l.fewest = min(l.fewest, len(l.running))
}

// begin begins a new count.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fewest = len(l.running)
}

// now is how many pods run.
func (l *ledger) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}

// neverFewer checks that there never were fewer pods that run since the last change.
func (s *shop) neverFewer(t *testing.T, when string, than int) {
	t.Helper()
	s.pods.mu.Lock()
	defer s.pods.mu.Unlock()
	if s.pods.fewest < than {
		t.Errorf("%s: %d pods ran for a while, wanted no fewer than %d", when, s.pods.fewest, than)
	}
}
