package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

// What is written, and the results.
const (
	opWrite, opRemove           = "write", "remove"
	succeeded, vanished, failed = "success", "gone", "failure"
)

// Metrics are the metrics of a Controller: sums over all ReplicaSets.
type Metrics struct {
	decisions             prometheus.Observer
	writes                *prometheus.CounterVec
	sets, uneven, foreign prometheus.Gauge
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_deletioncost_")
	m := &Metrics{
		decisions: set.Histogram("decision_duration_seconds", "Time that decisions about the deletion costs of a ReplicaSet took.",
			prometheus.ExponentialBuckets(0.0001, 4, 8)).WithLabelValues(),
		writes: set.Counter("writes_total",
			"Deletion costs written to and removed from pods, by operation and result: gone if the pod no longer existed.", "operation", "result"),
		sets: set.Gauge("replicasets", "ReplicaSets for which deletion costs are asked for.").WithLabelValues(),
		uneven: set.Gauge("uneven_replicasets",
			"ReplicaSets whose deletion costs were not right yet when they were last looked at.").WithLabelValues(),
		foreign: set.Gauge("foreign_pods",
			"Pods that keep a deletion cost that somebody else wrote, although costs are asked for.").WithLabelValues(),
	}
	metricset.Preset(m.writes, []string{opWrite, opRemove}, []string{succeeded, vanished, failed})
	return m, set.Register(registerer)
}

// show replaces what a ReplicaSet adds to the gauges.
func (m *Metrics) show(before, now *known) {
	m.sets.Add(metricset.Number(now.asks) - metricset.Number(before.asks))
	m.uneven.Add(metricset.Number(now.uneven) - metricset.Number(before.uneven))
	m.foreign.Add(float64(now.foreign - before.foreign))
}

// wrote counts a write.
func (m *Metrics) wrote(w deletioncost.Write, err error) {
	operation, result := opWrite, succeeded
	if w.Cost == 0 {
		operation = opRemove
	}
	switch {
	case err == nil:
	case gone(err):
		result = vanished
	default:
		result = failed
	}
	m.writes.WithLabelValues(operation, result).Inc()
}
