package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// object is what the API server has.
type object interface {
	metav1.Object
	comparable
}

// client is how objects of one kind are read.
type client[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// source lists and watches the objects that a field selector selects. Each call is reported with how
// it began; one that breaks off later is followed by another.
func source[L runtime.Object](c client[L], selected string, asked func(verb string, err error)) *cache.ListWatch {
	report := func(ctx context.Context, verb string, err error) {
		if ctx.Err() == nil {
			asked(verb, err)
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selected
			all, err := c.List(ctx, o)
			report(ctx, "list", err)
			return all, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selected
			events, err := c.Watch(ctx, o)
			report(ctx, "watch", err)
			return events, err
		},
	}
}

// runReflector keeps a collection up to date until ctx ends.
func runReflector[T object, V comparable](ctx context.Context, client any, source *cache.ListWatch, c *collection[T, V], o cache.ReflectorOptions) {
	var example T // of which the type counts
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, client), example, c, o).RunWithContext(ctx)
}

// collection is what a watch writes to: what is kept of objects, by namespace and name.
type collection[T object, V comparable] struct {
	stripped func(T) T // what is looked at
	kept     func(T) V

	mu      sync.RWMutex
	objects map[types.NamespacedName]V // nil before the first list
	sorted  []V                        // by namespace and name; nil when it must be made again
}

var _ cache.TransformingStore = (*collection[*metav1.PartialObjectMetadata, int])(nil)

// listed reports whether there was a first list.
func (c *collection[T, V]) listed() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objects != nil
}

// list returns what is kept, by namespace and name.
func (c *collection[T, V]) list() []V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		for _, name := range slices.SortedFunc(maps.Keys(c.objects), byName) {
			c.sorted = append(c.sorted, c.objects[name])
		}
	}
	return slices.Clone(c.sorted)
}

func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Transformer lets the watch drop, while it still gathers the first list, what is not looked at. A
// node has 10 to 20 kB otherwise.
func (c *collection[T, V]) Transformer() cache.TransformFunc {
	return func(from any) (any, error) {
		if one, ok := from.(T); ok {
			return c.stripped(one), nil
		}
		return from, nil
	}
}

// Add implements cache.ReflectorStore, as the methods below do.
func (c *collection[T, V]) Add(from any) error { return c.Update(from) }

// Update keeps an object.
func (c *collection[T, V]) Update(from any) error {
	return c.change(from, func(name types.NamespacedName, one T) bool {
		before, known := c.objects[name]
		if now := c.kept(one); !known || before != now {
			c.objects[name] = now
			return true
		}
		return false // most changes of a node are none to us
	})
}

// Delete forgets an object.
func (c *collection[T, V]) Delete(from any) error {
	return c.change(from, func(name types.NamespacedName, _ T) bool {
		delete(c.objects, name)
		return true
	})
}

// Replace keeps these objects and no others.
func (c *collection[T, V]) Replace(all []any, _ string) error {
	next := collection[T, V]{kept: c.kept, objects: make(map[types.NamespacedName]V, len(all))}
	for _, one := range all {
		if err := next.Update(one); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects, c.sorted = next.objects, nil
	return nil
}

// Resync has nothing to do.
func (*collection[T, V]) Resync() error { return nil }

// change makes a change that is about an object, and reports whether there was any.
func (c *collection[T, V]) change(from any, do func(types.NamespacedName, T) bool) error {
	one, ok := from.(T)
	if !ok {
		return fmt.Errorf("watching %T: got a %T", one, from)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects == nil {
		c.objects = map[types.NamespacedName]V{}
	}
	if do(types.NamespacedName{Namespace: one.GetNamespace(), Name: one.GetName()}, one) {
		c.sorted = nil
	}
	return nil
}
