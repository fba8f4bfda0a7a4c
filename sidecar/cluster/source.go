package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

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
