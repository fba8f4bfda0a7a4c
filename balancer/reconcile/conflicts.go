package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// mostBelow is how many Balancers may be below a target. Each pass walks through them, and anybody who may create Balancers
// could make chains of any length.
const mostBelow = 100

// mostNames is how many Balancers the message of a conflict names.
const mostNames = 5

var errManyBelow = fmt.Errorf("more than %d Balancers are below it", mostBelow)

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
			o.conflict(t.Name, "it is also a target of Balancer %s; remove it from all Balancers but one", spelling.Few(others, mostNames))
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
		if errors.Is(err, errManyBelow) {
			o.conflict(t.Name, "%s, and one of them may have this Balancer as a target; have fewer levels", err)
			continue
		}
		if err != nil {
			return err
		}
		if len(way) > 2*mostNames {
			way = slices.Replace(way, mostNames, len(way)-1, "...")
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
	above := map[string]string{by: from} // each Balancer that was found, and the one that has it as a target
	for queue := []string{by}; len(queue) > 0; queue = queue[1:] {
		targets, err := next(queue[0])
		if err != nil {
			return nil, err
		}
		for _, t := range targets {
			if t == from {
				way := []string{from}
				for at := queue[0]; at != from; at = above[at] {
					way = append(way, at)
				}
				slices.Reverse(way[1:])
				return append(way, from), nil
			}
			if above[t] == "" {
				above[t] = queue[0]
				queue = append(queue, t)
			}
		}
		if len(above) > mostBelow {
			return nil, errManyBelow
		}
	}
	return nil, nil
}

// allAbove are the names of the Balancers of a namespace that have one as a direct or indirect target.
func allAbove(name string, all []*v1alpha1.Balancer) sets.Set[string] {
	above := map[string][]string{}
	for _, b := range all {
		for _, t := range balancersAmong(b) {
			above[t] = append(above[t], b.Name)
		}
	}
	found := sets.New[string]()
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, n := range above[queue[0]] {
			if !found.Has(n) {
				found.Insert(n)
				queue = append(queue, n)
			}
		}
	}
	return found
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
