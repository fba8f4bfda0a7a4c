package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// Others may use up the writes of a second, which all ReplicaSets share. What a pass has no time for is written by the next
// one: nothing else requests it where costs are only removed.
func TestWhatAPassHasNoTimeForIsWrittenLater(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var pods []*v1.Pod
	build := fake.NewClientBuilder()
	for i := range 30 {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i),
			Annotations: map[string]string{v1.PodDeletionCost: "5", deletioncost.AnnotationWritten: "5"}}}
		pods, build = append(pods, pod), build.WithObjects(pod)
	}
	c := build.Build()
	r := newReconciler(c, passes.Recorder{}, Options{Metrics: metrics, WritesPerSecond: 2})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	result, err := r.write(ctx, deletioncost.Release(pods))
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %+v, %v, want another pass", result, err)
	}
	left := &v1.PodList{}
	if err := c.List(t.Context(), left, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	written := 0
	for _, pod := range left.Items {
		if pod.Annotations[v1.PodDeletionCost] == "" {
			written++
		}
	}
	if written == 0 || written == len(pods) {
		t.Errorf("%d of %d are written, want some", written, len(pods))
	}
}
