package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrlqueue "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/federation/members"
)

var shop = types.NamespacedName{Namespace: "shop", Name: "web"}

// inQueues plays with a started controller on each kind of queue that a manager may give it, in
// virtual time.
func inQueues(t *testing.T, play func(*testing.T, *Controller, queue)) {
	limiter := func() workqueue.TypedRateLimiter[reconcile.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
	}
	for name, open := range map[string]func() queue{
		"work queue": func() queue { return workqueue.NewTypedRateLimitingQueue(limiter()) },
		"priority queue": func() queue {
			return ctrlqueue.New(t.Name(), func(o *ctrlqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open()
				c := New(members.New(members.Options{}), Options{})
				c.soon(shop, 0) // before the start there is no queue, and the start passes over all objects
				if err := c.attach(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				play(t, c, q)
				q.ShutDown()
			})
		})
	}
}

// GR: of several delays for one object the shortest wins, and they make one pass.
func TestGRShortestDelayWins(t *testing.T) {
	inQueues(t, func(t *testing.T, c *Controller, q queue) {
		begin := time.Now()
		for _, delay := range []time.Duration{time.Minute, settle, time.Hour} {
			c.soon(shop, delay)
		}
		request, _ := q.Get()
		if took := time.Since(begin); took < settle || took > 2*settle || request.NamespacedName != shop {
			t.Errorf("%v after %v", request, took)
		}
		q.Done(request)
	})
}

// GR: never two passes over one object at a time; what happens during a pass leads to another one
// after it. Other objects do not wait.
func TestGROneWorkerPerObject(t *testing.T) {
	inQueues(t, func(t *testing.T, c *Controller, q queue) {
		other := types.NamespacedName{Namespace: "shop", Name: "other"}
		c.soon(shop, 0)
		first, _ := q.Get()
		c.soon(shop, 0)
		c.soon(other, settle)
		second, _ := q.Get()
		if first.NamespacedName != shop || second.NamespacedName != other {
			t.Fatalf("%v, then %v", first, second)
		}
		q.Done(second)
		q.Done(first)
		again, _ := q.Get()
		if again.NamespacedName != shop {
			t.Errorf("then %v", again)
		}
		q.Done(again)
	})
}
