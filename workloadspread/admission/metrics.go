package admission

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Metrics are the metrics of a Server. Those of a WorkloadSpread have the labels namespace and name: a
// scrape has to honor these labels.
type Metrics struct {
	set                            *metricset.Set
	admissions, refusals, failures *prometheus.CounterVec
	durations                      *prometheus.HistogramVec
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_workloadspread_")
	m := &Metrics{
		set: set,
		admissions: set.Counter("admitted_pods_total",
			"New pods, by WorkloadSpread and subset. The subset is empty for pods that no subset had room for.", "namespace", "name", "subset"),
		refusals: set.Counter("webhook_refusals_total", "Pods and WorkloadSpreads that were refused, by reason.", "reason"),
		failures: set.Counter("webhook_failures_total",
			"Calls that could not be answered, by webhook. The failure policy of the webhook says what happens then.", "webhook"),
		durations: set.Histogram("webhook_duration_seconds", "Time that answers took, by webhook.", prometheus.ExponentialBuckets(0.0005, 2, 15),
			"webhook"),
	}
	metricset.Preset(m.refusals, []string{workloadspread.ReasonNoRoom, reasonOwner, workloadspread.ReasonPatchRefused, reasonSpec})
	paths := []string{PathMutatePods, PathValidateSpreads}
	metricset.Preset(m.failures, paths)
	metricset.Preset(m.durations, paths)
	return m, set.Register(registerer)
}

// answered records a call to a webhook.
func (m *Metrics) answered(path string, took time.Duration, err error) {
	var no *refusal
	if err != nil && !errors.As(err, &no) {
		m.failures.WithLabelValues(path).Inc()
	}
	m.durations.WithLabelValues(path).Observe(took.Seconds())
}
