package reconcile

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/controller/scale"
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

// tally is what there is of one Balancer, or of all.
type tally struct{ fallbacks, unplaced, unreadable int64 }

// Metrics are about all Balancers together: a label for each would have no bound.
type Metrics struct {
	phases   *prometheus.HistogramVec
	rescales *prometheus.CounterVec
	replicas *prometheus.CounterVec

	mu      sync.Mutex
	tallies map[types.NamespacedName]tally
}

// NewMetrics makes the metrics of a Controller and registers them; with nil nowhere. It fails where others of the same names
// are registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "evenkeel_balancers_"
	m := &Metrics{
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "pass_duration_seconds", Help: "Time that a pass over a Balancer took, by phase.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"phase"}),
		rescales: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "rescales_total", Help: "Sizes written to targets, by direction and result.",
		}, []string{"direction", "result"}),
		replicas: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "rescaled_replicas_total", Help: "Replicas that targets were given and that were taken from them, by direction.",
		}, []string{"direction"}),
		tallies: map[types.NamespacedName]tally{},
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
	gauge := func(name, help string, of func(tally) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, func() float64 { return float64(of(m.sum())) })
	}
	for _, c := range []prometheus.Collector{
		m.phases, m.rescales, m.replicas,
		gauge("fallbacks_active", "Targets in whose place others run replicas.", func(t tally) int64 { return t.fallbacks }),
		gauge("unplaced_replicas", "Replicas asked for that no target is able to run now.", func(t tally) int64 { return t.unplaced }),
		gauge("unreadable_targets", "Targets that can not be read.", func(t tally) int64 { return t.unreadable }),
	} {
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

// see takes in the status of a Balancer.
func (m *Metrics) see(key types.NamespacedName, in *balancer.Input, s v1alpha1.BalancerStatus) {
	var t tally
	if in.Spec.Replicas != nil {
		t.unplaced = int64(*in.Spec.Replicas)
	}
	for _, target := range s.Targets {
		t.unplaced -= int64(target.Desired - target.Pending)
		if target.Capacity != nil {
			t.fallbacks++
		}
		if target.Reason == balancer.ReasonUnreadable || target.Reason == balancer.ReasonUnknown {
			t.unreadable++
		}
	}
	t.unplaced = max(0, t.unplaced)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tallies[key] = t
}

func (m *Metrics) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tallies, key)
}

func (m *Metrics) sum() tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum tally
	for _, t := range m.tallies {
		sum.fallbacks += t.fallbacks
		sum.unplaced += t.unplaced
		sum.unreadable += t.unreadable
	}
	return sum
}
