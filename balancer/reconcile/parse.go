package reconcile

import (
	"context"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// untyped is a Balancer as the cache holds it. A cache of typed Balancers would hold none while one
// of them does not parse, which can happen if the definition in the cluster has no schema.
func untyped() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(v1alpha1.APIVersion)
	u.SetKind(v1alpha1.KindBalancer)
	return u
}

// parse converts an object to a Balancer, unless it is one already.
func parse(o client.Object) (*v1alpha1.Balancer, error) {
	if b, ok := o.(*v1alpha1.Balancer); ok {
		return b, nil
	}
	b := &v1alpha1.Balancer{}
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, b)
	}
	return b, err
}

// balancers reads Balancers from the cache. Each version is parsed once. Balancers that do not
// parse are left out.
type balancers struct {
	cache  client.Reader
	parsed sync.Map // *v1alpha1.Balancer by UID
}

// list lists Balancers. They are shared and must not be changed.
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

// named lists the Balancers of a namespace that have a target of that name, whatever its kind.
func (s *balancers) named(ctx context.Context, namespace, name string) ([]*v1alpha1.Balancer, error) {
	return s.list(ctx, client.InNamespace(namespace), client.MatchingFields{byTargetName: name})
}

// get returns a Balancer; nil if it does not exist or does not parse.
func (s *balancers) get(ctx context.Context, key types.NamespacedName) (*v1alpha1.Balancer, error) {
	u := untyped()
	if err := s.cache.Get(ctx, key, u); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return s.of(u), nil
}

// of parses an object, unless this version of it was parsed before; nil if it does not parse.
func (s *balancers) of(u *unstructured.Unstructured) *v1alpha1.Balancer {
	if known, ok := s.parsed.Load(u.GetUID()); ok && u.GetUID() != "" && known.(*v1alpha1.Balancer).ResourceVersion == u.GetResourceVersion() {
		return known.(*v1alpha1.Balancer)
	}
	b, err := parse(u)
	if err != nil {
		return nil // a pass over it reports the error
	}
	s.parsed.Store(b.UID, b)
	return b
}

func (s *balancers) forget(key types.NamespacedName) {
	s.parsed.Range(func(uid, known any) bool {
		if client.ObjectKeyFromObject(known.(*v1alpha1.Balancer)) == key {
			s.parsed.Delete(uid)
		}
		return true
	})
}
