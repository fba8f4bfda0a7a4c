package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

// Metrics are the metrics of a Store.
type Metrics struct {
	writes    *prometheus.CounterVec
	decisions prometheus.Counter
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_workloadspread_status_")
	m := &Metrics{
		writes: set.Counter("writes_total", "Writes of the status of WorkloadSpreads, by result. Conflicts and failures are tried again.",
			"result"),
		decisions: set.Counter("decisions_total",
			"Pods and reconciliations that were decided on the status of WorkloadSpreads. One write stores several.").WithLabelValues(),
	}
	metricset.Preset(m.writes, passes.Results)
	return m, set.Register(registerer)
}
