package e2e

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A target is deleted: its replicas run on the others. When it is there again it is given its
// share.
func recreatedTarget(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "recreated", zone{"a", 40}, zone{"b", 40}, zone{"c", 40})
	s.balance(ctx, t, s.balancer(12, proportional(map[string]int32{"a": 1, "b": 1, "c": 1})))
	s.settles(ctx, t, "at first", state{sizes: map[string]int32{"a": 4, "b": 4, "c": 4}})

	s.begin(t)
	gone := state{
		sizes: map[string]int32{"a": 6, "b": 0, "c": 6}, holds: []string{},
		says: map[string]string{v1alpha1.ConditionTargetsReadable: `deployments.apps "b" not found`, "b": "others are to run its replicas"},
	}
	if err := s.Delete(ctx, s.deployment("b"), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	s.settles(ctx, t, "deleted", gone)
	s.wrote(ctx, t, "deleted", "a", "c")

	s.ask(ctx, t, 18)
	gone.sizes = map[string]int32{"a": 9, "b": 0, "c": 9}
	s.settles(ctx, t, "more without it", gone)
	s.wrote(ctx, t, "more without it", "a", "c")

	s.begin(t)
	s.create(ctx, t, s.deployment("b"))
	s.settles(ctx, t, "created again", state{sizes: map[string]int32{"a": 6, "b": 6, "c": 6}})
	s.neverFewer(t, "created again", 18)
	s.calm(t, "created again", s.news(ctx, t, "created again"))
}

// Targets that have no Scale, or are of no kind that is known, are set aside with their minimums.
func unreadableTargets(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "unreadable", zone{"a", 40}, zone{"b", 40})
	s.create(ctx, t, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "settings"}})
	b := s.balancer(10, proportional(map[string]int32{"a": 1, "b": 1, "plain": 1, "strange": 1}))
	b.Spec.Targets = append(b.Spec.Targets,
		v1alpha1.BalancerTarget{Name: "plain", ScaleTargetRef: v1alpha1.ScaleTargetReference{APIVersion: "v1", Kind: "ConfigMap",
			Name: "settings"}},
		v1alpha1.BalancerTarget{Name: "strange", ScaleTargetRef: v1alpha1.ScaleTargetReference{APIVersion: "example.com/v1", Kind: "Gizmo",
			Name: "x"}},
	)
	bound(&b.Spec, "plain", 2, -1)
	s.balance(ctx, t, b)
	want := state{
		sizes:   map[string]int32{"a": 4, "b": 4, "plain": 2, "strange": 0},
		running: map[string]int32{"plain": 0}, holds: []string{},
		says: map[string]string{"plain": "only kinds that have one can be scaled", "strange": "install its definition or correct the reference",
			v1alpha1.ConditionTargetsReadable: "Gizmo"},
	}
	s.settles(ctx, t, "at first", want)
	s.wrote(ctx, t, "at first", "a", "b")

	s.ask(ctx, t, 5)
	want.sizes = map[string]int32{"a": 2, "b": 1, "plain": 2, "strange": 0}
	s.settles(ctx, t, "fewer", want)
	s.wrote(ctx, t, "fewer", "a", "b")

	s.change(ctx, t, func(spec *v1alpha1.BalancerSpec) {
		spec.Targets = spec.Targets[:2]
		spec.Policy = proportional(map[string]int32{"a": 1, "b": 1})
	})
	s.settles(ctx, t, "without them", state{sizes: map[string]int32{"a": 3, "b": 2}})
	s.wrote(ctx, t, "without them", "a", "b")
}

// What two Balancers claim is written by neither, until one gives it up.
func sharedTarget(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "shared", zone{"a", 40}, zone{"b", 40}, zone{"c", 40})
	other := *s
	other.name, s.zones, other.zones = "other", []string{"a", "b"}, []string{"b", "c"}
	other.balance(ctx, t, other.balancer(5, proportional(map[string]int32{"b": 3, "c": 2})))
	other.settles(ctx, t, "before it is shared", state{sizes: map[string]int32{"b": 3, "c": 2}})
	s.balance(ctx, t, s.balancer(8, proportional(map[string]int32{"a": 1, "b": 1})))
	claimed := func(by string, sizes map[string]int32) state {
		return state{
			sizes: sizes, holds: []string{},
			says: map[string]string{
				"b":                               "it is also a target of Balancer " + by + "; remove it from all Balancers but one",
				v1alpha1.ConditionTargetsReadable: "b: it is also a target of Balancer " + by,
			},
		}
	}
	s.settles(ctx, t, "shared", claimed("other", map[string]int32{"a": 5, "b": 3}))
	other.settles(ctx, t, "shared, the other", claimed(balancerName, map[string]int32{"b": 3, "c": 2}))

	s.ask(ctx, t, 10)
	s.settles(ctx, t, "more", claimed("other", map[string]int32{"a": 7, "b": 3}))
	s.wrote(ctx, t, "more", "a")

	other.change(ctx, t, func(spec *v1alpha1.BalancerSpec) {
		spec.Targets = spec.Targets[1:]
		spec.Policy = proportional(map[string]int32{"c": 1})
	})
	other.settles(ctx, t, "given up, the other", state{sizes: map[string]int32{"c": 5}})
	s.settles(ctx, t, "given up", state{sizes: map[string]int32{"a": 5, "b": 5}})
	s.neverFewer(t, "given up", 12)
}

// A pod that two targets select makes both doubtful, and no other target.
func overlappingSelectors(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "overlapping", zone{"c", 40})
	pair := map[string]string{"app": balancerName, "pair": "ab"}
	for _, name := range []string{"a", "b"} {
		s.zones = append(s.zones, name)
		s.addNode(ctx, t, zone{name, 40})
		d := s.deployment(name)
		d.Spec.Replicas = ptr.To[int32](3)
		d.Spec.Template.Labels = map[string]string{"app": balancerName, "pair": "ab", targetLabel: name}
		if name == "b" {
			d.Spec.Selector.MatchLabels = pair // those of a, too
		}
		s.create(ctx, t, d)
	}
	until(ctx, t, "the pods of a and b run", func() bool { return s.ledger.now() == 6 })
	s.balance(ctx, t, s.balancer(9, proportional(map[string]int32{"a": 1, "b": 1, "c": 1})))
	overlap := state{
		sizes: map[string]int32{"a": 3, "b": 3, "c": 3}, holds: []string{},
		says: map[string]string{
			"a":                               "as target b does; give them selectors that have no pod in common",
			"b":                               "as target a does; give them selectors that have no pod in common",
			v1alpha1.ConditionTargetsReadable: "b: it selects pod a-",
		},
	}
	s.settles(ctx, t, "overlapping", overlap)
	s.wrote(ctx, t, "overlapping", "c")

	s.ask(ctx, t, 12)
	overlap.sizes["c"] = 6
	s.settles(ctx, t, "more", overlap)
	s.wrote(ctx, t, "more", "c")

	if err := s.Delete(ctx, s.deployment("b"), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	s.create(ctx, t, s.deployment("b"))
	s.settles(ctx, t, "apart", state{sizes: map[string]int32{"a": 4, "b": 4, "c": 4}})
}

// Whatever has a Scale is a target. A kind beyond those of apps takes a ClusterRole with a label.
func kindsOfTargets(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "kinds", zone{"deployment", 40})
	for _, z := range []string{"statefulset", "replicaset", "rollout"} {
		s.addNode(ctx, t, zone{z, 40})
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "statefulset"}}
	set.Spec.Replicas = ptr.To[int32](0)
	set.Spec.Selector, set.Spec.Template = s.template("statefulset")
	s.create(ctx, t, set)
	plain := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "replicaset"}}
	plain.Spec.Replicas = ptr.To[int32](0)
	plain.Spec.Selector, plain.Spec.Template = s.template("replicaset")
	s.create(ctx, t, plain)
	s.create(ctx, t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "example-rollouts", Labels: map[string]string{"evenkeel.dev/aggregate-to-controller": "true"}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"rollouts/scale"},
			Verbs: []string{"get", "update"}}},
	})
	s.create(ctx, t, parse(t, rolloutInstalled))
	rollout := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Rollout",
		"metadata": map[string]any{"namespace": s.namespace, "name": "rollout"}, "spec": map[string]any{"replicas": int64(0)},
	}}
	until(ctx, t, "Rollouts are served", func() bool { return s.Create(ctx, rollout) == nil })
	rollout.Object["status"] = map[string]any{"selector": "app=web,target=rollout"}
	if err := s.Status().Update(ctx, rollout); err != nil {
		t.Fatal(err)
	}
	b := s.balancer(0, proportional(map[string]int32{"deployment": 1, "statefulset": 1, "replicaset": 1, "rollout": 1}))
	for _, ref := range []v1alpha1.ScaleTargetReference{
		{Kind: "StatefulSet", Name: "statefulset"},
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "replicaset"},
		{APIVersion: "example.com/v1", Kind: "Rollout", Name: "rollout"},
	} {
		b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{Name: ref.Name, ScaleTargetRef: ref})
	}
	all := func(n int32) state {
		return state{
			sizes:   map[string]int32{"deployment": n, "statefulset": n, "replicaset": n, "rollout": n},
			running: map[string]int32{"rollout": 0}, // nobody runs pods for it
		}
	}
	names := []string{"deployment", "statefulset", "replicaset", "rollout"}
	s.balance(ctx, t, b)
	s.settles(ctx, t, "0", all(0)) // it may take seconds until the controller knows the new kind
	s.ask(ctx, t, 8)
	s.settles(ctx, t, "8", all(2))
	s.wrote(ctx, t, "8", names...)
	s.ask(ctx, t, 4)
	four := all(1) // four are to run, and the rollout runs none of them
	four.sizes["replicaset"], four.desired, four.holds = 2, map[string]int32{"replicaset": 1}, []string{v1alpha1.ConditionTargetsReadable}
	s.settles(ctx, t, "4", four)
	s.wrote(ctx, t, "4", "deployment", "statefulset", "rollout")
	s.ask(ctx, t, 12)
	s.settles(ctx, t, "12", all(3))
	s.wrote(ctx, t, "12", names...)
}
