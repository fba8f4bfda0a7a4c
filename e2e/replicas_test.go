package e2e

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// The two replicas of the sidecar and of the expander run on different nodes, in different zones, and a
// drain of both nodes takes one after the other.
func TestReplicas(t *testing.T) {
	for folder, name := range map[string]string{"deploy": "cluster-autoscaler", "../expander/deploy": "evenkeel-expander"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); testReplicas(t, folder, name) })
	}
}

func testReplicas(t *testing.T, folder, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{})
	zoneOf := map[string]string{"node-1": "a", "node-2": "a", "node-3": "b"}
	for node, zone := range zoneOf {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{v1.LabelHostname: node, v1.LabelTopologyZone: zone}}}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("20"),
		}
		if err := plane.AddNodes(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	apply(ctx, t, plane, folder)
	replicas := func() (zones map[string]bool, ready []*v1.Pod) {
		var pods v1.PodList
		if err := plane.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem),
			client.MatchingLabels{"app.kubernetes.io/name": name}); err != nil {
			t.Fatal(err)
		}
		zones = map[string]bool{}
		for i := range pods.Items {
			pod := &pods.Items[i]
			for _, c := range pod.Status.Conditions {
				if c.Type == v1.PodReady && c.Status == v1.ConditionTrue && pod.DeletionTimestamp == nil {
					ready, zones[zoneOf[pod.Spec.NodeName]] = append(ready, pod), true
				}
			}
		}
		return zones, ready
	}
	until(ctx, t, "both replicas run in different zones", func() bool {
		zones, ready := replicas()
		return len(ready) == 2 && len(zones) == 2
	})
	until(ctx, t, "the budget knows both", func() bool {
		var budget policyv1.PodDisruptionBudget
		key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}
		return plane.Client.Get(ctx, key, &budget) == nil && budget.Status.CurrentHealthy == 2 && budget.Status.DisruptionsAllowed == 1
	})
	_, ready := replicas()
	evict := func(pod *v1.Pod) error {
		return plane.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
	}
	if err := plane.Process(controlplane.Kwok).Stop(); err != nil { // so that no other replica becomes ready in place of the first
		t.Fatal(err)
	}
	if err := evict(ready[0]); err != nil {
		t.Fatal(err)
	}
	if err := evict(ready[1]); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second replica is evicted with the first: %v", err)
	}
}
