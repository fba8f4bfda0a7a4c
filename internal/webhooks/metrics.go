package webhooks

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of a Keeper. When the certificate expires is in those of internal/serving.
type Metrics struct {
	rotations  prometheus.Counter
	ready      *prometheus.GaugeVec
	repairs    *prometheus.CounterVec
	failing    prometheus.Gauge
	namespaces prometheus.Gauge
}

// NewMetrics registers metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		rotations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "evenkeel_webhook_certificate_rotations_total", Help: "Certificates of the webhooks that this process put into use for all.",
		}),
		ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "evenkeel_webhook_configuration_ready", Help: "1 if a webhook configuration, mutating or validating, is installed and complete, else 0.",
		}, []string{"configuration"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "evenkeel_webhook_configuration_repairs_total", Help: "How often a webhook configuration was restored that something else had changed.",
		}, []string{"configuration"}),
		failing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "evenkeel_webhook_certificate_failing", Help: "1 while the Secret with the certificate of the webhooks cannot be read or written, else 0.",
		}),
		namespaces: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "evenkeel_webhook_namespaces", Help: "Namespaces whose pods the API server sends to the webhooks.",
		}),
	}
	for _, kind := range []string{"mutating", "validating"} {
		m.ready.WithLabelValues(kind)
		m.repairs.WithLabelValues(kind)
	}
	var problems []error
	for _, c := range []prometheus.Collector{m.rotations, m.ready, m.repairs, m.failing, m.namespaces} {
		problems = append(problems, r.Register(c))
	}
	return m, errors.Join(problems...)
}

func (m *Metrics) rotated() {
	if m != nil {
		m.rotations.Inc()
	}
}

func (m *Metrics) restored(kind string) {
	if m != nil {
		m.repairs.WithLabelValues(kind).Inc()
	}
}

func (m *Metrics) see(both []*configuration, namespaces int, certificate error) {
	if m == nil {
		return
	}
	for _, c := range both {
		m.ready.WithLabelValues(c.kind).Set(number(c.exists && c.problem == nil))
	}
	m.namespaces.Set(float64(namespaces))
	m.failing.Set(number(certificate != nil))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
