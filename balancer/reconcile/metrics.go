package reconcile

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

// The phases of a pass.
const (
	phaseRead   = "read"
	phaseDecide = "decide"
	phaseWrite  = "write"
	phaseStore  = "store"
)

// The values of labels of rescales.
const (
	up, down                         = "up", "down"
	succeeded, conflicted, otherwise = "success", "conflict", "failure"
)

// gauges are the gauges of one Balancer, by the name of the metric.
var gauges = map[string]struct {
	help string
	of   func(*balancer.Input, v1alpha1.BalancerStatus) int64
}{
	"requested_replicas": {"Replicas that are asked for, by Balancer.", func(_ *balancer.Input, s v1alpha1.BalancerStatus) int64 {
		return int64(ptr.Deref(s.RequestedReplicas, 0))
	}},
	"running_replicas": {"Replicas that run, by Balancer.", func(_ *balancer.Input, s v1alpha1.BalancerStatus) int64 { return int64(s.Running) }},
	"fallbacks_active": {"Targets whose replicas other targets run because they have not started in time, by Balancer.", func(_ *balancer.Input, s v1alpha1.BalancerStatus) int64 {
		return count(s, func(t v1alpha1.BalancerTargetStatus) bool { return t.Capacity != nil })
	}},
	"unplaced_replicas": {"Replicas that no target is able to run now, by Balancer.", unplaced},
	"unreadable_targets": {"Targets that cannot be read, by Balancer.", func(_ *balancer.Input, s v1alpha1.BalancerStatus) int64 {
		return count(s, reason(balancer.ReasonUnreadable, balancer.ReasonUnknown))
	}},
	"missing_targets": {"Targets that do not exist, by Balancer.", func(_ *balancer.Input, s v1alpha1.BalancerStatus) int64 {
		return count(s, reason(balancer.ReasonMissing))
	}},
	"contested_targets": {"Targets that are left alone because something else also writes their sizes, by Balancer.", func(_ *balancer.Input, s v1alpha1.BalancerStatus) int64 {
		return count(s, reason(balancer.ReasonSecondWriter))
	}},
}

func reason(of ...string) func(v1alpha1.BalancerTargetStatus) bool {
	return func(t v1alpha1.BalancerTargetStatus) bool { return slices.Contains(of, t.Reason) }
}

func count(s v1alpha1.BalancerStatus, which func(v1alpha1.BalancerTargetStatus) bool) (n int64) {
	for _, t := range s.Targets {
		if which(t) {
			n++
		}
	}
	return n
}

func unplaced(in *balancer.Input, s v1alpha1.BalancerStatus) int64 {
	n := int64(ptr.Deref(in.Spec.Replicas, 0))
	for _, t := range s.Targets {
		n -= int64(t.Desired - t.Pending)
	}
	return max(0, n)
}

// Metrics are the metrics of a Controller. Counters and histograms are sums over all Balancers.
// Gauges have the labels namespace and name of their Balancer, like the metrics of Kubernetes
// objects: a scrape has to honor these labels.
type Metrics struct {
	phases   *prometheus.HistogramVec
	rescales *prometheus.CounterVec
	replicas *prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	// malformed is 1 for a Balancer that does not parse.
	malformed *prometheus.GaugeVec
}

// NewMetrics returns the metrics of a Controller, registered with the registerer if that is not
// nil. It fails if metrics of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "evenkeel_balancer_"
	m := &Metrics{
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "pass_duration_seconds", Help: "Time that passes over Balancers took, by phase.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"phase"}),
		rescales: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "rescales_total", Help: "Sizes written to targets, by direction and result.",
		}, []string{"direction", "result"}),
		replicas: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "rescaled_replicas_total", Help: "Replicas added to and removed from targets, by direction.",
		}, []string{"direction"}),
		gauges: map[string]*prometheus.GaugeVec{},
	}
	m.malformed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "malformed", Help: "1 for a Balancer that does not parse and is left alone.",
	}, []string{"namespace", "name"})
	all := []prometheus.Collector{m.phases, m.rescales, m.replicas, m.malformed}
	for name, g := range gauges {
		m.gauges[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: g.help}, []string{"namespace", "name"})
		all = append(all, m.gauges[name])
	}
	for _, phase := range []string{phaseRead, phaseDecide, phaseWrite, phaseStore} {
		m.phases.WithLabelValues(phase)
	}
	for _, direction := range []string{up, down} {
		m.replicas.WithLabelValues(direction)
		for _, result := range []string{succeeded, conflicted, otherwise} {
			m.rescales.WithLabelValues(direction, result)
		}
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range all {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of Balancers: %w", err)
		}
	}
	return m, nil
}

// wrote counts a write.
func (m *Metrics) wrote(w balancer.Write, err error) {
	direction, n := up, int64(w.To)-int64(w.From)
	if n < 0 {
		direction, n = down, -n
	}
	result := succeeded
	switch {
	case scale.ReasonOf(err) == scale.ReasonConflict:
		result = conflicted
	case err != nil:
		result = otherwise
	default:
		m.replicas.WithLabelValues(direction).Add(float64(n))
	}
	m.rescales.WithLabelValues(direction, result).Inc()
}

// see sets the gauges of a Balancer.
func (m *Metrics) see(key types.NamespacedName, in *balancer.Input, s v1alpha1.BalancerStatus) {
	for name, g := range gauges {
		m.gauges[name].WithLabelValues(key.Namespace, key.Name).Set(float64(g.of(in, s)))
	}
}

func (m *Metrics) forget(key types.NamespacedName) {
	for _, g := range m.gauges {
		g.DeleteLabelValues(key.Namespace, key.Name)
	}
	m.malformed.DeleteLabelValues(key.Namespace, key.Name)
}
