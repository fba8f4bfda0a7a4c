package scale

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// PollInterval is how often what cannot be watched must be polled.
const PollInterval = 15 * time.Second

// Target is an object of a watched resource.
type Target struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// WatcherOptions are the options of a Watcher. The zero value watches all namespaces and reports no
// changes.
type WatcherOptions struct {
	// Changed is called for every object of a watched resource that exists when the watch begins,
	// that is created, deleted or replaced, or whose specification changes. Changes of the status
	// do not count. One goroutine per watch calls it; it must return quickly.
	Changed func(Target)
	// PerNamespace watches each namespace by itself, for a program that may not watch all of them
	// at once.
	PerNamespace bool
	// Log is for watches that are refused, and granted later. The zero value logs nothing.
	Log logr.Logger
}

// Watcher watches resources that are not known beforehand. A watch ends with the Watcher.
type Watcher struct {
	client  metadata.Interface
	options WatcherOptions

	mu      sync.Mutex
	ctx     context.Context // nil before Start and after the end
	watches map[scope]*observer
	running sync.WaitGroup
}

// scope is what one watch covers.
type scope struct {
	resource  schema.GroupVersionResource
	namespace string // empty means all
}

// NewWatcher returns a Watcher for the API server of config. It watches nothing before Start.
func NewWatcher(config *rest.Config, o WatcherOptions) (*Watcher, error) {
	config = metadata.ConfigFor(config)
	config.QPS = -1 // a watch slows down by itself when it fails
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for metadata: %w", err)
	}
	return newWatcher(client, o), nil
}

func newWatcher(client metadata.Interface, o WatcherOptions) *Watcher {
	if o.Changed == nil {
		o.Changed = func(Target) {}
	}
	return &Watcher{client: client, options: o, watches: map[scope]*observer{}}
}

// Start watches until ctx is done, and returns when all watches have ended. It may be called once.
func (w *Watcher) Start(ctx context.Context) error {
	w.mu.Lock()
	w.ctx = ctx
	for _, o := range w.watches {
		w.launch(o)
	}
	w.mu.Unlock()
	<-ctx.Done()
	w.end()
	w.running.Wait()
	return nil
}

// end prevents further launches.
func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = nil
}

// Watch watches a resource in a namespace from now on. It returns how long the caller may wait
// until it polls the objects: 0 if Changed will be called, PollInterval if there is no watch,
// or not yet. When a watch is refused later, Changed is called for all objects that it had, so that
// callers learn that they must poll.
func (w *Watcher) Watch(resource schema.GroupVersionResource, namespace string) time.Duration {
	key := scope{resource: resource}
	if w.options.PerNamespace {
		key.namespace = namespace
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o, known := w.watches[key]
	if !known {
		o = w.observe(key)
		w.watches[key] = o
		w.launch(o)
		return PollInterval
	}
	if o.watching() {
		return 0
	}
	return PollInterval
}

// launch runs an observer, if the Watcher runs. The caller holds the lock.
func (w *Watcher) launch(o *observer) {
	if w.ctx == nil {
		return
	}
	ctx := logr.NewContext(w.ctx, o.log.V(4)) // the informer's messages help only with debugging
	w.running.Go(func() { o.informer.RunWithContext(ctx) })
}

// observer is one watch.
type observer struct {
	scope    scope
	informer cache.SharedIndexInformer
	changed  func(Target)
	log      logr.Logger

	mu      sync.Mutex
	refused error // why there is no watch; nil if there is one, or if that is not known yet
}

func (w *Watcher) observe(s scope) *observer {
	o := &observer{
		scope: s, changed: w.options.Changed,
		log: w.options.Log.WithValues("resource", s.resource.String(), "namespace", s.namespace),
	}
	objects := w.client.Resource(s.resource).Namespace(s.namespace)
	o.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, options)
			if err != nil {
				o.outcome(err)
				return nil, err
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := objects.Watch(ctx, options)
			o.outcome(err)
			return events, err
		},
	}, w.client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// None of these fails before the informer runs.
	_ = o.informer.SetTransform(strip)
	_ = o.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // see outcome
	_, _ = o.informer.AddEventHandler(passes.Follow(func(before, now *metav1.PartialObjectMetadata) {
		if before == nil || now == nil || differ(before, now) {
			o.notify(cmp.Or(now, before))
		}
	}))
	return o
}

// watching reports whether Changed is called for changes.
func (o *observer) watching() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused == nil && o.informer.HasSynced()
}

// outcome processes the result of a list or watch. An API server that does not answer changes
// nothing: the informer catches up later, and polling would not help.
func (o *observer) outcome(err error) {
	refusal := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
	if err != nil && !refusal {
		return
	}
	o.mu.Lock()
	before := o.refused
	o.refused = err
	o.mu.Unlock()
	switch {
	case before == nil && err != nil:
		o.log.Info("Cannot watch, objects are polled", "reason", err.Error())
		for _, object := range o.informer.GetStore().List() {
			o.notify(object)
		}
	case before != nil && err == nil:
		o.log.Info("Watching, objects are no longer polled")
	}
}

func (o *observer) notify(object any) {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		o.changed(Target{Resource: o.scope.resource, Namespace: m.Namespace, Name: m.Name})
	}
}

// differ reports whether more than the status of an object may have changed. Not every API sets
// generations.
func differ(a, b *metav1.PartialObjectMetadata) bool {
	return a.UID != b.UID || a.Generation != b.Generation || b.Generation == 0 && a.ResourceVersion != b.ResourceVersion ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero()
}

// strip keeps what differ and notify read: there may be many objects, with large labels and
// annotations.
func strip(object any) (any, error) {
	m, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Generation: m.Generation, DeletionTimestamp: m.DeletionTimestamp,
	}}, nil
}
