package schedule

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/workloadspread"
)

// Metrics count what a Simulator answers.
type Metrics struct {
	seconds   prometheus.Histogram
	rooms     *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "evenkeel_workloadspread_simulation_seconds", Help: "Time of the simulation of one new pod, over all subsets.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1},
		}),
		rooms: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "evenkeel_workloadspread_simulated_subsets_total", Help: "Subsets for which a new pod was simulated, by what has room: node, autoscaler, none or unknown.",
		}, []string{"room"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "evenkeel_workloadspread_simulation_fallbacks_total", Help: "Simulations that had no answer, so that the plain order counts, by reason: busy, timeout or error.",
		}, []string{"reason"}),
	}
	for _, room := range roomNames {
		m.rooms.WithLabelValues(room)
	}
	for _, reason := range []string{"busy", "timeout", "error"} {
		m.fallbacks.WithLabelValues(reason)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.seconds, m.rooms, m.fallbacks} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the simulation: %w", err)
		}
	}
	return m, nil
}

var roomNames = map[workloadspread.Room]string{
	workloadspread.RoomUnknown: "unknown", workloadspread.RoomOnNode: "node",
	workloadspread.RoomByAutoscaler: "autoscaler", workloadspread.RoomNone: "none",
}

func (m *Metrics) answered(took time.Duration, rooms []workloadspread.Room, fallback string) {
	m.seconds.Observe(took.Seconds())
	for _, room := range rooms {
		m.rooms.WithLabelValues(roomNames[room]).Inc()
	}
	if fallback != "" {
		m.fallbacks.WithLabelValues(fallback).Inc()
	}
}
