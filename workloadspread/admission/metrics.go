package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Metrics are the metrics of a Server. Those of a WorkloadSpread have the labels namespace and name: a
// scrape has to honor these labels.
type Metrics struct {
	admissions *prometheus.CounterVec
	releases   *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	failures   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
}

// NewMetrics returns the metrics of a Server, registered with the registerer if that is not nil. It
// fails if metrics of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "evenkeel_workloadspread_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	m := &Metrics{
		admissions: counter("admitted_pods_total", "New pods, by WorkloadSpread and subset. The subset is empty for pods that no subset had room for.", "namespace", "name", "subset"),
		releases:   counter("released_pods_total", "Pods that were counted as gone, by cause: deletion or eviction.", "cause"),
		refusals:   counter("webhook_refusals_total", "Pods and WorkloadSpreads that were refused, by reason.", "reason"),
		failures:   counter("webhook_failures_total", "Calls that could not be answered, by webhook. The failure policy of the webhook says what happens then.", "webhook"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "webhook_duration_seconds", Help: "Time that answers took, by webhook.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"webhook"}),
	}
	for _, cause := range []string{causeDeletion, causeEviction} {
		m.releases.WithLabelValues(cause)
	}
	for _, reason := range []string{workloadspread.ReasonNoRoom, workloadspread.ReasonUncertain, reasonPatch, reasonSpec} {
		m.refusals.WithLabelValues(reason)
	}
	for _, path := range []string{PathMutatePods, PathValidatePods, PathValidateSpreads} {
		m.failures.WithLabelValues(path)
		m.durations.WithLabelValues(path)
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.admissions, m.releases, m.refusals, m.failures, m.durations} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of the webhooks of WorkloadSpreads: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) admitted(o *v1alpha1.WorkloadSpread, subset string) {
	m.admissions.WithLabelValues(o.Namespace, o.Name, subset).Inc()
}

func (m *Metrics) released(cause string) { m.releases.WithLabelValues(cause).Inc() }

func (m *Metrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

// answered records a call to a webhook.
func (m *Metrics) answered(path string, took time.Duration, err error) {
	var no *refusal
	if err != nil && !errors.As(err, &no) {
		m.failures.WithLabelValues(path).Inc()
	}
	m.durations.WithLabelValues(path).Observe(took.Seconds())
}

// forget drops the metrics of a WorkloadSpread.
func (m *Metrics) forget(key types.NamespacedName) {
	m.admissions.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "name": key.Name})
}
