package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

const phaseObserve, phaseDecide, phaseStore, phaseSend = "observe", "decide", "store", "send"

// The results of passes that have not failed: an unchanged one stored and wrote nothing.
const unchanged, stored, written = "unchanged", "stored", "written"

// Metrics are the metrics of a Controller. Counters and histograms are sums over all objects. Gauges
// have the labels namespace and name of their FederatedReplicaSet, and what is about a cluster has
// its name: they are gone with it.
type Metrics struct {
	set             *metricset.Set
	phases, latency *prometheus.HistogramVec
	passes, writes  *prometheus.CounterVec
	moves           prometheus.Counter
	gauges          metricset.Gauges[v1alpha1.FederatedReplicaSetStatus]
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_federation_")
	m := &Metrics{
		set: set,
		phases: set.Histogram("pass_duration_seconds",
			"Time that passes over FederatedReplicaSets took, by phase. Writes are sent by a pass, and made after it.",
			prometheus.ExponentialBuckets(0.0001, 4, 10), "phase"),
		passes: set.Counter("passes_total",
			"Passes over FederatedReplicaSets, by result: unchanged, stored (the status), written (local objects), conflict, failure.", "result"),
		writes: set.Counter("writes_total", "Local objects written, by cluster and result.", "cluster", "result"),
		latency: set.Histogram("write_duration_seconds",
			"Time from the decision to write a local object until it was written, or could not be, by cluster and verb.",
			prometheus.ExponentialBuckets(0.001, 4, 8), "cluster", "verb"),
		moves: set.Counter("moves_total", "Running replicas that left a cluster for another one.").WithLabelValues(),
	}
	m.gauges.Add(set, "requested_replicas", "Replicas that are asked for, by FederatedReplicaSet.",
		func(s v1alpha1.FederatedReplicaSetStatus) float64 { return float64(s.AskedReplicas) })
	m.gauges.Add(set, "unplaced_replicas", "Replicas that no cluster is able to run, or may, by FederatedReplicaSet.",
		func(s v1alpha1.FederatedReplicaSetStatus) float64 { return float64(s.Unplaced) })
	m.gauges.Add(set, "blocked_clusters", "Clusters that are known to be able to run only so many replicas, by FederatedReplicaSet.",
		func(s v1alpha1.FederatedReplicaSetStatus) (n float64) {
			for _, c := range s.Clusters {
				if c.Capacity != nil {
					n++
				}
			}
			return n
		})
	metricset.Preset(m.phases, []string{phaseObserve, phaseDecide, phaseStore, phaseSend})
	metricset.Preset(m.passes, []string{unchanged, stored, written, passes.Conflicted, passes.Failed})
	return m, set.Register(registerer)
}

// passed counts a pass that stored a status, or had none to store, and made some writes.
func (m *Metrics) passed(changed bool, writes int, err error) {
	result := passes.ResultOf(err)
	switch {
	case err != nil:
	case writes > 0:
		result = written
	case changed:
		result = stored
	default:
		result = unchanged
	}
	m.passes.WithLabelValues(result).Inc()
}

func (m *Metrics) wrote(w federation.Write, took time.Duration, err error) {
	if err == nil {
		m.moves.Add(float64(w.Moves))
	}
	m.writes.WithLabelValues(w.Cluster, passes.ResultOf(err)).Inc()
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

// forgetCluster drops what is about a cluster that is a member no longer.
func (m *Metrics) forgetCluster(name string) {
	m.set.Forget(prometheus.Labels{"cluster": name})
}
