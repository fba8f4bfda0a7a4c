package owners

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
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
	known map[identity]entry
	sweep int // how many entries there may be until outdated ones are removed
}

// identity is which object a reference of a namespace is to. Anyone who creates a pod writes its reference,
// so nothing of it is taken for that of another object: neither the name nor the UID alone.
type identity struct {
	namespace, apiVersion, kind, name string
	uid                               types.UID
}

func identified(namespace string, ref *metav1.OwnerReference) identity {
	return identity{namespace, ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

// entry is what was read of an object.
type entry struct {
	found bool                   // it exists; if not, and there is no error, it may not be read
	above *metav1.OwnerReference // its controller; nil if it has none
	err   error                  // why it is not known
	until time.Time
}

// New returns an Owners that reads from the API server through live. The clock is the real one if
// it is nil.
func New(live client.Reader, c clock.PassiveClock) *Owners {
	return &Owners{live: live, clock: cmp.Or[clock.PassiveClock](c, clock.RealClock{}), known: map[identity]entry{}, sweep: most}
}

// Of returns the controllers of an object of a namespace, from its own to the topmost. The first one
// is that of the reference. Each was read, and has the UID of the reference to it. The list ends before one
// whose kind is not served or may not be read. An error for which apierrors.IsNotFound holds says that a
// controller does not exist; the list has those below it.
func (o *Owners) Of(ctx context.Context, namespace string, ref *metav1.OwnerReference) ([]Owner, error) {
	var list []Owner
	for ref != nil && len(list) < deepest {
		e := o.entry(ctx, namespace, ref)
		if e.err != nil {
			return list, fmt.Errorf("reading the controller %s %s/%s: %w", ref.Kind, namespace, ref.Name, e.err)
		}
		if !e.found {
			break
		}
		list, ref = append(list, ownerOf(ref)), e.above
	}
	return list, nil
}

func ownerOf(ref *metav1.OwnerReference) Owner {
	return Owner{GroupKind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), Name: ref.Name, UID: ref.UID}
}

// Known returns what Of would return without asking the API server. It is false if it would have to.
func (o *Owners) Known(namespace string, ref *metav1.OwnerReference) ([]Owner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []Owner
	for ref != nil && len(list) < deepest {
		e, ok := o.known[identified(namespace, ref)]
		if !ok || !o.clock.Now().Before(e.until) {
			return list, false
		}
		if !e.found {
			break
		}
		list, ref = append(list, ownerOf(ref)), e.above
	}
	return list, true
}

func (o *Owners) entry(ctx context.Context, namespace string, ref *metav1.OwnerReference) entry {
	now, id := o.clock.Now(), identified(namespace, ref)
	o.mu.Lock()
	e, ok := o.known[id]
	o.mu.Unlock()
	if ok && now.Before(e.until) {
		return e
	}
	e = entry{until: now.Add(keep)}
	object := &metav1.PartialObjectMetadata{}
	object.APIVersion, object.Kind = ref.APIVersion, ref.Kind
	err := o.read(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, object)
	switch {
	case err == nil && object.UID == ref.UID:
		e.found, e.above = true, metav1.GetControllerOf(object)
	case err == nil:
		e.err, e.until = apierrors.NewNotFound(schema.GroupResource{Group: ownerOf(ref).Group, Resource: ref.Kind}, ref.Name), now.Add(keepUnread)
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
	o.known[id] = e
	if len(o.known) > o.sweep {
		for id, old := range o.known {
			if !now.Before(old.until) {
				delete(o.known, id)
			}
		}
		o.sweep = max(most, 2*len(o.known))
	}
	return e
}

// read reads an object. The API server takes any text for the name of a controller, and the client for metadata puts the name
// into a path as it is: with a name such as "../../pods" it would read something else, with the rights of evenkeel.
func (o *Owners) read(ctx context.Context, key types.NamespacedName, into *metav1.PartialObjectMetadata) error {
	if len(content.IsPathSegmentName(key.Name)) > 0 {
		gk := into.GroupVersionKind().GroupKind()
		return apierrors.NewNotFound(schema.GroupResource{Group: gk.Group, Resource: gk.Kind}, key.Name)
	}
	return o.live.Get(ctx, key, into)
}
