package reconcile

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/deletioncost"
)

const prefix = "evenkeel_deletioncost_"

// The gauges.
const (
	gaugeSets    = prefix + "replicasets"
	gaugeWrong   = prefix + "uneven_replicasets"
	gaugeForeign = prefix + "foreign_pods"
)

// What is written, and the results.
const (
	opWrite, opRemove           = "write", "remove"
	succeeded, vanished, failed = "success", "gone", "failure"
)

// Metrics are the metrics of a Controller: sums over all ReplicaSets.
type Metrics struct {
	decisions prometheus.Histogram
	writes    *prometheus.CounterVec

	mu    sync.Mutex
	state *state // nil until the Controller is set up
}

// NewMetrics returns the metrics of a Controller, registered with the registerer if that is not nil.
// It fails if metrics of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		decisions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "decision_duration_seconds", Help: "Time that decisions about the deletion costs of a ReplicaSet took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "writes_total", Help: "Deletion costs written to and removed from pods, by operation and result: gone if the pod no longer existed.",
		}, []string{"operation", "result"}),
	}
	for _, operation := range []string{opWrite, opRemove} {
		for _, result := range []string{succeeded, vanished, failed} {
			m.writes.WithLabelValues(operation, result)
		}
	}
	if registerer == nil {
		return m, nil
	}
	all := []prometheus.Collector{m.decisions, m.writes}
	for name, help := range map[string]string{
		gaugeSets:    "ReplicaSets for which deletion costs are asked for.",
		gaugeWrong:   "ReplicaSets whose deletion costs were not right yet when they were last looked at.",
		gaugeForeign: "Pods that keep a deletion cost that somebody else wrote, although costs are asked for.",
	} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return m.gauge(name) }))
	}
	for _, c := range all {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of deletion costs: %w", err)
		}
	}
	return m, nil
}

// sum makes the gauges sums over a state.
func (m *Metrics) sum(s *state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

func (m *Metrics) gauge(name string) float64 {
	m.mu.Lock()
	s := m.state
	m.mu.Unlock()
	if s == nil {
		return 0
	}
	return s.sum(name)
}

func (m *Metrics) decided(took time.Duration) { m.decisions.Observe(took.Seconds()) }

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
