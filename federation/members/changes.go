package members

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writers is how many changes of a cluster are under way at the same time.
const writers = 8

// writeTimeout is how long a change may take: longer than an API server waits for a webhook by default,
// so that its answer says which one is dead.
const writeTimeout = 25 * time.Second

// Change writes to a cluster.
type Change func(context.Context, client.Client)

// changes are what waits to be written to one cluster. Each cluster has workers of its own, so that
// one that hangs holds up no other.
type changes struct {
	keys    *workqueue.Typed[string] // of what waits
	begin   sync.Once
	workers sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]Change // by key
}

// Do makes a change in the background, and returns at once. Of several changes with one key only
// the last that waits is made, and no two at a time. A change is dropped if the cluster does not
// answer when its turn comes: what must change is then decided anew when the cluster returns.
func (c *Cluster) Do(ctx context.Context, key string, change Change) {
	q := &c.changes
	q.begin.Do(func() {
		for range writers {
			q.workers.Go(func() { c.work(ctx) })
		}
	})
	c.swap(key, change)
	q.keys.Add(key)
}

// work makes changes until the cluster is closed.
func (c *Cluster) work(ctx context.Context) {
	for key, shut := c.changes.keys.Get(); !shut; key, shut = c.changes.keys.Get() {
		change := c.swap(key, nil)
		if w, err := c.Client(); change != nil && err == nil && ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, max(writeTimeout, c.options.CallTimeout))
			change(limited, w)
			cancel()
		}
		c.changes.keys.Done(key)
	}
}

// swap replaces the change that waits; nil means none.
func (c *Cluster) swap(key string, change Change) (before Change) {
	q := &c.changes
	q.mu.Lock()
	defer q.mu.Unlock()
	before = q.waiting[key]
	q.waiting[key] = change
	if change == nil {
		delete(q.waiting, key)
	}
	if !q.keys.ShuttingDown() { // then the metrics of the cluster are gone
		c.options.Metrics.waiting.WithLabelValues(c.name).Set(float64(len(q.waiting)))
	}
	return before
}

// end drops what waits, and returns when no change is under way.
func (q *changes) end() {
	q.keys.ShutDown()
	q.workers.Wait()
}
