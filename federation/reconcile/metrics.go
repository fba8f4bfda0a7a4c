package reconcile

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/federation"
)

// The phases of a pass.
const (
	phaseObserve = "observe"
	phaseDecide  = "decide"
	phaseStore   = "store"
	phaseSend    = "send"
)

// The results of passes and writes. A pass is unchanged if it stored and wrote nothing.
const (
	unchanged, stored, written       = "unchanged", "stored", "written"
	succeeded, conflicted, otherwise = "success", "conflict", "failure"
)

// Metrics are the metrics of a Controller. Counters and histograms are sums over all objects. Gauges
// have the labels namespace and name of their FederatedReplicaSet, and what is about a cluster has
// its name: they are gone with it.
type Metrics struct {
	phases   *prometheus.HistogramVec
	passes   *prometheus.CounterVec
	writes   *prometheus.CounterVec
	latency  *prometheus.HistogramVec
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
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "pass_duration_seconds", Help: "Time that passes over FederatedReplicaSets took, by phase. Writes are sent by a pass, and made after it.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"phase"}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "passes_total", Help: "Passes over FederatedReplicaSets, by result: unchanged, stored (the status), written (local objects), conflict, failure.",
		}, []string{"result"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "writes_total", Help: "Local objects written, by cluster and result.",
		}, []string{"cluster", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "write_duration_seconds", Help: "Time from the decision to write a local object until it was written, or could not be, by cluster and verb.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"cluster", "verb"}),
		moves: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "moves_total", Help: "Running replicas that left a cluster for another one.",
		}),
		asked:    gauge("requested_replicas", "Replicas that are asked for, by FederatedReplicaSet."),
		unplaced: gauge("unplaced_replicas", "Replicas that no cluster is able to run, or may, by FederatedReplicaSet."),
		blocked:  gauge("blocked_clusters", "Clusters that are known to be able to run only so many replicas, by FederatedReplicaSet."),
	}
	for _, phase := range []string{phaseObserve, phaseDecide, phaseStore, phaseSend} {
		m.phases.WithLabelValues(phase)
	}
	for _, result := range []string{unchanged, stored, written, conflicted, otherwise} {
		m.passes.WithLabelValues(result)
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.phases, m.passes, m.writes, m.latency, m.moves, m.asked, m.unplaced, m.blocked} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of FederatedReplicaSets: %w", err)
		}
	}
	return m, nil
}

// stopwatch returns a function that takes the time since its last call as that of a phase.
func (m *Metrics) stopwatch(c clock.PassiveClock) func(phase string) {
	last := c.Now()
	return func(phase string) {
		now := c.Now()
		m.phases.WithLabelValues(phase).Observe(now.Sub(last).Seconds())
		last = now
	}
}

// passed counts a pass that stored a status, or had none to store, and made some writes.
func (m *Metrics) passed(changed bool, writes int, err error) {
	result := unchanged
	switch {
	case apierrors.IsConflict(err):
		result = conflicted
	case err != nil:
		result = otherwise
	case writes > 0:
		result = written
	case changed:
		result = stored
	}
	m.passes.WithLabelValues(result).Inc()
}

// wrote counts a write.
func (m *Metrics) wrote(w federation.Write, took time.Duration, err error) {
	result := succeeded
	switch {
	case apierrors.IsConflict(err):
		result = conflicted
	case err != nil:
		result = otherwise
	default:
		m.moves.Add(float64(w.Moves))
	}
	m.writes.WithLabelValues(w.Cluster, result).Inc()
	m.latency.WithLabelValues(w.Cluster, verbOf(w)).Observe(took.Seconds())
}

// verbOf is what is done with a local object.
func verbOf(w federation.Write) string {
	switch {
	case w.Delete:
		return "delete"
	case w.Create:
		return "create"
	case w.Content:
		return "overwrite"
	}
	return "scale"
}

// see sets the gauges of an object after a pass.
func (m *Metrics) see(key types.NamespacedName, d federation.Decision) {
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

// forgetCluster drops what is about a cluster that is a member no longer.
func (m *Metrics) forgetCluster(name string) {
	of := prometheus.Labels{"cluster": name}
	m.writes.DeletePartialMatch(of)
	m.latency.DeletePartialMatch(of)
}

func (m *Metrics) forget(key types.NamespacedName) {
	for _, g := range []*prometheus.GaugeVec{m.asked, m.unplaced, m.blocked} {
		g.DeleteLabelValues(key.Namespace, key.Name)
	}
}
