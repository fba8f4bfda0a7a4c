package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A HorizontalPodAutoscaler in the host, of its controller-manager, drives the sum over all clusters
// by a metric of requests: five in a second for each replica.
func (w *federation) autoscaled(ctx context.Context, t *testing.T) {
	var load atomic.Int64
	load.Store(150)
	w.serveMetric(ctx, t, "requests", &load)
	s := w.open(ctx, t, "autoscaled", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 3, 0, evenly)
	s.settles(ctx, t, []int32{1, 1, 1}, nil)
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindFederatedReplicaSet,
		Name: "web"}
	h.Spec.MinReplicas, h.Spec.MaxReplicas = new(int32(1)), 100
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "requests"},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(5, resource.DecimalSI)},
	}}}
	atOnce := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: new(int32(0)), Tolerance: resource.NewQuantity(0, resource.DecimalSI),
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 100, PeriodSeconds: 1}},
	}
	h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: atOnce, ScaleDown: atOnce}
	s.begin(ctx, t)
	if err := w.client.Create(ctx, h); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		load       int64
		documented []int32
	}{{150, []int32{10, 10, 10}}, {220, []int32{15, 15, 14}}, {60, []int32{4, 4, 4}}} {
		if i > 0 {
			s.begin(ctx, t)
			load.Store(c.load)
		}
		s.until(ctx, t, fmt.Sprintf("it asks for %d", c.load/5), func() bool { return int64(*s.get(ctx, t).Spec.Replicas) == c.load/5 })
		s.settles(ctx, t, s.apportioned(ctx, t, nil, nil, c.documented...), nil)
		s.wrote(ctx, t, fmt.Sprintf("%d requests", c.load), 1, 1, 1)
	}
	if err := w.host.Until(ctx, h, func() bool { return h.Status.CurrentReplicas == 12 && h.Status.DesiredReplicas == 12 }); err != nil {
		t.Error(err)
	}
	for _, c := range h.Status.Conditions {
		if want := c.Type != autoscalingv2.ScalingLimited; (c.Status == v1.ConditionTrue) != want {
			t.Errorf("the autoscaler says %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	if err := w.client.Delete(ctx, h); err != nil {
		t.Fatal(err)
	}
	s.close(ctx, t)
}

// serveMetric serves a metric in the host, as an aggregated API.
func (w *federation) serveMetric(ctx context.Context, t *testing.T, name string, value *atomic.Int64) {
	t.Helper()
	const group, version = "external.metrics.k8s.io", "v1beta1"
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var answer any = map[string]any{
			"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group + "/" + version,
			"resources": []any{map[string]any{"name": name, "namespaced": true, "kind": "ExternalMetricValueList", "singularName": "",
				"verbs": []string{"get"}}},
		}
		if strings.HasSuffix(r.URL.Path, "/"+name) {
			answer = map[string]any{
				"kind": "ExternalMetricValueList", "apiVersion": group + "/" + version, "metadata": map[string]any{},
				"items": []any{map[string]any{"metricName": name, "metricLabels": map[string]any{}, "timestamp": metav1.Now(),
					"value": strconv.FormatInt(value.Load(), 10)}},
			}
		}
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(answer) // who asks notices
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(address.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "metrics"}}
	service.Spec.Type, service.Spec.ExternalName = v1.ServiceTypeExternalName, "localhost"
	service.Spec.Ports = []v1.ServicePort{{Port: int32(port)}}
	if err := w.client.Create(ctx, service); err != nil {
		t.Fatal(err)
	}
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": service.Namespace, "name": service.Name, "port": port},
		},
	}}
	if err := w.client.Create(ctx, api); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.client.Delete(context.WithoutCancel(ctx), api); err != nil {
			t.Error(err)
		}
	})
}
