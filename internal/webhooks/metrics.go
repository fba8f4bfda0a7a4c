package webhooks

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/internal/metricset"
)

// Metrics are those of a Keeper. When the certificate expires is in those of internal/serving.
type Metrics struct {
	rotations           prometheus.Counter
	ready               *prometheus.GaugeVec
	repairs             *prometheus.CounterVec
	failing, namespaces prometheus.Gauge
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_webhook_")
	m := &Metrics{
		rotations: set.Counter("certificate_rotations_total",
			"Certificates of the webhooks that this process put into use for all.").WithLabelValues(),
		ready: set.Gauge("configuration_ready", "1 if a webhook configuration, mutating or validating, is installed and complete, else 0.",
			"configuration"),
		repairs: set.Counter("configuration_repairs_total", "How often a webhook configuration was restored that something else had changed.",
			"configuration"),
		failing: set.Gauge("certificate_failing",
			"1 while the Secret with the certificate of the webhooks cannot be read or written, else 0.").WithLabelValues(),
		namespaces: set.Gauge("namespaces", "Namespaces whose pods the API server sends to the webhooks.").WithLabelValues(),
	}
	metricset.Preset(m.ready, kinds)
	metricset.Preset(m.repairs, kinds)
	return m, set.Register(r)
}

func (m *Metrics) see(both []*configuration, namespaces int, certificate error) {
	for _, c := range both {
		m.ready.WithLabelValues(c.kind).Set(metricset.Number(c.exists && c.problem == nil))
	}
	m.namespaces.Set(float64(namespaces))
	m.failing.Set(metricset.Number(certificate != nil))
}
