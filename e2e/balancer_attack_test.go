package e2e

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
)

// Somebody replaces the Balancer by one without spec.replicas, in the middle of a fallback, again
// and again, and at last deletes it and creates it anew: neither pending copies nor the replicas
// that stand in for them are added up.
func replicasTakenAway(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "taken-away", zone{"a", 20}, zone{"b", 20}, zone{"c", 20})
	s.balance(ctx, t, s.balancer(6, fallback(proportional(map[string]int32{"a": 1, "b": 1, "c": 1}), startsWithin, stableAfter)))
	s.settles(ctx, t, "at first", state{sizes: map[string]int32{"a": 2, "b": 2, "c": 2}})
	if err := s.Delete(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node("c")}}); err != nil {
		t.Fatal(err)
	}
	blocked := state{sizes: map[string]int32{"a": 3, "b": 3, "c": 2}, running: map[string]int32{"c": 0}, holds: inFallback}
	s.settles(ctx, t, "without nodes", blocked)

	adopted := func(when string) {
		t.Helper()
		until(ctx, t, "spec.replicas is set, "+when, func() bool { return s.get(ctx, t).Spec.Replicas != nil })
		if n := *s.get(ctx, t).Spec.Replicas; n != 6 {
			t.Fatalf("%s: %d replicas were adopted, wanted are 6", when, n)
		}
		s.settles(ctx, t, when, blocked)
	}
	for range 3 {
		b := s.get(ctx, t)
		b.Spec.Replicas = nil
		if err := s.Update(ctx, b); err != nil {
			t.Fatal(err)
		}
		adopted("replaced")
	}
	if err := s.Delete(ctx, s.get(ctx, t)); err != nil {
		t.Fatal(err)
	}
	anew := s.balancer(0, fallback(proportional(map[string]int32{"a": 1, "b": 1, "c": 1}), startsWithin, stableAfter))
	anew.Spec.Replicas = nil
	s.create(ctx, t, anew)
	adopted("created anew")
}

// Something else gives a target another size whenever the Balancer has written it. After a few
// rounds that is put right less often, and takes nothing away from the others.
func secondWriter(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "second-writer", zone{"a", 20}, zone{"b", 20})
	b := s.balancer(6, proportional(map[string]int32{"a": 1, "b": 1}))
	s.balance(ctx, t, b)
	s.settles(ctx, t, "at first", state{sizes: map[string]int32{"a": 3, "b": 3}})

	s.begin(t)
	d := s.deployment("a")
	until(ctx, t, "a is left alone", func() bool {
		if n, _ := s.size(ctx, t, b.Spec.Targets[0].ScaleTargetRef); n != 5 {
			if err := s.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"replicas": 5}}`))); err != nil {
				t.Fatal(err)
			}
		}
		targets := s.get(ctx, t).Status.Targets
		return len(targets) > 0 && targets[0].Reason == balancer.ReasonSecondWriter
	})
	s.settles(ctx, t, "left alone", state{
		sizes: map[string]int32{"a": 5, "b": 3}, desired: map[string]int32{"a": 3}, holds: []string{},
		says: map[string]string{"a": "HorizontalPodAutoscaler", v1alpha1.ConditionTargetsReadable: "something else also writes its size"},
	})
	c := s.news(ctx, t, "left alone")
	if n := c.sizes["a"]; n > 3 {
		t.Errorf("a was written %d times", n)
	}

	s.change(ctx, t, func(spec *v1alpha1.BalancerSpec) { spec.Replicas = new(int32(8)) })
	s.settles(ctx, t, "changed", state{sizes: map[string]int32{"a": 4, "b": 4}})
}
