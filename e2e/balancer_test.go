package e2e

import (
	"context"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Balancers over real Deployments, pods and nodes, with a controller that has no more rights than
// the manifests give it.
func TestBalancer(t *testing.T) {
	t.Parallel()
	ctx := t.Context() // each wait has a limit of its own
	w := newBalancerCluster(ctx, t)
	w.controller(t)
	together(ctx, t, in(w, map[string]func(context.Context, *testing.T, *balancerCluster){
		"proportional":                   proportionalShares,
		"priority":                       priorityOverflow,
		"pods never created":             refusedPods,
		"pods in a crash loop":           crashLoop,
		"edited with pods in flight":     editedInFlight,
		"a target deleted and recreated": recreatedTarget,
		"targets without a Scale":        unreadableTargets,
		"a target of two Balancers":      sharedTarget,
		"selectors that overlap":         overlappingSelectors,
		"kinds of targets":               kindsOfTargets,
		"a zone vanishes":                vanishingZone,
		"replicas are taken away":        replicasTakenAway,
		"a second writer":                secondWriter,
	}))
	t.Run("quiet", func(t *testing.T) { w.quiet(ctx, t) })
}

// Replicas are shared by rates, whatever their number, within bounds.
func proportionalShares(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "proportional", zone{"a", 110}, zone{"b", 110})
	sizes := func(a, b int32) state { return state{sizes: map[string]int32{"a": a, "b": b}} }
	s.balance(ctx, t, s.balancer(10, proportional(map[string]int32{"a": 70, "b": 30})))
	s.settles(ctx, t, "10", sizes(7, 3))
	s.wrote(ctx, t, "10", "a", "b")
	for _, step := range []struct {
		when    string
		ask     int32
		a, b    int32
		written []string
	}{
		{"one more", 11, 8, 3, []string{"a"}},
		{"one", 1, 1, 0, []string{"a", "b"}},
		{"none", 0, 0, 0, []string{"a"}},
		{"many", 100, 70, 30, []string{"a", "b"}},
		{"10 again", 10, 7, 3, []string{"a", "b"}},
	} {
		before := s.get(ctx, t).Spec.Replicas
		s.ask(ctx, t, step.ask)
		s.settles(ctx, t, step.when, sizes(step.a, step.b))
		s.wrote(ctx, t, step.when, step.written...)
		s.neverFewer(t, step.when, int(min(*before, step.ask)))
	}
	s.change(ctx, t, func(spec *v1alpha1.BalancerSpec) { bound(spec, "a", 0, 5) })
	s.settles(ctx, t, "with a maximum", sizes(5, 5))
	s.neverFewer(t, "with a maximum", 10)
	s.calm(t, "with a maximum", s.news(ctx, t, "with a maximum"))
}

// The first target is filled, then the next; the minimum of the last holds whatever its turn.
func priorityOverflow(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "priority", zone{"a", 110}, zone{"b", 110}, zone{"c", 110})
	balanced := []string{v1alpha1.ConditionBalanced, v1alpha1.ConditionTargetsReadable}
	b := s.balancer(3, priority("a", "b", "c"))
	bound(&b.Spec, "a", 0, 4)
	bound(&b.Spec, "b", 0, 3)
	bound(&b.Spec, "c", 2, 5)
	s.balance(ctx, t, b)
	for i, step := range []struct {
		when    string
		ask     int32
		a, b, c int32
		holds   []string
		says    map[string]string
		written []string
	}{
		{"below the first's maximum", 3, 1, 0, 2, balanced, nil, []string{"a", "c"}},
		{"the first full", 6, 4, 0, 2, balanced, nil, []string{"a"}},
		{"the second begun", 8, 4, 2, 2, balanced, nil, []string{"b"}},
		{"the third above its minimum", 11, 4, 3, 4, balanced, nil, []string{"b", "c"}},
		{
			"more than all maxima", 15, 4, 3, 5,
			[]string{v1alpha1.ConditionOverflow, v1alpha1.ConditionTargetsReadable},
			map[string]string{v1alpha1.ConditionOverflow: "3 replicas cannot run on any target", "a": "it has its maximum"},
			[]string{"c"},
		},
		{
			"less than the minimums", 1, 0, 0, 2,
			[]string{v1alpha1.ConditionBalanced, v1alpha1.ConditionMinimumsExceedReplicas, v1alpha1.ConditionTargetsReadable},
			map[string]string{v1alpha1.ConditionMinimumsExceedReplicas: "exceed the replicas asked for by 1", "c": "it has its minimum"},
			[]string{"a", "b", "c"},
		},
	} {
		if i > 0 {
			s.ask(ctx, t, step.ask)
		}
		s.settles(ctx, t, step.when, state{
			sizes: map[string]int32{"a": step.a, "b": step.b, "c": step.c}, holds: step.holds, says: step.says,
		})
		s.wrote(ctx, t, step.when, step.written...)
	}
}
