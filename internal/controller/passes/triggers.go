package passes

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Queue takes requests for passes over objects. Of several requests for one object the earliest counts.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Request is that of a pass over an object.
func Request(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

// Triggers requests passes for what the manager does not watch. The zero value requests none before the
// controller starts that has its Source.
type Triggers struct {
	mu    sync.Mutex
	ctx   context.Context
	queue Queue
}

// Source hands over the queue of a controller.
func (t *Triggers) Source() source.Source { return source.Func(t.Attach) }

// Attach is what the Source does when the controller starts.
func (t *Triggers) Attach(ctx context.Context, q Queue) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.queue = ctx, q
	return nil
}

// Context ends with the controller; nil before it starts.
func (t *Triggers) Context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ctx
}

// Pass requests a pass over an object after a delay.
func (t *Triggers) Pass(key types.NamespacedName, delay time.Duration) {
	t.mu.Lock()
	q := t.queue
	t.mu.Unlock()
	if q != nil {
		q.AddAfter(reconcile.Request{NamespacedName: key}, delay)
	}
}

// Enqueue requests the passes that follow from an object.
type Enqueue[T client.Object] func(ctx context.Context, o T, q Queue)

// When has passes requested for objects that are new or gone, and for what an object is after a change that
// matters.
func When[T client.Object](matters func(before, after T) bool, enqueue Enqueue[T]) handler.EventHandler {
	return Handler(enqueue, func(ctx context.Context, before, after T, q Queue) {
		if matters(before, after) {
			enqueue(ctx, after, q)
		}
	})
}

// Each has passes requested for objects that are new or gone, and for what an object is before and after a
// change.
func Each[T client.Object](enqueue Enqueue[T]) handler.EventHandler {
	return Handler(enqueue, func(ctx context.Context, before, after T, q Queue) {
		enqueue(ctx, before, q)
		enqueue(ctx, after, q)
	})
}

// Handler has passes requested for objects that are new or gone, and for a change.
func Handler[T client.Object](one Enqueue[T], change func(ctx context.Context, before, after T, q Queue)) handler.EventHandler {
	some := func(ctx context.Context, o client.Object, q Queue) {
		if object, ok := o.(T); ok {
			one(ctx, object, q)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q Queue) { some(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q Queue) { some(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) {
			before, ok := e.ObjectOld.(T)
			after, okay := e.ObjectNew.(T)
			if ok && okay {
				change(ctx, before, after, q)
			}
		},
	}
}
