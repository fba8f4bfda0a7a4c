package reconcile

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/federation"
)

// Metrics are the metrics of a Controller. Counters and histograms are sums over all objects. Gauges
// have the labels namespace and name of their FederatedReplicaSet.
type Metrics struct {
	passes   prometheus.Histogram
	writes   *prometheus.CounterVec
	moves    prometheus.Counter
	asked    *prometheus.GaugeVec
	unplaced *prometheus.GaugeVec
	blocked  *prometheus.GaugeVec
}

// NewMetrics returns the metrics of a Controller, registered with the registerer if that is not
// nil. It fails if metrics of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "evenkeel_federation_"
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, []string{"namespace", "name"})
	}
	m := &Metrics{
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "pass_duration_seconds", Help: "Time that passes over FederatedReplicaSets took, without the writes to members.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "writes_total", Help: "Local objects written, by cluster and result.",
		}, []string{"cluster", "result"}),
		moves: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "moves_total", Help: "Running replicas that left a cluster for another one.",
		}),
		asked:    gauge("requested_replicas", "Replicas that are asked for, by FederatedReplicaSet."),
		unplaced: gauge("unplaced_replicas", "Replicas that no cluster is able to run, or may, by FederatedReplicaSet."),
		blocked:  gauge("blocked_clusters", "Clusters that are known to be able to run only so many replicas, by FederatedReplicaSet."),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.passes, m.writes, m.moves, m.asked, m.unplaced, m.blocked} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of FederatedReplicaSets: %w", err)
		}
	}
	return m, nil
}

// wrote counts a write.
func (m *Metrics) wrote(w federation.Write, err error) {
	result := "success"
	switch {
	case apierrors.IsConflict(err):
		result = "conflict"
	case err != nil:
		result = "failure"
	default:
		m.moves.Add(float64(w.Moves))
	}
	m.writes.WithLabelValues(w.Cluster, result).Inc()
}

// see sets the gauges of an object after a pass.
func (m *Metrics) see(key types.NamespacedName, d federation.Decision, took time.Duration) {
	m.passes.Observe(took.Seconds())
	blocked := 0
	for _, c := range d.Status.Clusters {
		if c.Capacity != nil {
			blocked++
		}
	}
	m.asked.WithLabelValues(key.Namespace, key.Name).Set(float64(d.Status.AskedReplicas))
	m.unplaced.WithLabelValues(key.Namespace, key.Name).Set(float64(d.Status.Unplaced))
	m.blocked.WithLabelValues(key.Namespace, key.Name).Set(float64(blocked))
}

func (m *Metrics) forget(key types.NamespacedName) {
	for _, g := range []*prometheus.GaugeVec{m.asked, m.unplaced, m.blocked} {
		g.DeleteLabelValues(key.Namespace, key.Name)
	}
}
