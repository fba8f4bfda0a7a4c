package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// untyped is a Balancer as the cache has it. A cache of typed ones would hold none as long as one of them does not parse, which
// can be where the definition in the cluster has no schema.
func untyped() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(v1alpha1.APIVersion)
	u.SetKind(v1alpha1.KindBalancer)
	return u
}

// parse makes a Balancer of an object, which may be one already.
func parse(o client.Object) (*v1alpha1.Balancer, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		b, ok := o.(*v1alpha1.Balancer)
		if !ok {
			return nil, fmt.Errorf("%T is no Balancer", o)
		}
		return b, nil
	}
	text, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	b := &v1alpha1.Balancer{}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, err
	}
	return b, nil
}

// balancers reads Balancers from the cache. Each is parsed once for every version; those that do not parse are left out.
type balancers struct {
	cache client.Reader

	mu     sync.Mutex
	parsed map[types.UID]version
}

// version is a Balancer as of a resource version; nil if it does not parse.
type version struct {
	resource string
	balancer *v1alpha1.Balancer
}

// list lists Balancers, which are shared and must not be changed.
func (s *balancers) list(ctx context.Context, options ...client.ListOption) ([]*v1alpha1.Balancer, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(v1alpha1.APIVersion)
	list.SetKind(v1alpha1.KindBalancer + "List")
	if err := s.cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	all := make([]*v1alpha1.Balancer, 0, len(list.Items))
	for i := range list.Items {
		if b := s.of(&list.Items[i]); b != nil {
			all = append(all, b)
		}
	}
	return all, nil
}

// named lists those of a namespace that have a target of a name, whatever its kind.
func (s *balancers) named(ctx context.Context, namespace, name string) ([]*v1alpha1.Balancer, error) {
	return s.list(ctx, client.InNamespace(namespace), client.MatchingFields{byTargetName: name})
}

// get reads one; nil if there is none that parses.
func (s *balancers) get(ctx context.Context, key types.NamespacedName) (*v1alpha1.Balancer, error) {
	u := untyped()
	if err := s.cache.Get(ctx, key, u); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return s.of(u), nil
}

// of parses an object, if it is not known yet.
func (s *balancers) of(u *unstructured.Unstructured) *v1alpha1.Balancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid, resource := u.GetUID(), u.GetResourceVersion()
	if known, ok := s.parsed[uid]; ok && known.resource == resource && uid != "" {
		return known.balancer
	}
	b, err := parse(u)
	if err != nil {
		b = nil // a pass over it says so
	}
	if s.parsed == nil {
		s.parsed = map[types.UID]version{}
	}
	s.parsed[uid] = version{resource, b}
	return b
}

// forget drops what is known of a Balancer that is gone.
func (s *balancers) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, v := range s.parsed {
		if v.balancer == nil || v.balancer.Namespace == key.Namespace && v.balancer.Name == key.Name {
			delete(s.parsed, uid)
		}
	}
}
