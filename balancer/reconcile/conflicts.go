package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// claims finds other Balancers that have a target of this one too. None of them writes such a
// target.
func (r *reconciler) claims(ctx context.Context, b *v1alpha1.Balancer, o *observation) error {
	for _, t := range b.Spec.Targets {
		list, err := r.balancers.named(ctx, b.Namespace, t.ScaleTargetRef.Name)
		if err != nil {
			return fmt.Errorf("listing the Balancers of %s %s: %w", t.ScaleTargetRef.Kind, t.ScaleTargetRef.Name, err)
		}
		var others []string
		for i := range list {
			if list[i].Name != b.Name && claimed(list[i], t.ScaleTargetRef) {
				others = append(others, list[i].Name)
			}
		}
		if slices.Sort(others); len(others) > 0 {
			o.conflict(t.Name, "it is also a target of Balancer %s; remove it from all Balancers but one", strings.Join(others, ", "))
		}
	}
	return nil
}

// claimed reports whether a Balancer that is not being deleted has the object as a target.
func claimed(b *v1alpha1.Balancer, what v1alpha1.ScaleTargetReference) bool {
	return b.DeletionTimestamp == nil &&
		slices.ContainsFunc(b.Spec.Targets, func(t v1alpha1.BalancerTarget) bool { return t.ScaleTargetRef.Same(what) })
}

// cycles finds targets that are Balancers and have this one as a direct or indirect target: what is
// written there would come back. Each Balancer of a cycle leaves the next one alone.
func (r *reconciler) cycles(ctx context.Context, b *v1alpha1.Balancer, o *observation) error {
	for _, t := range b.Spec.Targets {
		if !isBalancer(t.ScaleTargetRef) {
			continue
		}
		way, err := wayBack(b.Name, t.ScaleTargetRef.Name, r.balancers.below(ctx, b.Namespace))
		if err != nil {
			return err
		}
		if way != nil {
			o.conflict(t.Name, "Balancers are targets of one another in a cycle, %s; remove a target from one of them", strings.Join(way, " -> "))
		}
	}
	return nil
}

// below returns the targets of Balancers of a namespace that are Balancers.
func (s *balancers) below(ctx context.Context, namespace string) func(name string) ([]string, error) {
	return func(name string) ([]string, error) {
		b, err := s.get(ctx, types.NamespacedName{Namespace: namespace, Name: name})
		if b == nil {
			return nil, err
		}
		return balancersAmong(b), nil
	}
}

// wayBack is the shortest path from a Balancer through one of its targets back to it; nil if there
// is none. The function next returns the targets that are Balancers.
func wayBack(from, by string, next func(string) ([]string, error)) ([]string, error) {
	seen := sets.New(by)
	for queue := [][]string{{from, by}}; len(queue) > 0; queue = queue[1:] {
		way := queue[0]
		targets, err := next(way[len(way)-1])
		if err != nil {
			return nil, err
		}
		for _, t := range targets {
			on := append(slices.Clone(way), t)
			switch {
			case t == from:
				return on, nil
			case !seen.Has(t):
				seen.Insert(t)
				queue = append(queue, on)
			}
		}
	}
	return nil, nil
}

// balancersAmong are the names of the targets that are Balancers. A Balancer that is being deleted
// has none: it writes nothing.
func balancersAmong(b *v1alpha1.Balancer) []string {
	var names []string
	for _, t := range b.Spec.Targets {
		if b.DeletionTimestamp == nil && isBalancer(t.ScaleTargetRef) {
			names = append(names, t.ScaleTargetRef.Name)
		}
	}
	return names
}

func isBalancer(ref v1alpha1.ScaleTargetReference) bool {
	return ref.GroupKind() == schema.GroupKind{Group: v1alpha1.Group, Kind: v1alpha1.KindBalancer}
}
