// Package metricset makes metrics of Prometheus whose names begin alike, and registers them together.
//
// It knows nothing of what they count.
package metricset

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Set makes metrics. They are registered by Register.
type Set struct {
	prefix string
	all    []prometheus.Collector
}

// New returns a Set of metrics whose names begin with a prefix.
func New(prefix string) *Set { return &Set{prefix: prefix} }

// Counter makes counters.
func (s *Set) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return Add(s, prometheus.NewCounterVec(prometheus.CounterOpts{Name: s.prefix + name, Help: help}, labels))
}

// Gauge makes gauges.
func (s *Set) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return Add(s, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: s.prefix + name, Help: help}, labels))
}

// Histogram makes histograms.
func (s *Set) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return Add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: s.prefix + name, Help: help, Buckets: buckets}, labels))
}

// Add takes in a collector of its own kind.
func Add[C prometheus.Collector](s *Set, c C) C {
	s.all = append(s.all, c)
	return c
}

// Register registers all metrics, unless r is nil. It fails if metrics of the same names are registered already.
func (s *Set) Register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range s.all {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("registering the metrics %s*: %w", s.prefix, err)
		}
	}
	return nil
}

// Or returns metrics, or else new ones that are registered nowhere.
func Or[M any](m *M, create func(prometheus.Registerer) (*M, error)) *M {
	if m == nil {
		m, _ = create(nil) // nothing is registered, so nothing can be registered twice
	}
	return m
}

// Preset has metrics of all combinations of values shown from the beginning, one list of values for each label.
func Preset[M any](of interface{ WithLabelValues(...string) M }, values ...[]string) {
	preset(of, nil, values)
}

func preset[M any](of interface{ WithLabelValues(...string) M }, chosen []string, left [][]string) {
	if len(left) == 0 {
		of.WithLabelValues(chosen...)
		return
	}
	for _, value := range left[0] {
		preset(of, append(chosen[:len(chosen):len(chosen)], value), left[1:])
	}
}

// Number is the value of a gauge for what holds or not.
func Number(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// Forget drops what is about something that has gone, by all of its labels.
func (s *Set) Forget(labels prometheus.Labels) {
	for _, c := range s.all {
		if vec, ok := c.(interface {
			DeletePartialMatch(prometheus.Labels) int
		}); ok {
			vec.DeletePartialMatch(labels)
		}
	}
}

// Passing are gauges of things that come and go. It must not be used by several goroutines at a time.
type Passing[K comparable] struct {
	vec    *prometheus.GaugeVec
	labels func(K) []string
	shown  map[K]float64
}

// NewPassing makes the gauges. The label values of a thing are what a function returns for it.
func NewPassing[K comparable](s *Set, name, help string, values func(K) []string, labels ...string) *Passing[K] {
	return &Passing[K]{vec: s.Gauge(name, help, labels...), labels: values}
}

// Show has the gauges of these things shown, and of no others. A scrape meanwhile finds each thing that stays: one that it missed would
// begin anew for Prometheus, and so would the time of its alerts.
func (p *Passing[K]) Show(now map[K]float64) {
	for thing, value := range now {
		p.vec.WithLabelValues(p.labels(thing)...).Set(value)
	}
	for thing := range p.shown {
		if _, stays := now[thing]; !stays {
			p.vec.DeleteLabelValues(p.labels(thing)...)
		}
	}
	p.shown = now
}

// ForgetObject is Forget for the labels namespace and name of an object.
func (s *Set) ForgetObject(key types.NamespacedName) {
	s.Forget(prometheus.Labels{"namespace": key.Namespace, "name": key.Name})
}

// Gauges are gauges of objects, each of which shows something of a T.
type Gauges[T any] []gauge[T]

type gauge[T any] struct {
	vec   *prometheus.GaugeVec
	value func(T) float64
}

// Add makes a gauge with the labels namespace and name.
func (g *Gauges[T]) Add(s *Set, name, help string, value func(T) float64) {
	*g = append(*g, gauge[T]{s.Gauge(name, help, "namespace", "name"), value})
}

// See sets the gauges of an object.
func (g Gauges[T]) See(key types.NamespacedName, now T) {
	for _, one := range g {
		one.vec.WithLabelValues(key.Namespace, key.Name).Set(one.value(now))
	}
}
