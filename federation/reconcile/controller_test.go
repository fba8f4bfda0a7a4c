package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrlqueue "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

var shop = types.NamespacedName{Namespace: "shop", Name: "web"}

// inQueues plays with a started controller on each kind of queue that a manager may give it, in
// virtual time.
func inQueues(t *testing.T, play func(*testing.T, *Controller, passes.Queue)) {
	limiter := func() workqueue.TypedRateLimiter[reconcile.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](passes.FirstRetry, passes.LastRetry)
	}
	for name, open := range map[string]func() passes.Queue{
		"work queue": func() passes.Queue { return workqueue.NewTypedRateLimitingQueue(limiter()) },
		"priority queue": func() passes.Queue {
			return ctrlqueue.New(t.Name(), func(o *ctrlqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open()
				c := New(members.New(members.Options{}), Options{})
				c.triggers.Pass(shop, 0) // before the start there is no queue, and the start passes over all objects
				if err := c.triggers.Attach(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				play(t, c, q)
				q.ShutDown()
			})
		})
	}
}

// An object that is new or has another spec or other annotations is passed over at once; a status
// that was stored is not a reason.
func TestObjectsAreCheckedAtOnce(t *testing.T) {
	before := web()
	before.Generation = 1
	update := func(change func(*v1alpha1.FederatedReplicaSet)) bool {
		after := before.DeepCopy()
		change(after)
		return changed().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	if !changed().Create(event.CreateEvent{Object: before}) || !changed().Delete(event.DeleteEvent{Object: before}) ||
		!update(func(f *v1alpha1.FederatedReplicaSet) { f.Generation++ }) ||
		!update(func(f *v1alpha1.FederatedReplicaSet) { f.Annotations = map[string]string{"a": "b"} }) {
		t.Error("a change does not lead to a pass")
	}
	if update(func(f *v1alpha1.FederatedReplicaSet) { f.Status.Replicas++ }) {
		t.Error("a status leads to a pass")
	}
}

// A changed local object, and changed pods, are passed over a moment later, once.
func TestLocalObjectsAreCheckedSoon(t *testing.T) {
	inQueues(t, func(t *testing.T, c *Controller, q passes.Queue) {
		begin := time.Now()
		for range 100 {
			c.handler(nil)("a", &members.Local{Kind: members.ReplicaSet, Namespace: shop.Namespace, Name: shop.Name})
		}
		request, _ := q.Get()
		if took := time.Since(begin); took < passes.ChangeDelay || took > 2*passes.ChangeDelay || request.NamespacedName != shop {
			t.Errorf("%v after %v", request, took)
		}
		q.Done(request)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual
		if q.Len() != 0 {
			t.Errorf("%d more", q.Len())
		}
	})
}

// A cluster that comes, goes or changes leads to a pass over every object at once.
func TestClustersCheckEverything(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, name := range []string{"a", "b", "c"} {
		f := web()
		f.Name = name
		objects = append(objects, f)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	inQueues(t, func(t *testing.T, c *Controller, q passes.Queue) {
		begin := time.Now()
		c.handler(reader)("a", nil)
		for range objects {
			request, _ := q.Get()
			q.Done(request)
		}
		if took := time.Since(begin); took > passes.ChangeDelay/2 {
			t.Errorf("after %v", took)
		}
	})
}

// Of several delays for one object the shortest wins, and they make one pass.
func TestShortestDelayWins(t *testing.T) {
	inQueues(t, func(t *testing.T, c *Controller, q passes.Queue) {
		begin := time.Now()
		for _, delay := range []time.Duration{time.Minute, passes.ChangeDelay, time.Hour} {
			c.triggers.Pass(shop, delay)
		}
		request, _ := q.Get()
		if took := time.Since(begin); took < passes.ChangeDelay || took > 2*passes.ChangeDelay || request.NamespacedName != shop {
			t.Errorf("%v after %v", request, took)
		}
		q.Done(request)
	})
}

// Never two passes over one object at a time; what happens during a pass leads to another one
// after it. Other objects do not wait.
func TestOneWorkerPerObject(t *testing.T) {
	inQueues(t, func(t *testing.T, c *Controller, q passes.Queue) {
		other := types.NamespacedName{Namespace: "shop", Name: "other"}
		c.triggers.Pass(shop, 0)
		first, _ := q.Get()
		c.triggers.Pass(shop, 0)
		c.triggers.Pass(other, passes.ChangeDelay)
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
