package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// podMetricsInstalled makes the metrics of pods ordinary objects, which an autoscaler lists as it
// would those of a metrics server.
const podMetricsInstalled = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: pods.metrics.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, it stands in for a metrics server in a test"}},
  spec: {group: metrics.k8s.io, scope: Namespaced, names: {kind: PodMetrics, plural: pods}, versions: [{name: v1beta1, served: true, storage: true,
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

var podMetrics = schema.GroupVersionKind{Group: "metrics.k8s.io", Version: "v1beta1", Kind: "PodMetrics"}

// podLoad is a load that the running pods of a namespace bear together, each as much as any other.
type podLoad struct {
	client    client.Client
	namespace string
	total     atomic.Int64 // thousandths of a core
}

func (l *podLoad) set(total int64) { l.total.Store(total) }

// start keeps the metrics of the pods as the load is, until the test ends.
func (l *podLoad) start(ctx context.Context, t *testing.T) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return false,
				l.measure(ctx)
		})
		if ctx.Err() == nil {
			t.Error(err)
		}
	}()
}

// measure brings the metrics up to date. At no time do they sum to more than the load: what becomes
// less is written first.
func (l *podLoad) measure(ctx context.Context) error {
	var pods v1.PodList
	var known unstructured.UnstructuredList
	known.SetGroupVersionKind(podMetrics)
	for _, list := range []client.ObjectList{&pods, &known} {
		if err := l.client.List(ctx, list, client.InNamespace(l.namespace)); err != nil {
			return err
		}
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p v1.Pod) bool { return p.Status.Phase != v1.PodRunning || p.DeletionTimestamp != nil })
	measured := map[string]*unstructured.Unstructured{}
	for i := range known.Items {
		m := &known.Items[i]
		if !slices.ContainsFunc(pods.Items, func(p v1.Pod) bool { return p.Name == m.GetName() }) {
			if err := client.IgnoreNotFound(l.client.Delete(ctx, m)); err != nil {
				return err
			}
			continue
		}
		measured[m.GetName()] = m
	}
	if len(pods.Items) == 0 {
		return nil
	}
	each := l.total.Load() / int64(len(pods.Items))
	slices.SortFunc(pods.Items, func(a, b v1.Pod) int { return cmp.Compare(usage(measured[b.Name]), usage(measured[a.Name])) })
	for i := range pods.Items {
		if err := l.store(ctx, &pods.Items[i], measured[pods.Items[i].Name], each); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// usage is what metrics say; 0 if there are none.
func usage(m *unstructured.Unstructured) int64 {
	if m == nil {
		return 0
	}
	milli, _, _ := unstructured.NestedInt64(m.Object, "milli")
	return milli
}

// store stores what a pod uses. The time of metrics must be about now.
func (l *podLoad) store(ctx context.Context, pod *v1.Pod, before *unstructured.Unstructured, milli int64) error {
	m := &unstructured.Unstructured{Object: map[string]any{
		"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "1s", "milli": milli,
		"containers": []any{map[string]any{
			"name":  pod.Spec.Containers[0].Name,
			"usage": map[string]any{"cpu": fmt.Sprintf("%dm", milli), "memory": "1Mi"},
		}},
	}}
	m.SetGroupVersionKind(podMetrics)
	m.SetNamespace(pod.Namespace)
	m.SetName(pod.Name)
	m.SetLabels(pod.Labels)
	if before == nil {
		return l.client.Create(ctx, m)
	}
	m.SetResourceVersion(before.GetResourceVersion())
	return l.client.Update(ctx, m)
}

// sharedEvenly fails the test if ever the two targets of a Balancer are to have other shares than
// halves of what is asked for, or of their minimums if these are more.
func sharedEvenly(ctx context.Context, t *testing.T, c client.WithWatch, namespace string) {
	watched, err := c.Watch(ctx, &v1alpha1.BalancerList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	done, decided := make(chan struct{}), 0
	t.Cleanup(func() {
		watched.Stop()
		<-done
		if decided < 5 {
			t.Errorf("%d decisions were seen", decided)
		}
	})
	go func() {
		defer close(done)
		for event := range watched.ResultChan() {
			b, ok := event.Object.(*v1alpha1.Balancer)
			if !ok || b.Status.ObservedGeneration != b.Generation || b.Spec.Replicas == nil {
				continue
			}
			decided++
			var minimums, sum, most int32
			least := *b.Spec.Replicas
			for i, target := range b.Status.Targets {
				minimums += pointed(b.Spec.Targets[i].MinReplicas)
				sum, most, least = sum+target.Desired, max(most, target.Desired), min(least, target.Desired)
			}
			if sum != max(*b.Spec.Replicas, minimums) || most-least > 1 && sum > minimums {
				t.Errorf("%d replicas are shared as %+v", *b.Spec.Replicas, b.Status.Targets)
			}
		}
	}()
}

func pointed(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
