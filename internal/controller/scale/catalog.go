package scale

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// catalog holds which resources the API server serves, as of the last discovery.
type catalog struct {
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	interval  time.Duration
	clock     clock.PassiveClock

	mu        sync.Mutex
	refreshed time.Time // when the catalog was last dropped
}

func newCatalog(found discovery.DiscoveryInterface, o Options) *catalog {
	c := &catalog{
		discovery: memory.NewMemCacheClient(found),
		interval:  cmp.Or(o.RefreshInterval, DefaultRefreshInterval),
		clock:     cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{}),
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	return c
}

// resolve finds the resource of a reference. If it is unknown, resolve looks again after a refresh,
// or after an attempt that the interval did not allow: another caller may have refreshed the
// catalog meanwhile.
func (c *catalog) resolve(ref v1alpha1.ScaleTargetReference) (schema.GroupVersionResource, *Error) {
	resource, err := c.find(ref)
	if err != nil && (err.Reason == ReasonUnknownKind || err.Reason == ReasonNoScale) {
		c.refresh()
		return c.find(ref)
	}
	return resource, err
}

// refresh drops the catalog, at most once per interval.
func (c *catalog) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); c.refreshed.IsZero() || now.Sub(c.refreshed) >= c.interval {
		c.refreshed = now
		c.mapper.Reset()
	}
}

func (c *catalog) find(ref v1alpha1.ScaleTargetReference) (schema.GroupVersionResource, *Error) {
	kind, versions, wrong := parse(ref)
	if wrong != nil {
		return schema.GroupVersionResource{}, wrong
	}
	mapping, err := c.mapper.RESTMapping(kind, versions...)
	if err != nil {
		if len(versions) > 0 && meta.IsNoMatchError(err) { // or is the group unavailable now?
			if _, group := c.discovery.ServerResourcesForGroupVersion(ref.APIVersion); group != nil {
				err = group
			}
		}
		return schema.GroupVersionResource{}, unknown(ref, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return schema.GroupVersionResource{}, invalid(ref, errors.New("objects of this kind are not namespaced"))
	}
	// The version asked for is served. The preferred version is used: it has the Scale, and one
	// watch is enough for all versions.
	resource, err := c.mapper.ResourceFor(mapping.Resource.GroupResource().WithVersion(""))
	if err != nil {
		return schema.GroupVersionResource{}, unknown(ref, err)
	}
	list, err := c.discovery.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if err != nil {
		return schema.GroupVersionResource{}, unknown(ref, err)
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource+"/scale" }) {
		return schema.GroupVersionResource{}, &Error{
			Reason: ReasonNoScale, Reference: ref,
			Err: fmt.Errorf("%s has no scale subresource: only kinds that have one can be scaled", resource.GroupResource()),
		}
	}
	return resource, nil
}

// parse returns the kind of a reference and the version it asks for, if any.
func parse(ref v1alpha1.ScaleTargetReference) (schema.GroupKind, []string, *Error) {
	if ref.Kind == "" || ref.Name == "" {
		return schema.GroupKind{}, nil, invalid(ref, errors.New("it needs a kind and a name"))
	}
	if ref.APIVersion == "" {
		switch ref.Kind {
		case "Deployment", "StatefulSet", "ReplicaSet":
			return ref.GroupKind(), nil, nil
		}
		return schema.GroupKind{}, nil, invalid(ref, errors.New("set apiVersion: "+
			"only Deployment, StatefulSet and ReplicaSet need none"))
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || version.Version == "" {
		return schema.GroupKind{}, nil, invalid(ref, fmt.Errorf("apiVersion %q must be group/version", ref.APIVersion))
	}
	return ref.GroupKind(), []string{version.Version}, nil
}

func invalid(ref v1alpha1.ScaleTargetReference, err error) *Error {
	return &Error{Reason: ReasonInvalidReference, Reference: ref, Err: err}
}

// unknown is the error about a kind that is not served, or about an API server that cannot say
// which kinds it serves.
func unknown(ref v1alpha1.ScaleTargetReference, err error) *Error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || errors.Is(err, memory.ErrCacheNotFound) {
		return &Error{
			Reason: ReasonUnknownKind, Reference: ref,
			Err: fmt.Errorf("the API server does not serve this kind, install its definition or correct the reference: %w", err),
		}
	}
	return &Error{Reason: ReasonUnavailable, Reference: ref, Err: fmt.Errorf("asking the API server which kinds it serves: %w", err)}
}
