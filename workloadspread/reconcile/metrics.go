package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// The phases of a pass.
const (
	phaseRead  = "read"
	phaseStore = "store"
	phaseWrite = "write"
)

// What is written to pods.
const opMark, opDelete = "mark", "delete"

// Metrics are the metrics of a Controller. Counters and histograms are sums over all WorkloadSpreads.
// Gauges have the labels namespace and name of their WorkloadSpread: a scrape has to honor these
// labels.
type Metrics struct {
	set           *metricset.Set
	phases        *prometheus.HistogramVec
	writes, moves *prometheus.CounterVec
	gauges        metricset.Gauges[*workloadspread.Decision]
	replicas, max *prometheus.GaugeVec
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_workloadspread_")
	m := &Metrics{
		set: set,
		phases: set.Histogram("pass_duration_seconds", "Time that passes over WorkloadSpreads took, by phase.",
			prometheus.ExponentialBuckets(0.0001, 4, 10), "phase"),
		writes: set.Counter("pod_writes_total",
			"Writes to pods of WorkloadSpreads, by operation and result: mark writes assignments and deletion costs.", "operation", "result"),
		moves:    set.Counter("events_total", "What happened to pods and subsets of WorkloadSpreads, by the reason of the event.", "reason"),
		replicas: set.Gauge("subset_replicas", "Active pods, by WorkloadSpread and subset.", "namespace", "name", "subset"),
		max: set.Gauge("subset_max_replicas", "Pods that a subset may have now, -1 if there is no bound, by WorkloadSpread and subset.",
			"namespace", "name", "subset"),
	}
	m.gauges.Add(set, "unassigned_pods", "Pods that belong to no subset, by WorkloadSpread.",
		func(d *workloadspread.Decision) float64 { return float64(d.Status.Unassigned) })
	m.gauges.Add(set, "deferred_pods", "Pods that would move on if the autoscaler did not act for them, by WorkloadSpread.",
		func(d *workloadspread.Decision) float64 { return float64(d.Deferred) })
	m.gauges.Add(set, "marked_subsets", "Subsets that new pods pass over because pods could not be scheduled there, by WorkloadSpread.",
		func(d *workloadspread.Decision) (n float64) {
			for i := range d.Status.SubsetStatuses {
				if d.Status.SubsetStatuses[i].UnschedulableUntil != nil {
					n++
				}
			}
			return n
		})
	metricset.Preset(m.phases, []string{phaseRead, phaseStore, phaseWrite})
	metricset.Preset(m.writes, []string{opMark, opDelete}, passes.Results)
	metricset.Preset(m.moves, []string{
		workloadspread.ReasonUnschedulable, workloadspread.ReasonRescheduled, workloadspread.ReasonCreationTimedOut,
	})
	return m, set.Register(registerer)
}

// wrote counts a write. A pod that is gone is a conflict.
func (m *Metrics) wrote(operation string, err error) {
	result := passes.ResultOf(err)
	if apierrors.IsNotFound(err) {
		result = passes.Conflicted
	}
	m.writes.WithLabelValues(operation, result).Inc()
}

// see sets the gauges of a WorkloadSpread.
func (m *Metrics) see(key types.NamespacedName, d *workloadspread.Decision) {
	m.set.ForgetObject(key) // a subset may be gone
	m.gauges.See(key, d)
	for i := range d.Status.SubsetStatuses {
		s := &d.Status.SubsetStatuses[i]
		m.replicas.WithLabelValues(key.Namespace, key.Name, s.Name).Set(float64(s.Replicas))
		m.max.WithLabelValues(key.Namespace, key.Name, s.Name).Set(float64(s.MaxReplicas))
	}
}
