package members

import (
	"context"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Change writes to a cluster.
type Change func(context.Context, client.Client)

// changes are what waits to be written to one cluster. Each cluster has workers of its own, so that
// one that hangs holds up no other.
type changes struct {
	mu      sync.Mutex
	waiting map[string]Change // by key
	order   []string          // of the keys that wait
	running map[string]bool   // by key
	workers sync.WaitGroup
	active  int
}

// Do makes a change in the background, and returns at once. Of several changes with one key only
// the last that waits is made, and no two at a time. A change is dropped if the cluster does not
// answer when its turn comes: what must change is then decided anew when the cluster returns.
func (c *Cluster) Do(ctx context.Context, key string, change Change) {
	q := &c.changes
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting, q.running = map[string]Change{}, map[string]bool{}
	}
	if q.waiting[key] == nil {
		q.order = append(q.order, key)
	}
	q.waiting[key] = change
	if q.active < c.options.Writers && !q.running[key] {
		q.active++
		q.workers.Go(func() { c.work(ctx) })
	}
}

// work makes changes until none waits.
func (c *Cluster) work(ctx context.Context) {
	q := &c.changes
	for {
		key, change := q.take()
		if change == nil {
			return
		}
		if w, err := c.Client(); err == nil && ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, c.options.CallTimeout)
			change(limited, w)
			cancel()
		}
		q.done(key)
	}
}

// take returns the change that waits longest, of those whose key is free. Without one the worker
// ends.
func (q *changes) take() (string, Change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.order, func(key string) bool { return !q.running[key] })
	if at < 0 {
		q.active--
		return "", nil
	}
	key := q.order[at]
	change := q.waiting[key]
	q.order = slices.Delete(q.order, at, at+1)
	delete(q.waiting, key)
	q.running[key] = true
	return key, change
}

// depth is how many changes wait.
func (q *changes) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *changes) done(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, key)
}

// wait waits until no change is under way.
func (q *changes) wait() { q.workers.Wait() }
