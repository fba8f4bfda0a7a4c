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
)

// DefaultPollInterval is the default of WatcherOptions.PollInterval.
const DefaultPollInterval = 15 * time.Second

// Target is an object that was seen by a Watcher.
type Target struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// WatcherOptions of a Watcher. The zero value watches all namespaces and tells nobody.
type WatcherOptions struct {
	// Changed is told of every object of a watched resource that was there at first, was created, deleted or replaced,
	// or whose specification changed; status alone does not count. It is called by one goroutine per watch and must be
	// quick.
	Changed func(Target)
	// PerNamespace has each namespace watched by itself, for a program that may not watch all of them at once.
	PerNamespace bool
	// PollInterval is what Watch answers where there is no watch. 0 means DefaultPollInterval.
	PollInterval time.Duration
	// Log is told when a watch is refused and when it is granted. The zero value tells nobody.
	Log logr.Logger
}

// Watcher watches resources that are not known beforehand. A watch, once begun, lasts as long as the Watcher.
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

// NewWatcher makes a Watcher of the API server that config reaches. It watches nothing before Start.
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
	o.PollInterval = cmp.Or(o.PollInterval, DefaultPollInterval)
	if o.Changed == nil {
		o.Changed = func(Target) {}
	}
	return &Watcher{client: client, options: o, watches: map[scope]*observer{}}
}

// Start watches until ctx is done, and returns when nothing runs any more. It may be called once.
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

// end has nothing launched any more.
func (w *Watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = nil
}

// Watch has a resource watched in a namespace from now on, and tells how long the caller may wait before it looks at the
// objects by itself: 0 if it may wait for Changed, the poll interval if there is no watch, or not yet. When a watch is
// lost for good Changed is told of all that it saw, so that who asks again then misses nothing.
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
		return w.options.PollInterval
	}
	if o.watching() {
		return 0
	}
	return w.options.PollInterval
}

// launch runs an observer, if the Watcher runs. The caller holds the lock.
func (w *Watcher) launch(o *observer) {
	if w.ctx == nil {
		return
	}
	ctx := logr.NewContext(w.ctx, o.log.V(4)) // what the informer says is of no use but to find faults
	w.running.Go(func() { o.informer.RunWithContext(ctx) })
}

// observer is one watch.
type observer struct {
	scope    scope
	informer cache.SharedIndexInformer
	changed  func(Target)
	log      logr.Logger

	mu      sync.Mutex
	refused error // why there is no watch; nil if there is one or its outcome is open
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
	_ = o.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // outcome has told
	_, _ = o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    o.tell,
		DeleteFunc: o.tell,
		UpdateFunc: func(before, after any) {
			if differ(before, after) {
				o.tell(after)
			}
		},
	})
	return o
}

// watching tells whether changes are told.
func (o *observer) watching() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused == nil && o.informer.HasSynced()
}

// outcome takes in how a list or watch went. An API server that does not answer changes nothing: the informer catches up
// once it does, and to poll would be of no use.
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
		o.log.Info("Can not watch, objects are polled", "reason", err.Error())
		for _, object := range o.informer.GetStore().List() {
			o.tell(object)
		}
	case before != nil && err == nil:
		o.log.Info("Watching, objects are not polled any more")
	}
}

func (o *observer) tell(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		o.changed(Target{Resource: o.scope.resource, Namespace: m.Namespace, Name: m.Name})
	}
}

// differ tells whether more than the status of an object may have changed. Not every API counts generations.
func differ(before, after any) bool {
	a, ok := before.(*metav1.PartialObjectMetadata)
	b, okay := after.(*metav1.PartialObjectMetadata)
	if !ok || !okay {
		return false
	}
	return a.UID != b.UID || a.Generation != b.Generation || b.Generation == 0 && a.ResourceVersion != b.ResourceVersion ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero()
}

// strip keeps what is looked at: there may be many objects, and their labels and annotations large.
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
