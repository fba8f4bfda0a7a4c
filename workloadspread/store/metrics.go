package store

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The results of writes.
const succeeded, conflicted, otherwise = "success", "conflict", "failure"

// Metrics are the metrics of a Store.
type Metrics struct {
	writes    *prometheus.CounterVec
	decisions prometheus.Counter
}

// NewMetrics returns the metrics of a Store, registered with the registerer if that is not nil. It
// fails if metrics of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "evenkeel_workloadspread_status_"
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "writes_total", Help: "Writes of the status of WorkloadSpreads, by result. Conflicts and failures are tried again.",
		}, []string{"result"}),
		decisions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "decisions_total", Help: "Pods and reconciliations that were decided on the status of WorkloadSpreads. One write stores several.",
		}),
	}
	for _, result := range []string{succeeded, conflicted, otherwise} {
		m.writes.WithLabelValues(result)
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.writes, m.decisions} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of the status of WorkloadSpreads: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) wrote(err error) {
	result := succeeded
	switch {
	case apierrors.IsConflict(err):
		result = conflicted
	case err != nil:
		result = otherwise
	}
	m.writes.WithLabelValues(result).Inc()
}

func (m *Metrics) answered(n int) { m.decisions.Add(float64(n)) }
