package reconcile

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/workloadspread"
)

// The phases of a pass.
const (
	phaseRead  = "read"
	phaseStore = "store"
	phaseWrite = "write"
)

// What is written to pods, and the results.
const (
	opMark, opDelete, opSubstitute   = "mark", "delete", "substitute"
	succeeded, conflicted, otherwise = "success", "conflict", "failure"
)

// gauges are the gauges of one WorkloadSpread, by the name of the metric.
var gauges = map[string]struct {
	help string
	of   func(*workloadspread.Decision) int
}{
	"unassigned_pods": {"Pods that belong to no subset, by WorkloadSpread.", func(d *workloadspread.Decision) int { return int(d.Status.Unassigned) }},
	"deferred_pods": {"Pods that would move on if the autoscaler did not act for them, by WorkloadSpread.", func(d *workloadspread.Decision) int {
		return d.Deferred
	}},
	"marked_subsets": {"Subsets that new pods pass over because pods could not be scheduled there, by WorkloadSpread.", func(d *workloadspread.Decision) (n int) {
		for i := range d.Status.SubsetStatuses {
			if d.Status.SubsetStatuses[i].UnschedulableUntil != nil {
				n++
			}
		}
		return n
	}},
}

// Metrics are the metrics of a Controller. Counters and histograms are sums over all WorkloadSpreads.
// Gauges have the labels namespace and name of their WorkloadSpread: a scrape has to honor these
// labels.
type Metrics struct {
	phases       *prometheus.HistogramVec
	writes       *prometheus.CounterVec
	moves        *prometheus.CounterVec
	gauges       map[string]*prometheus.GaugeVec
	replicas, of *prometheus.GaugeVec
}

// NewMetrics returns the metrics of a Controller, registered with the registerer if that is not
// nil. It fails if metrics of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "evenkeel_workloadspread_"
	subset := []string{"namespace", "name", "subset"}
	m := &Metrics{
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "pass_duration_seconds", Help: "Time that passes over WorkloadSpreads took, by phase.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"phase"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "pod_writes_total", Help: "Writes to pods of WorkloadSpreads, by operation and result: mark writes assignments and deletion costs.",
		}, []string{"operation", "result"}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "events_total", Help: "What happened to pods and subsets of WorkloadSpreads, by the reason of the event.",
		}, []string{"reason"}),
		replicas: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "subset_replicas", Help: "Active pods, by WorkloadSpread and subset."}, subset),
		of:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "subset_max_replicas", Help: "Pods that a subset may have now, -1 if there is no bound, by WorkloadSpread and subset."}, subset),
		gauges:   map[string]*prometheus.GaugeVec{},
	}
	all := []prometheus.Collector{m.phases, m.writes, m.moves, m.replicas, m.of}
	for name, g := range gauges {
		m.gauges[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: g.help}, []string{"namespace", "name"})
		all = append(all, m.gauges[name])
	}
	for _, phase := range []string{phaseRead, phaseStore, phaseWrite} {
		m.phases.WithLabelValues(phase)
	}
	for _, operation := range []string{opMark, opDelete, opSubstitute} {
		for _, result := range []string{succeeded, conflicted, otherwise} {
			m.writes.WithLabelValues(operation, result)
		}
	}
	for _, reason := range []string{
		workloadspread.ReasonUnschedulable, workloadspread.ReasonRescheduled, workloadspread.ReasonSubstituted, workloadspread.ReasonSubstituteGone,
		workloadspread.ReasonCreationTimedOut, workloadspread.ReasonDeletionTimedOut,
	} {
		m.moves.WithLabelValues(reason)
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range all {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of WorkloadSpreads: %w", err)
		}
	}
	return m, nil
}

// wrote counts a write. A pod that is gone is a conflict.
func (m *Metrics) wrote(operation string, err error) {
	result := succeeded
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		result = conflicted
	case err != nil:
		result = otherwise
	}
	m.writes.WithLabelValues(operation, result).Inc()
}

// see sets the gauges of a WorkloadSpread.
func (m *Metrics) see(key types.NamespacedName, d *workloadspread.Decision) {
	for name, g := range gauges {
		m.gauges[name].WithLabelValues(key.Namespace, key.Name).Set(float64(g.of(d)))
	}
	m.forgetSubsets(key)
	for i := range d.Status.SubsetStatuses {
		s := &d.Status.SubsetStatuses[i]
		m.replicas.WithLabelValues(key.Namespace, key.Name, s.Name).Set(float64(s.Replicas))
		m.of.WithLabelValues(key.Namespace, key.Name, s.Name).Set(float64(s.MaxReplicas))
	}
}

// forgetSubsets drops the gauges of subsets, which may have been removed from the spec.
func (m *Metrics) forgetSubsets(key types.NamespacedName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "name": key.Name}
	m.replicas.DeletePartialMatch(labels)
	m.of.DeletePartialMatch(labels)
}

func (m *Metrics) forget(key types.NamespacedName) {
	for _, g := range m.gauges {
		g.DeleteLabelValues(key.Namespace, key.Name)
	}
	m.forgetSubsets(key)
}
