package reconcile

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

const phaseRead, phaseDecide, phaseWrite, phaseStore = "read", "decide", "write", "store"

const up, down = "up", "down"

func reason(of ...string) func(v1alpha1.BalancerTargetStatus) bool {
	return func(t v1alpha1.BalancerTargetStatus) bool { return slices.Contains(of, t.Reason) }
}

// count makes a gauge of the targets for which something holds.
func count(which func(v1alpha1.BalancerTargetStatus) bool) func(v1alpha1.BalancerStatus) float64 {
	return func(s v1alpha1.BalancerStatus) (n float64) {
		for _, t := range s.Targets {
			if which(t) {
				n++
			}
		}
		return n
	}
}

func unplaced(s v1alpha1.BalancerStatus) float64 {
	n := int64(ptr.Deref(s.RequestedReplicas, 0))
	for _, t := range s.Targets {
		n -= int64(t.Desired - t.Pending)
	}
	return float64(max(0, n))
}

// Metrics are the metrics of a Controller. Counters and histograms are sums over all Balancers.
// Gauges have the labels namespace and name of their Balancer, like the metrics of Kubernetes
// objects: a scrape has to honor these labels.
type Metrics struct {
	set                *metricset.Set
	phases             *prometheus.HistogramVec
	rescales, replicas *prometheus.CounterVec
	gauges             metricset.Gauges[v1alpha1.BalancerStatus]
	malformed          *prometheus.GaugeVec // 1 for a Balancer that does not parse
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_balancer_")
	m := &Metrics{
		set: set,
		phases: set.Histogram("pass_duration_seconds", "Time that passes over Balancers took, by phase.",
			prometheus.ExponentialBuckets(0.0001, 4, 10), "phase"),
		rescales:  set.Counter("rescales_total", "Sizes written to targets, by direction and result.", "direction", "result"),
		replicas:  set.Counter("rescaled_replicas_total", "Replicas added to and removed from targets, by direction.", "direction"),
		malformed: set.Gauge("malformed", "1 for a Balancer that does not parse and is left alone.", "namespace", "name"),
	}
	m.gauges.Add(set, "requested_replicas", "Replicas that are asked for, by Balancer.",
		func(s v1alpha1.BalancerStatus) float64 { return float64(ptr.Deref(s.RequestedReplicas, 0)) })
	m.gauges.Add(set, "running_replicas", "Replicas that run, by Balancer.",
		func(s v1alpha1.BalancerStatus) float64 { return float64(s.Running) })
	m.gauges.Add(set, "fallbacks_active", "Targets whose replicas other targets run because they have not started in time, by Balancer.",
		count(func(t v1alpha1.BalancerTargetStatus) bool { return t.Capacity != nil }))
	m.gauges.Add(set, "unplaced_replicas", "Replicas that no target is able to run now, by Balancer.", unplaced)
	m.gauges.Add(set, "unreadable_targets", "Targets that cannot be read, by Balancer.",
		count(reason(balancer.ReasonUnreadable, balancer.ReasonUnknown)))
	m.gauges.Add(set, "missing_targets", "Targets that do not exist, by Balancer.", count(reason(balancer.ReasonMissing)))
	m.gauges.Add(set, "contested_targets", "Targets whose sizes something else also writes, by Balancer.",
		count(reason(balancer.ReasonSecondWriter)))
	metricset.Preset(m.phases, []string{phaseRead, phaseDecide, phaseWrite, phaseStore})
	metricset.Preset(m.replicas, []string{up, down})
	metricset.Preset(m.rescales, []string{up, down}, passes.Results)
	return m, set.Register(registerer)
}

func (m *Metrics) wrote(w balancer.Write, err error) {
	direction, n := up, int64(w.To)-int64(w.From)
	if n < 0 {
		direction, n = down, -n
	}
	if err == nil {
		m.replicas.WithLabelValues(direction).Add(float64(n))
	}
	m.rescales.WithLabelValues(direction, passes.ResultOf(err)).Inc()
}
