package owners

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// keep is how long a controller is remembered; its own controller changes hardly ever.
	keep = 5 * time.Minute
	// keepUnread is how long it is remembered that one does not exist or may not be read.
	keepUnread = 15 * time.Second
	// deepest is how many controllers there may be above one another.
	deepest = 10
	// most is how many are remembered before outdated ones are looked for.
	most = 4096
)

// Owner is a controller of an object.
type Owner struct {
	schema.GroupKind
	Name string
	UID  types.UID
}

// Owners remembers controllers. It is safe for concurrent use.
type Owners struct {
	live  client.Reader
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[types.UID]entry
	sweep int // how many entries there may be until outdated ones are removed
}

// entry is what was read of an object.
type entry struct {
	above *metav1.OwnerReference // its controller; nil if it has none
	err   error                  // why it is not known
	until time.Time
}

// New returns an Owners that reads from the API server through live. The clock is the real one if
// it is nil.
func New(live client.Reader, c clock.PassiveClock) *Owners {
	return &Owners{live: live, clock: cmp.Or[clock.PassiveClock](c, clock.RealClock{}), known: map[types.UID]entry{}, sweep: most}
}

// Of returns the controllers of an object of a namespace, from its own to the topmost. The first one
// is that of the reference. The list ends before a controller whose kind is not served or may not be
// read. An error for which apierrors.IsNotFound holds says that a controller does not exist any more;
// the list has those below it and itself.
func (o *Owners) Of(ctx context.Context, namespace string, ref *metav1.OwnerReference) ([]Owner, error) {
	var list []Owner
	for ref != nil && len(list) < deepest {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			return list, fmt.Errorf("reading the owner reference to %s %s: %w", ref.Kind, ref.Name, err)
		}
		list = append(list, Owner{GroupKind: schema.GroupKind{Group: version.Group, Kind: ref.Kind}, Name: ref.Name, UID: ref.UID})
		e := o.entry(ctx, namespace, version.WithKind(ref.Kind), ref)
		if e.err != nil {
			return list, fmt.Errorf("reading the controller of %s %s/%s: %w", ref.Kind, namespace, ref.Name, e.err)
		}
		ref = e.above
	}
	return list, nil
}

// Known returns what Of would return without asking the API server. It is false if it would have to.
func (o *Owners) Known(ref *metav1.OwnerReference) ([]Owner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []Owner
	for ref != nil && len(list) < deepest {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		e, ok := o.known[ref.UID]
		if err != nil || !ok || !o.clock.Now().Before(e.until) {
			return list, false
		}
		list = append(list, Owner{GroupKind: schema.GroupKind{Group: version.Group, Kind: ref.Kind}, Name: ref.Name, UID: ref.UID})
		ref = e.above
	}
	return list, true
}

func (o *Owners) entry(ctx context.Context, namespace string, kind schema.GroupVersionKind, ref *metav1.OwnerReference) entry {
	now := o.clock.Now()
	o.mu.Lock()
	e, ok := o.known[ref.UID]
	o.mu.Unlock()
	if ok && now.Before(e.until) {
		return e
	}
	e = entry{until: now.Add(keep)}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := o.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, object)
	switch {
	case err == nil && object.UID == ref.UID:
		e.above = metav1.GetControllerOf(object)
	case err == nil:
		e.err, e.until = apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, ref.Name), now.Add(keepUnread)
	case apierrors.IsNotFound(err):
		e.err, e.until = err, now.Add(keepUnread)
	case meta.IsNoMatchError(err) || apierrors.IsForbidden(err):
		e.until = now.Add(keepUnread) // what is above it is not known
	default:
		e.err = err
		return e
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known[ref.UID] = e
	if len(o.known) > o.sweep {
		for uid, old := range o.known {
			if !now.Before(old.until) {
				delete(o.known, uid)
			}
		}
		o.sweep = max(most, 2*len(o.known))
	}
	return e
}
